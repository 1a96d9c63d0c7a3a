"""How JAX switches on the strategies of `framebench/strategies/scenarios.py`, and what proves that they were on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from framebench.adapters import common
from framebench.adapters.base import Switches
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.checkpoint import keep_barriers
from framebench.adapters.jax.program import equations, products, unique_bytes
from framebench.adapters.proof import Evidence, Proof, above, at_least, below, check, equal_to, expect
from framebench.models import flax_weights

Tree = Any
switch = Switches()


# evaluation


def expect_buffers_unchanged(run: JaxAdapter) -> Proof:
    """Return a proof that evaluation leaves every statistic as it was, unless to change them is the strategy."""

    def are_unchanged(e: Evidence) -> bool:
        return bool(e["buffers_changed"] == 0 or run.recipe.training)

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
        run.stats = jax.tree.map(lambda a: a + 1, run.stats)
        observed = run.observe()
        return {name: observed[name] for name in ("buffers", "buffers_changed")}

    return expect(buffers=above(0), buffers_changed=equal_to("buffers")).counting(count_changed)


# the other scenarios


@switch
def distill(run: JaxAdapter) -> Proof:
    """Distil the plain model, in evaluation mode; its weights are constants of the step."""
    plain = run.recipe.loss
    config = run.teacher = run.workload.config(run.case.size)
    graphs: list[nnx.GraphDef] = []

    def attach() -> None:
        run.teacher_names = run.naming(config, training=False)
        teacher = run.initial(config, training=False)
        graphs.append(teacher.graph)
        run.constants["teacher"] = run.placed("teacher", (teacher.params, teacher.frozen, teacher.stats))

    def logits_of(constants: Tree, x: Array) -> Array:
        return nnx.merge(graphs[0], *constants["teacher"])(x)

    def loss(logits: Array, x: Array, y: Array, constants: Tree) -> Array:
        return (plain(logits, x, y, constants) + divergence(logits_of(constants, x), logits)) / 2

    run.before_first_step.append(attach)
    run.recipe.loss = loss

    def count_products(_: Evidence) -> Evidence:
        x = run.inputs[0][: len(run.inputs[0]) // run.micro_batches]
        return {
            "products_of_the_student": len(products(run.otherwise(loss=plain).jaxpr)),
            "products_of_the_teacher": len(products(jax.make_jaxpr(logits_of)(run.constants, x))),
        }

    def are_of_both(e: Evidence) -> bool:
        return bool(e["products"] == e["products_of_the_student"] + e["products_of_the_teacher"])

    proof = check(are_of_both, "the step has the student's products and the teacher's forward ones")
    return proof.counting(count_products)


def divergence(teacher: Array, student: Array) -> Array:
    """Return KL(softmax(teacher) || softmax(student)), summed over the classes, averaged over the rest."""
    wide = jnp.promote_types(student.dtype, jnp.float32)
    log_t, log_s = (jax.nn.log_softmax(logits.astype(wide)) for logits in (teacher, student))
    return (jnp.exp(log_t) * (log_t - log_s)).sum(-1).mean()


@switch
def frozen(run: JaxAdapter, part: str = "half") -> Proof:
    """Make what the workload does not train a constant of the step: no derivative is asked for."""
    assert run.workload.trained  # else the cell is unsupported
    prefixes = run.workload.trained(run.config, part)
    run.recipe.trained = lambda name: name.startswith(prefixes)

    def count_weights(_: Evidence) -> Evidence:
        trainable = [p.name for p in run.workload.params(run.config) if p.trainable]
        to_train = {name for name in trainable if name.startswith(prefixes)}
        with_gradient = set(names(run.params))
        with_states = {state.name for state in run.states()}
        all_trained = run.otherwise(trained=lambda name: True)
        return {
            "weights_with_gradient": len(with_gradient),
            "weights_with_states": len(with_states),
            "weights_to_train": len(to_train),
            "other_weights_than_these": len((with_gradient | with_states) - to_train),
            "products_if_all_were_trained": len(products(all_trained.jaxpr)),
        }

    proof = expect(
        weights_to_train=above(0),
        weights_with_gradient=equal_to("weights_to_train"),
        weights_with_states=equal_to("weights_to_train"),
        other_weights_than_these=0,
        products=below("products_if_all_were_trained"),
    )
    return proof.counting(count_weights)


def names(*trees: Tree) -> list[str]:
    """Return the canonical name of every leaf."""
    paths = [path for tree in trees for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    return [flax_weights.canonical([key.key for key in path]) for path in paths]


@switch
def stream(run: JaxAdapter) -> Proof:
    """Prove what all frameworks do, and that each shape is a program of its own."""
    return common.stream(run) & expect(compilations=equal_to("distinct_shapes"))


def canonical_pair(run: JaxAdapter) -> list[tuple[Tree, Tree]]:
    """Return parameters and statistics of both models, in NumPy arrays."""
    weights = run.case.weights, run.workload.other_weights(run.config)
    loaded = [run.load(run.config, w, training=False) for w in weights]
    return [(parts.params, parts.stats) for parts in loaded]


def on_device(tree: Tree) -> Tree:
    """Return a copy on the device: a CPU could otherwise use the host's array as it is."""
    return jax.tree.map(partial(jnp.array, copy=True), tree)


