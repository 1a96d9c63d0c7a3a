"""JAX's switches for the strategies of `framebench/strategies/scenarios.toml`."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from framebench.adapters import common
from framebench.adapters.base import Switches
from framebench.adapters.jax.accumulation import Tree
from framebench.adapters.jax.adapter import JaxAdapter, run_model
from framebench.adapters.jax.checkpoint import keep_barriers
from framebench.adapters.jax.program import count_bytes, find_products, walk_equations
from framebench.adapters.jax.states import list_keys
from framebench.adapters.proof import (
    Evidence,
    Proof,
    above,
    at_least,
    below,
    equal_to,
    expect,
)
from framebench.models import flax_weights

switch = Switches()


# evaluation


@switch
def no_grad(adapter: JaxAdapter) -> Proof:
    """Evaluate as JAX does by default, without residuals."""
    return expect(residuals=0) & common.expect_buffers_unchanged(lambda: adapter.recipe.training)


@switch
def grad(adapter: JaxAdapter) -> Proof:
    """Evaluate, but save the residuals for a backward pass, as PyTorch does without `no_grad`."""
    adapter.recipe.keeps_graph = True
    unchanged = common.expect_buffers_unchanged(lambda: adapter.recipe.training)
    return expect(residuals=above(0)) & unchanged


@switch
def batch_stats(adapter: JaxAdapter) -> Proof:
    """Evaluate by the statistics of the batch, and prove that every running statistic changes."""
    adapter.recipe.training = True

    def displace() -> None:
        adapter.stats = jax.tree.map(lambda statistic: statistic + 1, adapter.stats)

    return common.expect_buffers_changed(adapter, displace)


# the other scenarios


@switch
def distill(adapter: JaxAdapter) -> Proof:
    """Train against a teacher, the plain model in evaluation mode.

    Half the loss is that of the labels, half the divergence from the teacher's outputs. The
    teacher's weights are constants of the step.
    """
    plain_loss = adapter.recipe.loss
    config = adapter.teacher_config = adapter.workload.config(adapter.case.size)
    teacher_graphs: list[nnx.GraphDef] = []

    def attach_teacher() -> None:
        adapter.teacher_names = adapter.make_names(config)
        teacher = adapter.load_canonical(config, training=False)
        teacher_graphs.append(teacher.graph)
        arrays = (teacher.params, teacher.frozen, teacher.stats)
        adapter.constants["teacher"] = adapter.place("teacher", arrays)

    def run_teacher(constants: Tree, x: Array) -> Array:
        """Return the logits of the full model, whose arrays are among the constants."""
        return nnx.merge(teacher_graphs[0], *constants["teacher"])(x)

    def loss(logits: Array, x: Array, y: Array, constants: Tree) -> Array:
        label_loss = plain_loss(logits, x, y, constants)
        teacher_loss = compute_divergence(run_teacher(constants, x), logits)
        return (label_loss + teacher_loss) / 2

    adapter.before_first_step.append(attach_teacher)
    adapter.recipe.loss = loss

    def count_products() -> Evidence:
        x, _targets = adapter.inputs
        micro_batch = x[: len(x) // adapter.micro_batches]
        teacher = jax.make_jaxpr(run_teacher)(adapter.constants, micro_batch)
        student = adapter.trace_with(loss=plain_loss).jaxpr
        return {"products_of_student_and_teacher": len(find_products(student, teacher))}

    return expect(products=equal_to("products_of_student_and_teacher")).counting(count_products)


def compute_divergence(teacher: Array, student: Array) -> Array:
    """Return KL(softmax(teacher) || softmax(student)) of logits.

    It is summed over the classes and averaged over the rest.
    """
    dtype = jnp.promote_types(student.dtype, jnp.float32)
    log_teacher = jax.nn.log_softmax(teacher.astype(dtype))
    log_student = jax.nn.log_softmax(student.astype(dtype))
    return (jnp.exp(log_teacher) * (log_teacher - log_student)).sum(-1).mean()


@switch
def frozen(adapter: JaxAdapter, part: str = "half") -> Proof:
    """Train one part of the weights, such as half the layers; all others are constants."""
    assert adapter.workload.trained  # else the case is unsupported
    prefixes = adapter.workload.trained(adapter.config, part)
    adapter.recipe.is_trained = lambda name: name.startswith(prefixes)

    def find_trained() -> set[str]:
        return set(list_names(adapter.params))

    def count_products_if_all_were_trained() -> Evidence:
        all_trained = adapter.trace_with(is_trained=lambda name: True)
        return {"products_if_all_were_trained": len(find_products(all_trained.jaxpr))}

    # `products`, the matmuls and convolutions of the step itself, come from `adapter.observe`
    fewer_products = expect(products=below("products_if_all_were_trained"))
    trained_part = common.expect_trained(adapter, prefixes, find_trained)
    return trained_part & fewer_products.counting(count_products_if_all_were_trained)


def list_names(tree: Tree) -> list[str]:
    """Return the canonical name of every leaf, in the order of the leaves."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [flax_weights.name_leaf(list_keys(path)) for path, _ in leaves]


