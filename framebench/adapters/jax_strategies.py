"""How JAX switches each strategy on, and what proves that it was on. See `adapters/base.py` for what a switch is.

What the proofs rest on: the equations that JAX traced (what was asked for) and the executable's (what the compiler made of it).
"""

from __future__ import annotations

import gc
import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import Primitive, primitives

from framebench.adapters import base
from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.jax_program import PRODUCTS, compiled_products, equations, products, reductions, unique_bytes
from models import flax_weights
from models.flax_blocks import Run, as_it_is

if TYPE_CHECKING:
    from framebench.adapters.jax_adapter import JaxAdapter

Tree = Any
switch = Switches()
# XLA:CPU drops the barriers that jax.checkpoint sets before it removes common subexpressions, and so merges recomputations
# with the originals; no memory is saved. Without that pass the barriers last. A loop needs none; XLA:GPU was not tried.
KEEP_BARRIERS = {"xla_disable_hlo_passes": "cse_barrier_expander"}
LAYOUT = ("NHWC", "HWIO", "NHWC")


# precision


@switch
def fp32(run: JaxAdapter) -> Proof:
    """Every operand that enters a product, and the precision it is multiplied in."""

    def proof(e: Evidence) -> bool:
        strict = all(p.count("HIGHEST") == 2 for p in e["precision"])
        return strict and set(e["operands"]) == {np.dtype(run.width).name}

    return proof


@switch
def tf32(run: JaxAdapter) -> Proof:
    """JAX calls it HIGH. A product shows whether the device rounds: TensorFloat-32 has ten bits, so 1 + 2**-12 becomes 1."""
    run.precision = "tensorfloat32"

    def proof(e: Evidence) -> bool:
        x = jnp.full((256, 256), 1 + 2**-12)
        with jax.default_matmul_precision(run.precision):
            e["rounded_one"] = float((x @ x)[0, 0]) / 256
        asked = all(p.count("HIGH") == 2 and "HIGHEST" not in p for p in e["precision"])
        return asked and set(e["operands"]) == {"float32"} and abs(e["rounded_one"] - 1) < 2**-12

    return proof


def mostly(dtype: str) -> Proof:
    """The backward pass of attention keeps some operands in float32."""
    return lambda e: 2 * e["operands"].get(dtype, 0) > sum(e["operands"].values())


@switch
def amp_bf16(run: JaxAdapter) -> Proof:
    """What the compiler makes of it is in the evidence: XLA:CPU widens bfloat16."""
    run.model_options["dtype"] = jnp.bfloat16
    run.precision = "default"
    return mostly("bfloat16")


class Scaled(NamedTuple):
    """An optimizer's state, with the factor on the loss and the steps since it last changed."""

    inner: Tree
    scale: Array
    steady: Array


def with_loss_scale(optimizer: optax.GradientTransformation, start: float, growth: int = 2000) -> optax.GradientTransformation:
    """The gradient divided by the scale. An overflow halves the scale, the step is left out; `growth` good ones double it."""

    def init(params: Tree) -> Scaled:
        return Scaled(optimizer.init(params), jnp.float32(start), jnp.int32(0))

    def update(grads: Tree, state: Scaled, params: Tree) -> tuple[Tree, Scaled]:
        grads = jax.tree.map(lambda g: g / state.scale, grads)
        finite = jnp.all(jnp.array([jnp.isfinite(g).all() for g in jax.tree.leaves(grads)]))
        updates, inner = optimizer.update(grads, state.inner, params)
        updates = jax.tree.map(lambda u: jnp.where(finite, u, 0), updates)
        inner = jax.tree.map(lambda new, old: jnp.where(finite, new, old), inner, state.inner)
        grown = state.steady + 1 == growth
        scale = jnp.where(finite, jnp.where(grown, 2 * state.scale, state.scale), state.scale / 2)
        return updates, Scaled(inner, scale, jnp.where(finite & ~grown, state.steady + 1, 0))

    return optax.GradientTransformation(init, update)


def float16(run: JaxAdapter) -> None:
    """jax.nn.dot_product_attention asks for products of the kind F16_F16_F32, which XLA:CPU does not have."""
    run.precision = "default"
    if jax.default_backend() == "cpu" and hasattr(run.model_module, "written_out"):
        run.model_options["attend"] = run.model_module.written_out


