"""JAX's switches for the strategies of `framebench/strategies/scenarios.toml`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from framebench.adapters import common
from framebench.adapters.base import Switches
from framebench.adapters.jax.accumulation import Tree
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.checkpoint import keep_barriers
from framebench.adapters.jax.program import count_bytes, find_products, walk_equations
from framebench.adapters.jax.states import list_keys
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
from framebench.models import flax_weights

switch = Switches()


# evaluation


def expect_buffers_unchanged(run: JaxAdapter) -> Proof:
    """Return a proof that evaluation changes no statistic, unless that is the strategy."""

    def are_unchanged(evidence: Evidence) -> bool:
        return bool(evidence["buffers_changed"] == 0 or run.recipe.training)

    return check(are_unchanged, "running statistics stay as they were")


@switch
def no_grad(run: JaxAdapter) -> Proof:
    """Evaluate as JAX does by itself, without residuals."""
    return expect(residuals=0) & expect_buffers_unchanged(run)


@switch
def grad(run: JaxAdapter) -> Proof:
    """Keep the residuals of a backward pass."""
    run.recipe.keeps_graph = True
    return expect(residuals=above(0)) & expect_buffers_unchanged(run)


@switch
def batch_stats(run: JaxAdapter) -> Proof:
    """Evaluate by the statistics of the batch, and prove that every running statistic moves."""
    run.recipe.training = True

    def count_changed(_: Evidence) -> Evidence:
        # displaced first: under one batch again and again they would come to rest
        run.stats = jax.tree.map(lambda statistic: statistic + 1, run.stats)
        observed = run.observe()
        return {name: observed[name] for name in ("buffers", "buffers_changed")}

    return expect(buffers=above(0), buffers_changed=equal_to("buffers")).counting(count_changed)


# the other scenarios


@switch
def distill(run: JaxAdapter) -> Proof:
    """Train against a teacher, the plain model in evaluation mode.

    Half the loss is that of the labels, half the divergence from the teacher's outputs. The
    teacher's weights are constants of the step.
    """
    plain_loss = run.recipe.loss
    config = run.teacher = run.workload.config(run.case.size)
    graphs: list[nnx.GraphDef] = []

    def attach_teacher() -> None:
        run.teacher_names = run.make_names(config)
        teacher = run.load_canonical(config, training=False)
        graphs.append(teacher.graph)
        arrays = (teacher.params, teacher.frozen, teacher.stats)
        run.constants["teacher"] = run.place("teacher", arrays)

    def run_teacher(constants: Tree, x: Array) -> Array:
        """Return the teacher's logits."""
        return nnx.merge(graphs[0], *constants["teacher"])(x)

    def loss(logits: Array, x: Array, y: Array, constants: Tree) -> Array:
        of_labels = plain_loss(logits, x, y, constants)
        of_teacher = compute_divergence(run_teacher(constants, x), logits)
        return (of_labels + of_teacher) / 2

    run.before_first_step.append(attach_teacher)
    run.recipe.loss = loss

    def count_products(_: Evidence) -> Evidence:
        x, _targets = run.inputs
        micro_batch = x[: len(x) // run.micro_batches]
        teacher = jax.make_jaxpr(run_teacher)(run.constants, micro_batch)
        return {
            "products_of_the_student": len(find_products(run.trace_with(loss=plain_loss).jaxpr)),
            "products_of_the_teacher": len(find_products(teacher)),
        }

    def are_of_both(evidence: Evidence) -> bool:
        of_both = evidence["products_of_the_student"] + evidence["products_of_the_teacher"]
        return bool(evidence["products"] == of_both)

    proof = check(are_of_both, "the step has the student's products and the teacher's forward ones")
    return proof.counting(count_products)


def compute_divergence(teacher: Array, student: Array) -> Array:
    """Return KL(softmax(teacher) || softmax(student)) of logits.

    It is summed over the classes and averaged over the rest.
    """
    dtype = jnp.promote_types(student.dtype, jnp.float32)
    log_teacher = jax.nn.log_softmax(teacher.astype(dtype))
    log_student = jax.nn.log_softmax(student.astype(dtype))
    return (jnp.exp(log_teacher) * (log_teacher - log_student)).sum(-1).mean()


@switch
def frozen(run: JaxAdapter, part: str = "half") -> Proof:
    """Make what the workload does not train a constant of the step: it has no derivative."""
    assert run.workload.trained  # else the case is unsupported
    prefixes = run.workload.trained(run.config, part)
    run.recipe.is_trained = lambda name: name.startswith(prefixes)

    def count_weights(_: Evidence) -> Evidence:
        trainable = [param.name for param in run.workload.params(run.config) if param.trainable]
        to_train = {name for name in trainable if name.startswith(prefixes)}
        with_gradient = set(list_names(run.params))
        with_states = {state.name for state in run.states()}
        all_trained = run.trace_with(is_trained=lambda name: True)
        return {
            "weights_with_gradient": len(with_gradient),
            "weights_with_states": len(with_states),
            "weights_to_train": len(to_train),
            "other_weights_than_these": len((with_gradient | with_states) - to_train),
            "products_if_all_were_trained": len(find_products(all_trained.jaxpr)),
        }

    proof = expect(
        weights_to_train=above(0),
        weights_with_gradient=equal_to("weights_to_train"),
        weights_with_states=equal_to("weights_to_train"),
        other_weights_than_these=0,
        products=below("products_if_all_were_trained"),
    )
    return proof.counting(count_weights)


def list_names(tree: Tree) -> list[str]:
    """Return the canonical name of every leaf, in the order of the leaves."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [flax_weights.name_leaf(list_keys(path)) for path, _ in leaves]


@switch
def stream(run: JaxAdapter) -> Proof:
    """Prove what all frameworks do, and that each shape is a program of its own."""
    return common.stream(run) & expect(compilations=equal_to("distinct_shapes"))


Pair = list[tuple[Tree, Tree]]  # parameters and statistics of two models


def load_pair(run: JaxAdapter) -> Pair:
    """Return both models in NumPy arrays."""
    pair = []
    for weights in (run.case.weights, run.workload.make_other_weights(run.config)):
        parts = run.load(run.config, weights, training=False)
        pair.append((parts.params, parts.stats))
    return pair


def copy_to_device(tree: Tree) -> Tree:
    """Return a copy on the device: a CPU could otherwise use the host's array as it is."""
    return jax.tree.map(lambda array: jnp.array(array, copy=True), tree)


def measure_held_bytes(run: JaxAdapter) -> list[int]:
    """Return the bytes of weights alive while each model of a pair runs."""
    gc.collect()
    others = count_bytes(jax.tree.leaves((run.inputs, run.output)))
    return [run.live_bytes() - others for _ in run.recipe.models()]


@switch
def together(run: JaxAdapter, shared: bool = False) -> Proof:
    """Hold both models at the same time; `shared`, all of their weights but those of the heads."""

    def attach_models() -> None:
        first = run.params, run.stats
        second = load_pair(run)[1]
        second = join_trunk(run, first, second) if shared else copy_to_device(second)
        pair = [first, second]
        run.recipe.models = lambda: iter(pair)

    run.before_first_step.append(attach_models)

    def count_weights(_: Evidence) -> Evidence:
        model = run.params, run.stats
        weights = jax.tree.leaves(model)
        head = []
        for name, array in zip(list_names(model), weights):
            if name.startswith(run.workload.head):
                head.append(array)
        return {
            "one_model_bytes": count_bytes(weights),
            "other_model_bytes": count_bytes(head if shared else weights),  # beyond what they share
            "held_bytes": measure_held_bytes(run),
        }

    def are_both_held(evidence: Evidence) -> bool:
        of_both = evidence["one_model_bytes"] + evidence["other_model_bytes"]
        return set(evidence["held_bytes"]) == {of_both}

    proof = check(are_both_held, "the weights of both models are held while either runs")
    return proof.counting(count_weights)


def join_trunk(run: JaxAdapter, first: Tree, second: Tree) -> Tree:
    """Return the second model with the first one's arrays, except for the head."""
    theirs, structure = jax.tree.flatten(second)
    arrays = jax.tree.leaves(first)
    for i, name in enumerate(list_names(second)):
        if name.startswith(run.workload.head):
            arrays[i] = copy_to_device(theirs[i])
    return jax.tree.unflatten(structure, arrays)


@switch
def in_turn(run: JaxAdapter, cleared: bool = False) -> Proof:
    """Load one model after the other, each deleted before the next; `cleared`, its program too."""

    def attach_models() -> None:
        pair = load_pair(run)
        run.params = run.stats = None

        def load_each() -> Iterator[tuple[Tree, Tree]]:
            for on_host in pair:
                model = copy_to_device(on_host)
                yield model
                run.synchronize()
                for array in jax.tree.leaves(model):
                    array.delete()
                if cleared:
                    gc.collect()
                    jax.clear_caches()
                    run.program.clear()

        run.recipe.models = load_each

    run.before_first_step.append(attach_models)

    def count_held(_: Evidence) -> Evidence:
        params = run.workload.params(run.config)
        held_bytes = measure_held_bytes(run)
        return {
            "one_model_bytes": sum(4 * param.make().size for param in params),
            "held_bytes": held_bytes,
            "compilations_expected": 2 * run.steps + 2 if cleared else 1,
        }

    def is_one_held(evidence: Evidence) -> bool:
        return set(evidence["held_bytes"]) == {evidence["one_model_bytes"]}

    proof = check(is_one_held, "the weights of one model alone are held at any time")
    proof &= expect(compilations=equal_to("compilations_expected"))
    return proof.counting(count_held)


Gelu = Callable[[Array], Array]


def count_saved_arrays(gelu: Gelu, dtype: Any) -> int:
    """Count the arrays of the input's size that one GELU saves for its backward pass."""

    def make_backward(x: Array) -> Any:
        return jax.vjp(gelu, x)[1]

    x = jax.ShapeDtypeStruct((8, 8), dtype)
    saved = jax.tree.leaves(jax.eval_shape(make_backward, x))
    return sum(array.shape == x.shape for array in saved)


def count_rules(run: JaxAdapter, gelu: Gelu) -> Evidence:
    """Count the rules written by hand in the forward pass, and the arrays that one GELU saves."""
    parts = run.take_apart(run.make_abstract(run.config, run.recipe.training))

    def forward(params: Tree, x: Array) -> Any:
        return nnx.merge(parts.graph, params, parts.frozen, parts.stats)(x)

    jaxpr = jax.make_jaxpr(forward)(parts.params, run.inputs[0])
    rules = [e for e in walk_equations(jaxpr) if e.primitive.name == "custom_vjp_call"]
    return {"rules_met": len(rules), "saved_by_one": count_saved_arrays(gelu, run.recipe.dtype)}


@switch
def built_in(run: JaxAdapter) -> Proof:
    """Prove that JAX's own GELU runs, which is no rule written by hand."""
    proof = expect(rules_met=0, saved_by_one=above(0))
    return proof.counting(lambda _: count_rules(run, run.model_module.exact_gelu))


@switch
def custom_rule(run: JaxAdapter, lean: bool) -> Proof:
    """Derive GELU by a rule written by hand; a `lean` one saves its input alone."""
    gelu = run.model_module.lean_gelu if lean else run.model_module.wasteful_gelu
    run.recipe.model_options["gelu"] = gelu
    if lean:
        keep_barriers(run)

    def count_functions(_: Evidence) -> Evidence:
        return {"compiled_erfs": run.program.count_text(" erf(")} | count_rules(run, gelu)

    layers = run.config.layers
    proof = expect(
        rules_met=layers,
        saved_by_one=1 if lean else 5,
        # the executable computes the error function again in the backward pass, or does not
        compiled_erfs=at_least(2 * layers) if lean else below(2 * layers),
    )
    return proof.counting(count_functions)