@switch
def stream(adapter: JaxAdapter) -> Proof:
    """Prove the same as for all frameworks, and that each shape has a program of its own."""
    return common.stream(adapter) & expect(compilations=equal_to("distinct_shapes"))


Pair = list[tuple[Tree, Tree]]  # parameters and statistics of two models


def load_pair(adapter: JaxAdapter) -> Pair:
    """Return the weights and statistics of both models, in NumPy arrays."""
    pair = []
    for weights in (adapter.case.weights, adapter.workload.make_other_weights(adapter.config)):
        parts = adapter.load(adapter.config, weights, training=False)
        pair.append((parts.params, parts.stats))
    return pair


def copy_to_device(tree: Tree) -> Tree:
    """Return a copy on the device: JAX on a CPU could otherwise use the host's array itself."""
    return jax.tree.map(lambda array: jnp.array(array, copy=True), tree)


def measure_held_bytes(adapter: JaxAdapter) -> list[int]:
    """Return the bytes of weights alive while each model of a pair runs."""
    gc.collect()
    others = count_bytes(jax.tree.leaves((adapter.inputs, adapter.output)))
    return [adapter.live_bytes() - others for _ in adapter.recipe.models()]


@switch
def together(adapter: JaxAdapter, shared_trunk: bool = False) -> Proof:
    """Hold both models at the same time.

    With `shared_trunk`, they have the same arrays except in their heads.
    """

    def attach_models() -> None:
        """Put both models on the device."""
        first = adapter.params, adapter.stats
        _, second = load_pair(adapter)
        second = join_trunk(adapter, first, second) if shared_trunk else copy_to_device(second)
        pair = [first, second]
        adapter.recipe.models = lambda: iter(pair)

    adapter.before_first_step.append(attach_models)

    def count_weights() -> Evidence:
        """Count the bytes that are held, and those of both models' weights."""
        model = adapter.params, adapter.stats
        weights = jax.tree.leaves(model)
        own_weights = []  # of the second model
        for name, array in zip(list_names(model), weights):
            if not shared_trunk or name.startswith(adapter.workload.head):
                own_weights.append(array)
        both = count_bytes(weights) + count_bytes(own_weights)
        return {"held_bytes": measure_held_bytes(adapter), "expected_bytes": [both, both]}

    return expect(held_bytes=equal_to("expected_bytes")).counting(count_weights)


def join_trunk(adapter: JaxAdapter, first: Tree, second: Tree) -> Tree:
    """Return the second model with the first one's arrays, except for the head."""
    second_arrays, structure = jax.tree.flatten(second)
    joined = jax.tree.leaves(first)
    for i, name in enumerate(list_names(second)):
        if name.startswith(adapter.workload.head):
            joined[i] = copy_to_device(second_arrays[i])
    return jax.tree.unflatten(structure, joined)