@switch
def amp_fp16(run: JaxAdapter) -> Proof:
    """The scale starts where the first step overflows in none of the workloads: a step left out would have no gradient."""
    run.model_options["dtype"] = jnp.float16
    float16(run)
    run.optimizer = with_loss_scale(run.optimizer, 2.0**10)
    run.from_state = lambda state: {"scale": state.scale}

    def proof(e: Evidence) -> bool:
        e["scale"], e["steps_without_overflow"] = float(run.optimizer_state.scale), int(run.optimizer_state.steady)
        return mostly("float16")(e) and e["scale"] > 1 and e["steps_without_overflow"] > 0

    return proof


@switch
def half(run: JaxAdapter, dtype: str) -> Proof:
    run.width = jnp.dtype(dtype)
    run.precision = "default"
    if dtype == "float16":
        float16(run)
    return lambda e: set(e["operands"]) == {dtype} == {str(a.dtype) for a in jax.tree.leaves((run.params, run.stats))}


# recomputation


def recomputed(run: JaxAdapter, every: int, scan: bool, **options: Any) -> set[int]:
    """Makes the model run every so many of its blocks under jax.checkpoint. Returns the blocks, filled when it is traced."""
    again = cache(lambda block: nnx.remat(block, prevent_cse=not scan, **options))
    chosen: set[int] = set()

    def remat(i: int, block: Run) -> Run:
        if i % every:
            return block
        chosen.add(i)
        return again(block)

    run.model_options |= {"remat": remat, **({"scan": True} if scan else {})}
    if not scan:
        keep_barriers(run)
    return chosen


def keep_barriers(run: JaxAdapter) -> None:
    if jax.default_backend() == "cpu":
        run.compiler_options |= KEEP_BARRIERS


def without_remat(run: JaxAdapter) -> dict[str, Any]:
    return run.model_options | {"remat": as_it_is}


def scannable(run: JaxAdapter) -> bool:
    """A frozen half of a stack could not be told from the other."""
    return run.workload.scan_layers and run.case.scenario == "train"


@switch
def checkpoint(run: JaxAdapter, every: int = 1) -> Proof:
    """Products in the executable against those that were asked for and those of the same step without checkpointing.

    The compiler may merge a recomputation with the original; the strategy is then off, whatever the program says. It also
    turns a few products into something else (outer ones of a single sample): then the executables are compared.
    """
    chosen = recomputed(run, every, every == 1 and scannable(run))

    def proof(e: Evidence) -> bool:
        plain = run.otherwise(model_options=without_remat(run))
        e["products_without"], e["blocks_recomputed"] = len(products(plain.jaxpr)), len(chosen)
        again = e["products"] - e["products_without"]
        missing = 0 if run.eager else e["products"] - sum(e["compiled_products"].values())
        if missing > 0:
            e["compiled_products_without"] = dict(compiled_products(plain.lower().compile(run.compiler_options)))
            missing -= e["products_without"] - sum(e["compiled_products_without"].values())
        return missing <= 0 < again

    return proof


@switch
def checkpoint_dots(run: JaxAdapter) -> Proof:
    """No product is computed again, but the rest is: the executable has the plain step's products and more reductions, those
    of the norms. (Element-wise operations prove nothing: the compiler repeats them as it likes.)"""
    recomputed(run, 1, scannable(run), policy=jax.checkpoint_policies.dots_saveable)

    def proof(e: Evidence) -> bool:
        plain = run.otherwise(model_options=without_remat(run)).lower().compile(run.compiler_options)
        e["reductions"] = sum(reductions(c) for c in run.program.compiled.values())
        e["reductions_without"], e["compiled_products_without"] = reductions(plain), dict(compiled_products(plain))
        return e["compiled_products"] == e["compiled_products_without"] and e["reductions"] > e["reductions_without"]

    return proof


