"""How JAX switches on the strategies of `framebench/strategies/steps.toml`, and their proofs.

The proofs count the equations that JAX traced (the request) and the instructions of the executable
(the compiler's answer).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array, lax
from jax.extend.core import ClosedJaxpr, Primitive, primitives

from framebench.adapters.base import Switches
from framebench.adapters.jax.accumulation import Tree
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.checkpoint import stack_layers
from framebench.adapters.jax.program import (
    ATTENTION,
    PRODUCTS,
    find_products,
    walk_equations,
)
from framebench.adapters.jax.states import find_state
from framebench.adapters.proof import (
    Evidence,
    Proof,
    above,
    at_least,
    below,
    check,
    equal_to,
    expect,
)
from framebench.adapters.replacing import replace_attributes

switch = Switches()
LOOP = " while("  # in the optimised HLO
LAYOUT = ("NHWC", "HWIO", "NHWC")  # of a convolution's input, its kernel and its output
# channels of two convolutions: a kernel that was tried for one shape is not tried again for it
CHANNELS_UNTRIED = 48
CHANNELS_TRIED = 56


@switch
def chunked_loss(adapter: JaxAdapter, chunks: int) -> Proof:
    """Compute the logits and their loss chunk by chunk, and again in the backward pass."""
    adapter.recipe.model_options["head"] = adapter.model_module.skip_head

    def loss(unprojected: tuple[nnx.Embed, Array], x: Array, y: Array, constants: Tree) -> Array:
        """Return the mean loss, added up over chunks of the logits."""
        embedding, hidden = unprojected

        @partial(jax.checkpoint, prevent_cse=False)  # a loop needs no barriers
        def add_chunk(total: Array, chunk: tuple[Array, Array]) -> tuple[Array, None]:
            hidden, targets = chunk
            return total + adapter.model_module.loss_sum(embedding.attend(hidden), targets), None

        start = jnp.zeros((), jnp.promote_types(hidden.dtype, jnp.float32))
        hidden_chunks = hidden.reshape(chunks, -1, hidden.shape[-1])
        target_chunks = y.reshape(chunks, -1)
        total, _ = lax.scan(add_chunk, start, (hidden_chunks, target_chunks))
        return total / y.size

    adapter.recipe.loss = loss

    def sum_hidden(unprojected: tuple[nnx.Embed, Array], *_: Any) -> Array:
        """Return a loss of the hidden states: no logits are computed."""
        _embedding, hidden = unprojected
        return hidden.sum()

    def count_loops_and_logits() -> Evidence:
        """Count the loops over chunks, and results as large as the logits.

        Such results are also counted in a step that ends before the head.
        """
        without_head = adapter.trace_with(loss=sum_hidden).jaxpr
        return {
            "as_large_as_the_logits": count_large_results(adapter, *adapter.list_jaxprs()),
            "as_large_without_a_head": count_large_results(adapter, without_head),
            **count_loops(adapter, chunks),
        }

    def are_compiled(evidence: Evidence) -> bool:
        compiled = evidence["compiled_loops"]
        return bool(compiled == 0 or compiled >= evidence["loops"])

    proof = expect(
        as_large_as_the_logits=equal_to("as_large_without_a_head"),
        loops=at_least(2),  # of the forward pass and of the backward pass
    )
    proof &= check(
        are_compiled,
        "the compiler leaves each of the loops, or the step is eager and has none",
    )
    return proof.counting(count_loops_and_logits)


def count_large_results(adapter: JaxAdapter, *jaxprs: ClosedJaxpr) -> int:
    """Return how many results are as wide as the logits, with all rows of a micro-batch."""
    _, targets = adapter.inputs
    rows = targets.size // adapter.micro_batches
    columns = adapter.config.vocabulary
    transposed_embedding = (adapter.config.width, columns)
    count = 0
    for equation in walk_equations(*jaxprs):
        for variable in equation.outvars:
            shape = variable.aval.shape
            if shape[-1:] == (columns,) and shape != transposed_embedding:
                count += math.prod(shape) >= rows * columns
    return count


def find_loops(adapter: JaxAdapter, length: int) -> list[Any]:
    """Return the loops with so many passes that JAX traced in a step."""
    loops = [e for e in walk_equations(*adapter.list_jaxprs()) if e.primitive.name == "scan"]
    return [loop for loop in loops if loop.params["length"] == length]


def count_loops(adapter: JaxAdapter, length: int) -> Evidence:
    """Count the loops with so many passes that JAX traced, and all loops of the executable."""
    return {
        "loops": len(find_loops(adapter, length)),
        "compiled_loops": adapter.program.count_text(LOOP),
    }


@switch
def accumulate(adapter: JaxAdapter) -> Proof:
    """Prove that a step loops over micro-batches."""

    def count_micro_steps() -> Evidence:
        """Count the passes of the loops that take parts of the batch."""
        batch = adapter.case.batch
        arrays = jax.tree.leaves(adapter.inputs)
        x = next(array for array in arrays if array.shape[:1] == (batch,))
        micro_batch = (batch // adapter.micro_batches, *x.shape[1:])
        micro_steps = 0
        for loop in find_loops(adapter, adapter.micro_batches):
            # with its type: a loop over equally many layers may have activations of that shape
            operands = {(variable.aval.shape, variable.aval.dtype) for variable in loop.invars}
            if ((adapter.micro_batches, *micro_batch), x.dtype) in operands:
                micro_steps += adapter.micro_batches
        return {
            "micro_steps": micro_steps,
            "compiled_loops": adapter.program.count_text(LOOP),
        }

    def is_compiled(evidence: Evidence) -> bool:
        return bool(evidence["compiled_loops"] > 0 or adapter.recipe.eager)

    proof = expect(micro_steps=adapter.micro_batches) & check(
        is_compiled, "the executable has a loop"
    )
    return proof.counting(count_micro_steps)


@switch
def multi_steps(adapter: JaxAdapter) -> Proof:
    """Accumulate gradients by optax, in calls of a smaller step.

    The optimizer's state counts the updates.
    """
    adapter.recipe.calls = adapter.micro_batches
    dtype = np.float64 if adapter.float64 else np.float32

    def accumulate(inner: optax.GradientTransformation) -> optax.GradientTransformation:
        multi = optax.MultiSteps(inner, adapter.micro_batches, accumulator_dtype=dtype)
        return multi.gradient_transformation()

    adapter.recipe.wrap("optimizer", accumulate)

    def read_updates() -> int:
        return int(find_state(adapter.optimizer_state, optax.MultiStepsState).gradient_step)

    def count_updates() -> Evidence:
        """Count the updates of one more step, and list the batch sizes of compiled programs."""
        before = read_updates()
        adapter.step()
        adapter.synchronize()
        part = adapter.case.batch // adapter.micro_batches
        return {
            "updates": read_updates() - before,
            "compiled_batches": [shape[0] for shape in adapter.program.compiled],
            "expected_batches": [] if adapter.recipe.eager else [part],
        }

    # the one program is compiled for a part of the batch
    return expect(updates=1, compiled_batches=equal_to("expected_batches")).counting(count_updates)


@switch
def scan(adapter: JaxAdapter) -> Proof:
    """Loop over identical layers in the compiled program."""
    stack_layers(adapter)

    def count_layer_loops() -> Evidence:
        unrolled = adapter.trace_with(model_options=adapter.recipe.model_options | {"scan": False})
        products = len(find_products(unrolled.jaxpr))
        return count_loops(adapter, adapter.config.layers) | {"products_unrolled": products}

    proof = expect(
        loops=at_least(2),  # of the forward pass and of the backward pass
        compiled_loops=at_least("loops"),
        products=below("products_unrolled"),
    )
    return proof.counting(count_layer_loops)


@contextmanager
def count_dispatches() -> Iterator[Counter[str]]:
    """Count the primitives that are executed one by one, by name."""
    counts: Counter[str] = Counter()

    def count_and_run(name: str, implementation: Any, *args: Any, **params: Any) -> Any:
        counts[name] += 1
        return implementation(*args, **params)

    with ExitStack() as stack:
        # a set, since some have two names
        for primitive in {p for p in vars(primitives).values() if isinstance(p, Primitive)}:
            counting = partial(count_and_run, primitive.name, primitive.impl)
            stack.enter_context(replace_attributes(primitive, impl=counting))
        yield counts


@switch
def no_jit(adapter: JaxAdapter) -> Proof:
    """Run operation by operation, without compiling."""
    adapter.recipe.eager = True

    def count_dispatched() -> Evidence:
        """Make a step, and count the operations that were started one by one."""
        with count_dispatches() as counts:
            adapter.one_step()
            adapter.synchronize()
        return {
            "dispatched": counts.total(),
            "dispatched_products": sum(counts[name] for name in PRODUCTS),
        }

    proof = expect(compilations=0, products=above(0), dispatched_products=at_least("products"))
    return proof.counting(count_dispatched)


@switch
def sdpa(adapter: JaxAdapter, backend: str) -> Proof:
    """Compute attention by cuDNN, the only kernel in the table that JAX can choose."""
    assert backend == "CUDNN_ATTENTION"
    attend = partial(jax.nn.dot_product_attention, is_causal=True, implementation="cudnn")
    adapter.recipe.model_options["attend"] = attend

    def count_calls() -> Evidence:
        return {"fused_attentions": adapter.program.count_text(ATTENTION)}

    return expect(fused_attentions=above(0)).counting(count_calls)


def count_allocations(adapter: JaxAdapter, *, channels: int, **options: Any) -> int:
    """Return how often XLA allocates while it compiles a convolution: trials of kernels do.

    Args:
        adapter: The adapter, which reads the device's allocator.
        channels: The number of channels of the convolution's input, and of its output.
        options: Options of the compiler, besides the flags in force.
    """
    # a random factor makes a program that is in no cache; the cache of single results is off
    factor = random.random()
    no_cache = {"xla_gpu_per_fusion_autotune_cache_dir": ""}

    def convolve(x: Array, w: Array) -> Array:
        y = lax.conv_general_dilated(
            x, w, window_strides=(1, 1), padding="SAME", dimension_numbers=LAYOUT
        )
        return factor * y

    x = jax.ShapeDtypeStruct((2, 40, 40, channels), jnp.float32)
    w = jax.ShapeDtypeStruct((3, 3, channels, channels), jnp.float32)
    before = adapter.read_allocator().get("num_allocs", 0)
    jax.jit(convolve).lower(x, w).compile(no_cache | options)
    return adapter.read_allocator().get("num_allocs", 0) - before


@switch
def autotune_off(adapter: JaxAdapter) -> Proof:
    """Prove that XLA tries out no kernels. The flag came from the environment, before the import.

    One convolution is compiled with the flags of the step. For another one XLA tries kernels, as it
    does by default.
    """

    def count_both() -> Evidence:
        return {
            "allocations_untried": count_allocations(adapter, channels=CHANNELS_UNTRIED),
            "allocations_tried": count_allocations(
                adapter, channels=CHANNELS_TRIED, xla_gpu_autotune_level=4
            ),
        }

    return expect(allocations_tried=above("allocations_untried", times=2)).counting(count_both)


@switch
def rewrite(adapter: JaxAdapter) -> Proof:
    """Compute 3-D convolutions by 2-D ones."""
    adapter.recipe.model_options["rewrite"] = True

    def count_convolutions() -> Evidence:
        counts: Counter[str] = Counter()
        for product in find_products(*adapter.list_jaxprs()):
            if product.primitive.name == "conv_general_dilated":
                axes = len(product.params["window_strides"])
                counts[f"{axes}-D"] += 1
        return {"convolutions": dict(counts)}

    proof = expect({"convolutions.3-D": 0, "convolutions.2-D": above(0)})
    return proof.counting(count_convolutions)