def _measure_held(run: JaxAdapter) -> list[int]:
    """Return the bytes of weights alive while each model of a pair runs."""
    gc.collect()
    rest = jax.tree.leaves((run.inputs, run.output))
    return [run.live_bytes() - unique_bytes(rest) for _ in run.recipe.models()]


@switch
def together(run: JaxAdapter, shared: bool = False) -> Proof:
    def attach() -> None:
        mine = run.params, run.stats
        _, other = canonical_pair(run)
        keep = [shared and not name.startswith(run.workload.head) for name in names(*other)]
        flat, tree = jax.tree.flatten(other)
        merged = [a if same else on_device(b) for a, b, same in zip(jax.tree.leaves(mine), flat, keep)]
        pair = [mine, jax.tree.unflatten(tree, merged)]
        run.recipe.models = lambda: iter(pair)

    run.before_first_step.append(attach)

    def count_bytes(_: Evidence) -> Evidence:
        weights = jax.tree.leaves((run.params, run.stats))
        named = zip(weights, names(run.params, run.stats))
        head = [array for array, name in named if name.startswith(run.workload.head)]
        return {
            "one_model_bytes": unique_bytes(weights),
            "other_model_bytes": unique_bytes(head if shared else weights),  # beyond what they share
            "held_bytes": _measure_held(run),
        }

    def are_both_held(e: Evidence) -> bool:
        return set(e["held_bytes"]) == {e["one_model_bytes"] + e["other_model_bytes"]}

    proof = check(are_both_held, "the weights of both models are held while either runs")
    return proof.counting(count_bytes)


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

        run.recipe.models = models

    run.before_first_step.append(attach)

    def count_bytes(observed: Evidence) -> Evidence:
        params = run.workload.params(run.config)
        held_bytes = _measure_held(run)
        return {
            "one_model_bytes": sum(4 * p.make().size for p in params),
            "held_bytes": held_bytes,
            "compilations_expected": 2 * run.steps + 2 if cleared else 1,
        }

    def is_one_held(e: Evidence) -> bool:
        return set(e["held_bytes"]) == {e["one_model_bytes"]}

    proof = check(is_one_held, "the weights of one model alone are held at any time")
    proof &= expect(compilations=equal_to("compilations_expected"))
    return proof.counting(count_bytes)


def _saved_by(gelu: Any, run: JaxAdapter) -> int:
    """Count the arrays of the input's size that one GELU saves for its backward pass."""
    x = jax.ShapeDtypeStruct((8, 8), run.recipe.width)
    saved = jax.eval_shape(lambda x: jax.vjp(gelu, x)[1], x)
    return sum(a.shape == x.shape for a in jax.tree.leaves(saved))


def _count_rules(run: JaxAdapter, gelu: Any) -> Evidence:
    """Count how often the forward pass meets a rule written by hand, and what one GELU saves."""
    parts = run.split(run.abstract(run.config, run.recipe.training))

    def forward(params: Tree, x: Array) -> Any:
        return nnx.merge(parts.graph, params, parts.frozen, parts.stats)(x)

    jaxpr = jax.make_jaxpr(forward)(parts.params, run.inputs[0])
    rules = sum(equation.primitive.name == "custom_vjp_call" for equation in equations(jaxpr))
    return {"rules_met": rules, "saved_by_one": _saved_by(gelu, run)}


@switch
def built_in(run: JaxAdapter) -> Proof:
    """Prove that JAX's own GELU runs, which is no rule written by hand."""
    proof = expect(rules_met=0, saved_by_one=above(0))
    return proof.counting(lambda _: _count_rules(run, run.model_module.exact_gelu))


@switch
def custom_rule(run: JaxAdapter, lean: bool) -> Proof:
    """Derive GELU by a rule written by hand; a `lean` one saves its input alone."""
    gelu = run.model_module.lean_gelu if lean else run.model_module.wasteful_gelu
    run.recipe.model_options["gelu"] = gelu
    if lean:
        keep_barriers(run)

    def count_rules(_: Evidence) -> Evidence:
        texts = [compiled.as_text() for compiled in run.program.compiled.values()]
        return {"compiled_erfs": sum(text.count(" erf(") for text in texts)} | _count_rules(run, gelu)

    layers = run.config.layers
    proof = expect(
        rules_met=layers,
        saved_by_one=1 if lean else 5,
        # the executable computes the error function again in the backward pass, or does not
        compiled_erfs=at_least(2 * layers) if lean else below(2 * layers),
    )
    return proof.counting(count_rules)