@switch
def offload(run: JaxAdapter) -> Proof:
    """Each block's input waits in host memory, the rest of the block is recomputed."""
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["input"], offload_src="device", offload_dst="pinned_host"
    )
    recomputed(run, 1, scannable(run), policy=policy)
    remat = run.model_options["remat"]
    named = cache(lambda block: lambda self, *xs: block(self, *(checkpoint_name(x, "input") for x in xs)))
    run.model_options["remat"] = lambda i, block: remat(i, named(block))

    def proof(e: Evidence) -> bool:
        """XLA:CPU drops the copies: its host memory and its device's are the same."""
        moved = [v.aval for q in run.jaxprs() for eq in equations(q) if eq.primitive.name == "device_put" for v in eq.outvars]
        e["bytes_to_host"] = sum(a.size * a.dtype.itemsize for a in moved if "<host>" in str(a))
        e["compiled_host_bytes"] = sum(c.memory_analysis().host_temp_size_in_bytes for c in run.program.compiled.values())
        return e["bytes_to_host"] > 0 and e["compiled_host_bytes"] > 0

    return proof


# batching and execution


@switch
def accumulate(run: JaxAdapter) -> Proof:
    def proof(e: Evidence) -> bool:
        x = run.inputs[0]
        wanted = (run.micro, x.shape[0] // run.micro, *x.shape[1:])
        loops = [eq for q in run.jaxprs() for eq in equations(q) if eq.primitive.name == "scan"]
        looped = [eq for eq in loops if eq.params["length"] == run.micro and wanted in {v.aval.shape for v in eq.invars}]
        e["micro_steps"], e["micro_batch"] = sum(eq.params["length"] for eq in looped), list(wanted[1:])
        return e["micro_steps"] == run.micro

    return proof


@switch
def scan(run: JaxAdapter) -> Proof:
    run.model_options["scan"] = True

    def proof(e: Evidence) -> bool:
        loops = [eq for q in run.jaxprs() for eq in equations(q) if eq.primitive.name == "scan"]
        e["loops"] = sum(eq.params["length"] == run.config.layers for eq in loops)
        e["compiled_loops"] = sum(c.as_text().count(" while(") for c in run.program.compiled.values())
        e["products_unrolled"] = len(products(run.otherwise(model_options=run.model_options | {"scan": False}).jaxpr))
        return e["compiled_loops"] >= e["loops"] >= 2 and e["products"] < e["products_unrolled"]  # forward and backward

    return proof


@contextmanager
def dispatches() -> Iterator[Counter[str]]:
    """Counts the primitives that are executed one by one, by name."""
    found: Counter[str] = Counter()
    known = [p for p in vars(primitives).values() if isinstance(p, Primitive)]
    before = {p: p.impl for p in known}

    def counting(primitive: Primitive, *args: Any, **params: Any) -> Any:
        found[primitive.name] += 1
        return before[primitive](*args, **params)

    for p in known:
        p.impl = partial(counting, p)
    try:
        yield found
    finally:
        for p in known:
            p.impl = before[p]


@switch
def no_jit(run: JaxAdapter) -> Proof:
    run.eager = True

    def proof(e: Evidence) -> bool:
        with dispatches() as found:
            run.one_step()
            run.synchronize()
        e["dispatched"], e["dispatched_products"] = found.total(), sum(found[name] for name in PRODUCTS)
        return e["compilations"] == 0 and e["dispatched_products"] >= e["products"] > 0

    return proof


@switch
def sdpa(run: JaxAdapter, backend: str) -> Proof:
    """The only one of the table's that JAX can choose; the executable calls the library's kernel."""
    assert backend == "CUDNN_ATTENTION"
    run.model_options["attend"] = partial(jax.nn.dot_product_attention, is_causal=True, implementation="cudnn")

    def proof(e: Evidence) -> bool:
        e["fused_attentions"] = sum(
            c.as_text().count('custom_call_target="__cudnn$fmha') for c in run.program.compiled.values()
        )
        return e["fused_attentions"] > 0

    return proof


def allocations(run: JaxAdapter, channels: int, **options: int) -> int:
    """Of the device's allocator, while a convolution is compiled by the flags in force and these options.

    What XLA tries out needs buffers. The factor makes a program that no cache has seen; the cache of single results is off.
    """
    factor = random.random()
    x, w = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 40, 40, channels), (3, 3, channels, channels)))
    convolution = jax.jit(lambda x, w: factor * lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=LAYOUT))
    before = run.statistics().get("num_allocs", 0)
    convolution.lower(x, w).compile({"xla_gpu_per_fusion_autotune_cache_dir": "", **options})
    return run.statistics().get("num_allocs", 0) - before


