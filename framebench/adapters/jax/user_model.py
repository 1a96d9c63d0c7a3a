"""The user's file in JAX: `model()` that returns a Flax NNX module, `batch(n)`, `loss(output, target)`, and if it has them
`optimizer()`, of optax, and `blocks`, a class or classes of what checkpointing recomputes, or a function that lists modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen, nnx
from flax.nnx import bridge
from jax import Array

from framebench.adapters import user_blocks
from framebench.adapters.jax.states import keys
from framebench.adapters.user_functions import UserFile, describe_type
from framebench.models import flax_weights
from framebench.models.flax_blocks import Remat, as_it_is
from framebench.models.spec import OWN, SEED, workload
from framebench.suite import trees
from framebench.suite.trees import called, mapped
from framebench.suite.user_file import Fault

ARRAYS = jax.Array | np.ndarray
HOLDERS = (nnx.List, nnx.Dict)  # which cannot be called
KIND = user_blocks.ModuleAccess(
    modules=lambda module: [m for _, m in nnx.iter_modules(module) if not isinstance(m, HOLDERS)],
    size=lambda module: sum(a.size for a in jax.tree.leaves(nnx.to_pure_dict(nnx.state(module, nnx.Param)))),
    containers=(nnx.Sequential,),
)


@cache
def user() -> UserFile:
    """Raises Fault."""
    facts: dict[str, Any] = workload(OWN).facts  # type: ignore[attr-defined]
    return UserFile(facts["file"], lambda _: None)  # keys are the file's own


@cache
def _routed(block: type) -> type:
    """The same class of blocks, which are run by way of `remat`."""

    def call(self: Any, *args: Any, **named: Any) -> Any:
        return self.remat(self.number, block.__call__)(self, *args, **named)

    return type(block.__name__, (block,), {"__call__": call})


def build(config: Any, dtype: Any = jnp.float32, param_dtype: Any = jnp.float32, remat: Remat = as_it_is) -> nnx.Module:
    """Build the file's model: every layer that has a `dtype` computes in this one. Raises Fault."""
    model = plain()
    for number, block in enumerate(find_blocks(model)):
        kind_of: Any = type(block)
        block.__class__ = _routed(kind_of)
        block.remat, block.number = remat, number
    for _, module in nnx.iter_modules(model):
        if hasattr(module, "dtype"):
            module.dtype = dtype
    for *_, variable in flax_weights.leaves(model):
        if variable.shape == ():
            variable.set_metadata(on_set_value=one_number)
    return model


def floating(array: Any) -> bool:
    """Say whether something is an array of floating-point numbers."""
    return isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jnp.floating)


def one_number(_: nnx.Variable, value: Any) -> Any:
    """A weight without axes, to which loading gives one."""
    return value.reshape(())


def plain() -> nnx.Module:
    model = user().make_model((nnx.Module, linen.Module))
    if isinstance(model, linen.Module):
        return Linen(model)
    if isinstance(model, tuple) and len(model) == 2 and callable(model[1]):
        return Plain(*model)
    if not isinstance(model, nnx.Module):
        one = "a flax.nnx.Module, a flax.linen.Module or (weights, apply)"
        raise Fault(f"{user().locate('model')}: model() must return {one}, not {describe_type(model)}")
    return model


class Plain(nnx.Module):
    """Weights in a tree of arrays, and the function that takes them first."""

    def __init__(self, weights: Any, apply: Callable[..., Any]) -> None:
        paths, self.form = jax.tree.flatten_with_path(weights)
        self.apply = apply
        self.weights = nnx.Dict({jax.tree_util.keystr(at, simple=True, separator="_"): nnx.Param(a) for at, a in paths})

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        values = [variable[...] for variable in self.weights.values()]
        return self.apply(jax.tree.unflatten(self.form, values), *inputs, **named)


class Linen(nnx.Module):
    """A module of Flax's older interface, initialised by the file's own batch. What it updates are its running statistics."""

    def __init__(self, module: linen.Module) -> None:
        x, _ = user().make_batch(1, ARRAYS, "array")
        self.inner = called(partial(bridge.lazy_init, bridge.ToNNX(module, rngs=nnx.Rngs(SEED))), x)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        return self.inner(*inputs, **named, mutable=["batch_stats"])


def draws() -> dict[str, Any]:
    """The states of random numbers as the model begins, in nested dictionaries."""
    return nnx.to_pure_dict(nnx.state(plain(), nnx.RngState))


def find_blocks(model: nnx.Module) -> list[Any]:
    """Raises Fault."""
    return user_blocks.find_blocks(model, user(), KIND)


