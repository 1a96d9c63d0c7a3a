"""How JAX switches on the strategies of `suite/catalog/scenarios.py`, and what proves that they were on."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from framebench.adapters import common
from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.checkpoint import keep_barriers
from framebench.adapters.jax.program import equations, products, unique_bytes
from framebench.models import flax_weights

Tree = Any
switch = Switches()


# evaluation


@switch
def no_grad(run: JaxAdapter) -> Proof:
    return lambda e: e["residuals"] == 0 and (e["buffers_changed"] == 0 or run.recipe.training)


@switch
def grad(run: JaxAdapter) -> Proof:
    run.recipe.keeps_graph = True
    return lambda e: e["residuals"] > 0 and (e["buffers_changed"] == 0 or run.recipe.training)


@switch
def batch_stats(run: JaxAdapter) -> Proof:
    run.recipe.training = True

    def proof(e: Evidence) -> bool:
        """Every statistic moves. Displaced first: under one batch again and again they would come to rest."""
        run.stats = jax.tree.map(lambda a: a + 1, run.stats)
        e |= {name: n for name, n in run.observe().items() if name.startswith("buffers")}
        return e["buffers_changed"] == e["buffers"] > 0

    return proof


# the other scenarios


@switch
def distill(run: JaxAdapter) -> Proof:
    """The teacher is the plain model, in evaluation mode; its weights are constants of the step."""
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

    def proof(e: Evidence) -> bool:
        e["products_of_the_student"] = len(products(run.otherwise(loss=plain).jaxpr))
        x = run.inputs[0][: len(run.inputs[0]) // run.micro]
        e["products_of_the_teacher"] = len(products(jax.make_jaxpr(logits_of)(run.constants, x)))
        return e["products"] == e["products_of_the_student"] + e["products_of_the_teacher"]

    return proof


def divergence(teacher: Array, student: Array) -> Array:
    """KL(softmax(teacher) || softmax(student)), summed over the classes, averaged over the rest."""
    wide = jnp.promote_types(student.dtype, jnp.float32)
    log_t, log_s = (jax.nn.log_softmax(logits.astype(wide)) for logits in (teacher, student))
    return (jnp.exp(log_t) * (log_t - log_s)).sum(-1).mean()


@switch
def frozen(run: JaxAdapter, part: str = "half") -> Proof:
    """What the workload does not train is a constant of the step: no derivative is asked for."""
    assert run.workload.trained  # else the cell is unsupported
    prefixes = run.workload.trained(run.config, part)
    run.recipe.trained = lambda name: name.startswith(prefixes)

    def proof(e: Evidence) -> bool:
        wanted = {p.name for p in run.workload.params(run.config) if p.trainable and p.name.startswith(prefixes)}
        trained = set(names(run.params))
        e["weights_with_gradient"] = len(trained)
        e["products_if_all_were_trained"] = len(products(run.otherwise(trained=lambda name: True).jaxpr))
        e["weights_with_states"] = len(with_states := {state.name for state in run.states()})
        return trained == with_states == wanted != set() and e["products"] < e["products_if_all_were_trained"]

    return proof


def names(*trees: Tree) -> list[str]:
    """The canonical name of every leaf."""
    paths = [path for tree in trees for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    return [flax_weights.canonical([key.key for key in path]) for path in paths]


@switch
def stream(run: JaxAdapter) -> Proof:
    """As everywhere; here each shape is a program of its own."""
    everywhere = common.stream(run)
    return lambda e: everywhere(e) and e["compilations"] == e["distinct_shapes"]


def canonical_pair(run: JaxAdapter) -> list[tuple[Tree, Tree]]:
    """Parameters and statistics of both models, in NumPy arrays."""
    weights = run.case.weights, run.workload.other_weights(run.config)
    loaded = [run.load(run.config, w, training=False) for w in weights]
    return [(parts.params, parts.stats) for parts in loaded]


def on_device(tree: Tree) -> Tree:
    """A copy: the CPU device could otherwise use the host's array as it is."""
    return jax.tree.map(partial(jnp.array, copy=True), tree)


def _bytes_held(run: JaxAdapter) -> list[int]:
    """Bytes of weights alive while each model of a pair runs."""
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

    def proof(e: Evidence) -> bool:
        weights = jax.tree.leaves((run.params, run.stats))
        head = [a for a, name in zip(weights, names(run.params, run.stats)) if name.startswith(run.workload.head)]
        e["one_model_bytes"], e["held_bytes"] = unique_bytes(weights), _bytes_held(run)
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

        run.recipe.models = models

    run.before_first_step.append(attach)

    def proof(e: Evidence) -> bool:
        e["one_model_bytes"] = sum(4 * p.make().size for p in run.workload.params(run.config))
        e["held_bytes"] = _bytes_held(run)
        return set(e["held_bytes"]) == {e["one_model_bytes"]} and e["compilations"] == (2 * run.steps + 2 if cleared else 1)

    return proof


def _saved_by(gelu: Any, run: JaxAdapter) -> int:
    """Arrays of the input's size that one GELU saves for its backward pass."""
    x = jax.ShapeDtypeStruct((8, 8), run.recipe.width)
    saved = jax.eval_shape(lambda x: jax.vjp(gelu, x)[1], x)
    return sum(a.shape == x.shape for a in jax.tree.leaves(saved))


def _rules_met(run: JaxAdapter, gelu: Any, e: Evidence) -> int:
    """How often the forward pass meets a rule written by hand; the evidence gets what one GELU saves, too."""
    parts = run.split(run.abstract(run.config, run.recipe.training))
    forward = jax.make_jaxpr(lambda p, x: nnx.merge(parts.graph, p, parts.frozen, parts.stats)(x))
    primitive_counts = Counter(eq.primitive.name for eq in equations(forward(parts.params, run.inputs[0])))
    e["rules_met"], e["saved_by_one"] = primitive_counts["custom_vjp_call"], _saved_by(gelu, run)
    return e["rules_met"]


@switch
def built_in(run: JaxAdapter) -> Proof:
    return lambda e: _rules_met(run, run.model_module.exact_gelu, e) == 0 < e["saved_by_one"]


@switch
def custom_rule(run: JaxAdapter, lean: bool) -> Proof:
    gelu = run.model_module.lean_gelu if lean else run.model_module.wasteful_gelu
    run.recipe.model_options["gelu"] = gelu
    if lean:
        keep_barriers(run)

    def proof(e: Evidence) -> bool:
        """The executable computes the error function again in the backward pass, or does not."""
        layers = run.config.layers
        e["compiled_erfs"] = sum(c.as_text().count(" erf(") for c in run.program.compiled.values())
        met = _rules_met(run, gelu, e) == layers and e["saved_by_one"] == (1 if lean else 5)
        return met and (e["compiled_erfs"] >= 2 * layers) == lean

    return proof