@switch
def autotune_off(run: JaxAdapter) -> Proof:
    """The flag came from the environment, before the import. The first convolution is compiled by the flags that the step was
    compiled by, the second one is tried out as by default."""

    def proof(e: Evidence) -> bool:
        e["allocations_untried"], e["allocations_tried"] = allocations(run, 48), allocations(run, 56, xla_gpu_autotune_level=4)
        return e["allocations_tried"] > 2 * e["allocations_untried"]

    return proof


@switch
def rewrite(run: JaxAdapter) -> Proof:
    run.model_options["rewrite"] = True

    def proof(e: Evidence) -> bool:
        convolutions = [eq for q in run.jaxprs() for eq in products(q) if eq.primitive.name == "conv_general_dilated"]
        ranks = Counter(len(eq.params["window_strides"]) for eq in convolutions)
        e["convolutions"] = {f"{rank}-D": n for rank, n in ranks.items()}
        return ranks[3] == 0 < ranks[2]

    return proof


@switch
def donate(run: JaxAdapter) -> Proof:
    """Everything that the step updates. The old arrays are deleted, and the executable writes the new ones over them."""
    run.jit_options["donate_argnums"] = (0, 1, 2)

    def proof(e: Evidence) -> bool:
        state = jax.tree.leaves((run.params, run.stats, run.optimizer_state))
        e["state_arrays"], e["state_bytes"] = len(state), unique_bytes(state)
        return e["arguments_deleted"] == e["state_arrays"] and e["aliased_bytes"] == e["state_bytes"]

    return proof


# the allocator of a GPU, set by environment variables before JAX is imported


@switch
def pool_off(run: JaxAdapter) -> Proof:
    def proof(e: Evidence) -> bool:
        e["setting"], e["pool_bytes"] = os.environ.get("XLA_PYTHON_CLIENT_ALLOCATOR"), run.statistics().get("pool_bytes", 0)
        return jax.default_backend() == "gpu" and e["setting"] == "platform" and e["pool_bytes"] == 0

    return proof


@switch
def memory_fraction(run: JaxAdapter) -> Proof:
    def proof(e: Evidence) -> bool:
        ask = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
        total = int(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()[0]) * 2**20
        e["limit"], e["card"] = run.statistics().get("bytes_limit", 0), total
        return 0.76 < e["limit"] / total <= 0.81  # 0.75 without the setting

    return proof


@switch
def preallocate(run: JaxAdapter) -> Proof:
    reserved: list[int] = []
    run.before_first_step.append(lambda: reserved.append(run.statistics().get("pool_bytes", 0)))

    def proof(e: Evidence) -> bool:
        e["reserved_before"], e["limit"] = reserved[0], run.statistics().get("bytes_limit", 0)
        return 2 * e["reserved_before"] > e["limit"] > 0

    return proof


# evaluation


@switch
def no_grad(run: JaxAdapter) -> Proof:
    return lambda e: e["residuals"] == 0


@switch
def grad(run: JaxAdapter) -> Proof:
    run.keeps_graph = True
    return lambda e: e["residuals"] > 0


@switch
def batch_stats(run: JaxAdapter) -> Proof:
    run.training = True
    return lambda e: e["buffers_changed"] == len(jax.tree.leaves(run.stats)) > 0