def loss(output: Any, target: Array) -> Array:
    """Of an output in float32 or wider. Raises Fault."""
    wide = jax.tree.map(lambda a: a.astype(jnp.promote_types(a.dtype, jnp.float32)) if floating(a) else a, output)
    loss_array: Array = user().compute_loss(jax.Array, "an array", wide, target)
    return loss_array.reshape(())


def optimizer() -> optax.GradientTransformation:
    """The file's own. Raises Fault."""
    made = user().get("optimizer")()
    if not isinstance(made, optax.GradientTransformation):
        raise Fault(
            f"{user().locate('optimizer')}: optimizer() must return an optax.GradientTransformation, not {describe_type(made)}"
        )
    return made


def leaves(model: nnx.Module) -> Iterator[tuple[str, nnx.Variable, np.ndarray]]:
    """(canonical name, variable, array in the canonical layout). Raises Fault for kinds of variables that are not supported."""
    for path, variable in nnx.to_flat_state(nnx.state(model)):
        if not isinstance(variable, nnx.Param | nnx.BatchStat | nnx.RngState):
            where = ".".join(map(str, path))
            raise Fault(
                f"{user().locate('model')}: the model has {where}, a variable of the kind "
                f"{describe_type(variable)}, and only nnx.Param, "
                f"nnx.BatchStat and states of random numbers are supported: what else a step changes cannot be followed"
            )
    for module, path, variable in flax_weights.leaves(model):
        value = np.asarray(variable.get_value(), np.float32)
        yield flax_weights.canonical(path), variable, flax_weights.BACK[flax_weights.layout_of(module, str(path[-1]))](value)


def weights() -> dict[str, np.ndarray]:
    """Weights and statistics as the model begins."""
    return {name: array.copy() for name, array in _beginning().items()}


@cache
def _beginning() -> dict[str, np.ndarray]:
    """Made once: Linen runs the model to initialise it. Copies: JAX's own arrays would be alive in every step."""
    return {name: array.copy() for name, _, array in leaves(plain())}


def batch(size: int) -> tuple[Any, Any]:
    """Inputs and targets. Raises Fault."""
    x, y = (mapped(np.asarray, tree) for tree in user().make_batch(size, ARRAYS, "array"))
    return x, y


def facts(size_: int) -> dict[str, Any]:
    """What the harness must know of the model without JAX. Raises Fault."""
    model, (inputs, y) = plain(), batch(size_)
    x = next(trees.leaves(inputs))
    named_leaves = list(leaves(model))
    if len({name for name, _, _ in named_leaves}) < len(named_leaves):
        raise Fault(
            f"{user().locate('model')}: two weights of one layer would have one name; kernel, scale and embedding are one"
        )
    found_blocks = find_blocks(model)
    every = list(nnx.iter_modules(model))
    names = {id(module): ".".join(map(str, path)) for path, module in every}
    return {
        "params": [(name, list(array.shape), isinstance(variable, nnx.Param)) for name, variable, array in named_leaves],
        "parameters": sum(array.size for _, variable, array in named_leaves if isinstance(variable, nnx.Param)),
        "blocks": [names[id(block)] for block in found_blocks],
        "block": ", ".join(sorted({type(block).__name__ for block in found_blocks})),
        "couples": [names[id(m)] for _, m in every if isinstance(m, nnx.BatchNorm)][:1],
        "images": x.ndim == 4 and any(isinstance(m, nnx.Conv) for _, m in every),
        "draws": any(nnx.state(model, nnx.RngState)) and any(isinstance(m, nnx.Dropout | Linen) for _, m in every),
        "linen": isinstance(model, Linen | Plain),
        "input": list(x.shape),
        "target": next((list(array.shape) for array in trees.leaves(y)), []),
        "optimizer": "of the file" if _optimizer_given() else "SGD",
    }


def _optimizer_given() -> bool:
    return "optimizer" in user() and bool(optimizer())


def gradient_of(adapter: Any) -> tuple[float, list[tuple[str, np.ndarray]]]:
    """The loss of the adapter's inputs, and the gradients as no optimizer has had them."""
    compiled = jax.jit(adapter.gradient(adapter.graph))
    (loss_array, _), found = compiled(adapter.params, adapter.stats, adapter.constants, *adapter.inputs)
    each = jax.tree_util.tree_leaves_with_path(found)
    return float(loss_array), [pair for path, a in each for pair in adapter.names.unload(keys(path), np.asarray(a))]


def explain_wrong_gradients(adapter: Any, wrong: list[str]) -> str | None:
    """Of JAX nothing is known that it computes wrong."""
    return None


def first_random(adapter: Any) -> str:
    """Inside a compiled step nothing is seen."""
    return ""


def first_infinite(adapter: Any) -> str:
    return ""