@switch
def in_turn(adapter: JaxAdapter, cleared: bool = False) -> Proof:
    """Load one model after the other, and delete each before the next is loaded.

    With `cleared`, its compiled program is deleted too.
    """

    def attach_models() -> None:
        """Keep both models on the host, and have steps load one after the other."""
        pair = load_pair(adapter)
        adapter.params = adapter.stats = None

        def load_each() -> Iterator[tuple[Tree, Tree]]:
            """Yield each model on the device, and delete it before the next."""
            for on_host in pair:
                model = copy_to_device(on_host)
                yield model
                adapter.synchronize()
                for array in jax.tree.leaves(model):
                    array.delete()
                if cleared:
                    gc.collect()
                    jax.clear_caches()
                    adapter.program.clear()

        adapter.recipe.models = load_each

    adapter.before_first_step.append(attach_models)

    def count_held() -> Evidence:
        """Count the bytes that are held, and those of one model's weights."""
        params = adapter.workload.params(adapter.config)
        one_model = sum(4 * math.prod(param.shape) for param in params)
        return {
            "held_bytes": measure_held_bytes(adapter),
            "expected_bytes": [one_model, one_model],
            # two in each step, also in the observed one, which `steps` does not count
            "compilations_expected": 2 * adapter.steps + 2 if cleared else 1,
        }

    proof = expect(
        held_bytes=equal_to("expected_bytes"),
        compilations=equal_to("compilations_expected"),
    )
    return proof.counting(count_held)


Gelu = Callable[[Array], Array]


def expect_rules(adapter: JaxAdapter, gelu: Gelu, rules: int, saved: Any) -> Proof:
    """Return a proof of which derivative rules the model's GELU uses.

    Args:
        adapter: The adapter of the case.
        gelu: The GELU whose saved arrays are counted.
        rules: The number of hand-written rules in the forward pass.
        saved: How many arrays of the input's size one GELU saves for its backward pass.
    """

    def make_backward(x: Array) -> Any:
        _output, backward = jax.vjp(gelu, x)
        return backward

    def count_rules() -> Evidence:
        """Count hand-written rules in the model, and arrays that one GELU saves."""
        arguments = (adapter.params, adapter.stats, adapter.constants, adapter.inputs[0])
        jaxpr = jax.make_jaxpr(partial(run_model, adapter.graph))(*arguments)
        names = [equation.primitive.name for equation in walk_equations(jaxpr)]
        x = jax.ShapeDtypeStruct((8, 8), adapter.recipe.dtype)
        residuals = jax.tree.leaves(jax.eval_shape(make_backward, x))
        return {
            "rules_met": names.count("custom_vjp_call"),
            "saved_by_one": sum(array.shape == x.shape for array in residuals),
        }

    return expect(rules_met=rules, saved_by_one=saved).counting(count_rules)


@switch
def built_in(adapter: JaxAdapter) -> Proof:
    """Prove that JAX's own GELU runs, and no hand-written rule."""
    return expect_rules(adapter, adapter.model_module.exact_gelu, rules=0, saved=above(0))


@switch
def custom_rule(adapter: JaxAdapter, lean: bool) -> Proof:
    """Use a hand-written derivative of GELU; a `lean` one saves only its input."""
    gelu = adapter.model_module.lean_gelu if lean else adapter.model_module.wasteful_gelu
    adapter.recipe.model_options["gelu"] = gelu
    if lean:
        keep_barriers(adapter)

    def count_functions() -> Evidence:
        return {"compiled_erfs": adapter.program.count_text(" erf(")}

    layers = adapter.config.layers
    # only a lean rule makes the executable compute the error function again in the backward pass
    repeated = at_least(2 * layers) if lean else below(2 * layers)
    proof = expect(compiled_erfs=repeated).counting(count_functions)
    return proof & expect_rules(adapter, gelu, rules=layers, saved=1 if lean else 5)