@switch
def after_training(run: JaxAdapter, cleared: bool) -> Proof:
    """The trainer stays as it is, or everything of it is deleted."""
    trainers: list[JaxAdapter] = []
    seen: Evidence = {}

    def train() -> None:
        callbacks = list(gc.callbacks)  # a new adapter takes the place of the old one there
        trainer = type(run)(replace(run.case, scenario="train", strategy="fp32"))
        trainer.float64 = run.float64
        trainer.build()
        trainer.step()
        trainer.synchronize()
        gc.callbacks[:] = callbacks
        seen.update(trained_steps=trainer.steps, training_loss=trainer.loss(), bytes_after_training=run.live_bytes())
        if cleared:
            for array in jax.tree.leaves((trainer.arguments(), trainer.output)):
                array.delete()
            trainer.program.clear()
        else:
            trainers.append(trainer)
        del trainer
        if cleared:
            gc.collect()
        seen["bytes_before_evaluation"] = run.live_bytes()

    run.before_first_step.append(train)

    def proof(e: Evidence) -> bool:
        e |= seen
        given_back = e["bytes_after_training"] - e["bytes_before_evaluation"]
        weights = unique_bytes(jax.tree.leaves(run.params))
        return e["trained_steps"] == 1 and (given_back > weights if cleared else given_back == 0 < len(trainers))

    return proof


# the other scenarios


@switch
def distill(run: JaxAdapter) -> Proof:
    """The teacher is the plain model, in evaluation mode; its weights are constants of the step."""
    plain = run.loss_of
    config = run.workload.config(run.case.size)

    def attach() -> None:
        teacher = run.load(config, run.workload.weights(config), training=False)
        run.constants["teacher"] = jax.device_put((teacher.params, teacher.frozen, teacher.stats))

        def logits_of(constants: Tree, x: Array) -> Array:
            return nnx.merge(teacher.graph, *constants["teacher"])(x)

        def loss(logits: Array, x: Array, y: Array, constants: Tree) -> Array:
            return (plain(logits, x, y, constants) + divergence(logits_of(constants, x), logits)) / 2

        run.loss_of, run.teacher_logits = loss, logits_of

    run.before_first_step.append(attach)

    def proof(e: Evidence) -> bool:
        e["products_of_the_student"] = len(products(run.otherwise(loss_of=plain).jaxpr))
        x = run.inputs[0][: len(run.inputs[0]) // run.micro]
        e["products_of_the_teacher"] = len(products(jax.make_jaxpr(run.teacher_logits)(run.constants, x)))
        return e["products"] == e["products_of_the_student"] + e["products_of_the_teacher"]

    return proof


def divergence(teacher: Array, student: Array) -> Array:
    """KL(softmax(teacher) || softmax(student)), summed over the classes, averaged over the rest."""
    wide = jnp.promote_types(student.dtype, jnp.float32)
    log_t, log_s = (jax.nn.log_softmax(logits.astype(wide)) for logits in (teacher, student))
    return (jnp.exp(log_t) * (log_t - log_s)).sum(-1).mean()


@switch
def frozen(run: JaxAdapter) -> Proof:
    """What the workload does not train is a constant of the step: no derivative is asked for."""
    prefixes = run.workload.trained(run.config, "head" if run.case.plan.mathematics == "head" else "half")
    run.trained = lambda name: name.startswith(prefixes)

    def proof(e: Evidence) -> bool:
        wanted = {p.name for p in run.workload.params(run.config) if p.trainable and p.name.startswith(prefixes)}
        trained = set(names(run.params))
        e["weights_with_gradient"] = len(trained)
        e["products_if_all_were_trained"] = len(products(run.otherwise(trained=lambda name: True).jaxpr))
        return trained == wanted != set() and e["products"] < e["products_if_all_were_trained"]

    return proof


def names(*trees: Tree) -> list[str]:
    """The canonical name of every leaf."""
    paths = [path for tree in trees for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    return [flax_weights.canonical([key.key for key in path]) for path in paths]


@switch
def stream(run: JaxAdapter) -> Proof:
    """As everywhere; here each shape is a program of its own."""
    common = base.stream(run)
    return lambda e: common(e) and e["compilations"] == e["distinct_shapes"]


def canonical_pair(run: JaxAdapter) -> list[tuple[Tree, Tree]]:
    """Parameters and statistics of both models, in NumPy arrays."""
    weights = run.case.weights, run.workload.other_weights(run.config)
    loaded = [run.load(run.config, w, training=False) for w in weights]
    return [(parts.params, parts.stats) for parts in loaded]


def on_device(tree: Tree) -> Tree:
    """A copy: the CPU device could otherwise use the host's array as it is."""
    return jax.tree.map(partial(jnp.array, copy=True), tree)


def bytes_held(run: JaxAdapter) -> list[int]:
    """Bytes of weights alive while each model of a pair runs."""
    gc.collect()
    rest = jax.tree.leaves((run.inputs, run.output))
    return [run.live_bytes() - unique_bytes(rest) for _ in run.models()]


@switch
def together(run: JaxAdapter, shared: bool = False) -> Proof:
    def attach() -> None:
        mine = run.params, run.stats
        _, other = canonical_pair(run)
        keep = [shared and not name.startswith(run.workload.head) for name in names(*other)]
        flat, tree = jax.tree.flatten(other)
        merged = [a if same else on_device(b) for a, b, same in zip(jax.tree.leaves(mine), flat, keep)]
        pair = [mine, jax.tree.unflatten(tree, merged)]
        run.models = lambda: iter(pair)

    run.before_first_step.append(attach)

    def proof(e: Evidence) -> bool:
        weights = jax.tree.leaves((run.params, run.stats))
        head = [a for a, name in zip(weights, names(run.params, run.stats)) if name.startswith(run.workload.head)]
        e["one_model_bytes"], e["held_bytes"] = unique_bytes(weights), bytes_held(run)
        return set(e["held_bytes"]) == {unique_bytes(weights) + unique_bytes(head if shared else weights)}

    return proof


@switch
def in_turn(run: JaxAdapter, cleared: bool = False) -> Proof:
    def attach() -> None:
        hosts = canonical_pair(run)
        run.params = run.stats = None

        def models() -> Iterator[tuple[Tree, Tree]]:
            for host in hosts:
                model = on_device(host)
                yield model
                run.synchronize()
                for array in jax.tree.leaves(model):
                    array.delete()
                if cleared:
                    gc.collect()
                    jax.clear_caches()
                    run.program.clear()

        run.models = models

    run.before_first_step.append(attach)

    def proof(e: Evidence) -> bool:
        e["one_model_bytes"] = sum(4 * p.make().size for p in run.workload.params(run.config))
        e["held_bytes"] = bytes_held(run)
        return set(e["held_bytes"]) == {e["one_model_bytes"]} and e["compilations"] == (2 * run.steps + 2 if cleared else 1)

    return proof


def saved_by(gelu: Any, run: JaxAdapter) -> int:
    """Arrays of the input's size that one GELU saves for its backward pass."""
    x = jax.ShapeDtypeStruct((8, 8), run.width)
    saved = jax.eval_shape(lambda x: jax.vjp(gelu, x)[1], x)
    return sum(a.shape == x.shape for a in jax.tree.leaves(saved))


def rules_met(run: JaxAdapter, gelu: Any, e: Evidence) -> int:
    """How often the forward pass meets a rule written by hand; the evidence gets what one GELU saves, too."""
    parts = run.split(run.abstract(run.config, run.training))
    forward = jax.make_jaxpr(lambda p, x: nnx.merge(parts.graph, p, parts.frozen, parts.stats)(x))
    found = Counter(eq.primitive.name for eq in equations(forward(parts.params, run.inputs[0])))
    e["rules_met"], e["saved_by_one"] = found["custom_vjp_call"], saved_by(gelu, run)
    return e["rules_met"]


@switch
def built_in(run: JaxAdapter) -> Proof:
    return lambda e: rules_met(run, run.model_module.exact_gelu, e) == 0 < e["saved_by_one"]


@switch
def custom_rule(run: JaxAdapter, lean: bool) -> Proof:
    gelu = run.model_module.lean_gelu if lean else run.model_module.wasteful_gelu
    run.model_options["gelu"] = gelu
    if lean:
        keep_barriers(run)

    def proof(e: Evidence) -> bool:
        """The executable computes the error function again in the backward pass, or does not."""
        layers = run.config.layers
        e["compiled_erfs"] = sum(c.as_text().count(" erf(") for c in run.program.compiled.values())
        met = rules_met(run, gelu, e) == layers and e["saved_by_one"] == (1 if lean else 5)
        return met and (e["compiled_erfs"] >= 2 * layers) == lean

    return proof
