"""The user's file in JAX.

The file has `model()`, which returns a Flax NNX module, `batch(n)` and `loss(output, target)`. It
may have `optimizer()`, which returns one of optax, and `blocks`: the class or classes of the
modules that checkpointing recomputes, or a function that lists these modules of a model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen, nnx
from flax.nnx import bridge
from jax import Array
from jax.tree_util import DictKey

from framebench.adapters import user_blocks
from framebench.adapters.jax.adapter import JaxAdapter, is_inexact
from framebench.adapters.jax.states import list_keys, read_period_counters
from framebench.adapters.replacing import replace_attributes
from framebench.adapters.user_functions import (
    FLOAT32_BYTES,
    LONGEST_PERIOD,
    UserFile,
    describe_type,
    leave_operation_unknown,
    select_returned,
)
from framebench.models import flax_weights
from framebench.models.flax_blocks import Remat, recompute_nothing
from framebench.models.spec import SEED, USER_MODEL, load_workload
from framebench.models.user_facts import ModelFacts
from framebench.suite.trees import call_with, has_axis_of, list_arrays, map_tree

ARRAYS = jax.Array | np.ndarray
HOLDERS = (nnx.List, nnx.Dict)  # modules that cannot be called
FEW_SAMPLES = 2  # of a batch that only its shapes are asked of


def list_modules(module: nnx.Module) -> list[nnx.Module]:
    """Return a module and the modules in it, without those that only hold others."""
    modules = nnx.iter_modules(module)
    return [inner for _, inner in modules if not isinstance(inner, HOLDERS)]


def count_weights(module: nnx.Module) -> int:
    """Return how many numbers the weights of a module have."""
    return sum(array.size for array in jax.tree.leaves(nnx.state(module, nnx.Param)))


ACCESS = user_blocks.ModuleAccess(
    modules=list_modules,
    size=count_weights,
    containers=(nnx.Sequential,),
)


@cache
def user() -> UserFile:
    """Return the user's file, imported. Raises Fault."""

    def seed_nothing(seed: int) -> None:
        """Do nothing: JAX has no global seed, and the keys are the file's own."""

    file = load_workload(USER_MODEL).facts["file"]
    return UserFile(file, seed_nothing, "array", batch_types=ARRAYS, loss_types=jax.Array)


@cache
def route_class(block: type) -> type:
    """Return a subclass of a block's class, whose calls go through the attribute `remat`."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        run_block = self.remat(self.number, block.__call__)
        return run_block(self, *args, **kwargs)

    return type(block.__name__, (block,), {"__call__": call})


def build(
    config: Any,
    dtype: Any = jnp.float32,
    param_dtype: Any = jnp.float32,
    remat: Remat = recompute_nothing,
) -> nnx.Module:
    """Build the file's model, every layer with a `dtype` in the given one. Raises Fault."""
    model = make_plain_model()
    for number, block in enumerate(find_blocks(model)):
        block_class: Any = type(block)
        block.__class__ = route_class(block_class)
        block.remat = remat
        block.number = number
    for _, module in nnx.iter_modules(model):
        if isinstance(module, bridge.ToNNX):
            continue  # it shows the fields of its Linen module, which cannot be set
        if hasattr(module, "dtype"):
            module.dtype = dtype
        if hasattr(module, "param_dtype") and module.param_dtype == jnp.float32:
            module.param_dtype = param_dtype  # a recurrent cell's first state has it, too
    for *_, variable in flax_weights.iterate_leaves(model):
        if variable.shape == ():
            # loading gives a weight of one number an axis
            variable.set_metadata(on_set_value=lambda _, value: value.reshape(()))
    return model


def make_plain_model() -> nnx.Module:
    """Return the file's model as a module of NNX. Raises Fault."""
    model = user().make_model((nnx.Module, linen.Module))
    if isinstance(model, tuple) and len(model) == 2 and callable(model[1]):
        model = FunctionModel(*check_weights(*model))
    elif is_callable_tree(model):
        model = FunctionModel(*split_callable_tree(model))
    elif isinstance(model, linen.Module):
        model = LinenModel(model)
    elif not isinstance(model, nnx.Module):
        expected = (
            "a flax.nnx.Module, a flax.linen.Module, a tree of arrays that can be called, as an "
            "equinox.Module, or (weights, apply)"
        )
        class_name = describe_type(model)
        raise user().fault("model", f"model() must return {expected}, not {class_name}")
    if isinstance(model, FunctionModel):
        if takes_one_sample(model):
            model.apply = map_over_samples(model.apply)
        user().weight_tree = model.tree
        # What a function made inside a trace keeps in closures is placeholders, which no other
        # trace may use. One that was made outside has arrays there.
        is_traced = any(isinstance(p[...], jax.core.Tracer) for p in model.weights.values())
        if not is_traced:
            user().function = model.apply
        elif user().function:
            model.apply = user().function
    return model


def check_weights(weights: Any, apply: Callable[..., Any]) -> tuple[Any, Callable[..., Any]]:
    """Return the pair of weights and function that `model()` returned.

    Raises Fault if there are no weights, as in a pair of functions of Haiku.
    """
    if not any(is_weight(leaf) for leaf in jax.tree.leaves(weights)):
        raise user().fault(
            "model",
            f"model() must return (weights, apply), and {describe_type(weights)} has no arrays of "
            "real numbers: call `init` in model() and return what it returns, with `apply`",
        )
    return weights, apply


def takes_one_sample(model: FunctionModel) -> bool:
    """Return whether the model takes a sample and no batch, as layers of Equinox do.

    Such a model fails with a batch, and runs where it is mapped over one. Nothing is computed.
    """
    if user().takes_one_sample is None:
        weights = {name: variable[...] for name, variable in model.weights.items()}
        tree = model.tree.build(weights)
        inputs, _ = user().make_batch(FEW_SAMPLES)
        user().takes_one_sample = not can_run(model.apply, tree, inputs) and can_run(
            map_over_samples(model.apply), tree, inputs
        )
    return bool(user().takes_one_sample)


def can_run(apply: Callable[..., Any], weights: Any, inputs: Any) -> bool:
    """Return whether a function takes weights and inputs of these shapes."""

    def call(weights: Any, inputs: Any) -> Any:
        return call_with(partial(apply, weights), inputs)

    try:
        jax.eval_shape(call, weights, inputs)
    except Exception:  # of the file
        return False
    return True


def map_over_samples(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of weights and a batch, for one of weights and a sample."""

    def apply_to_batch(weights: Any, *inputs: Any, **kwargs: Any) -> Any:
        return jax.vmap(partial(apply, weights))(*inputs, **kwargs)

    return apply_to_batch


def is_callable_tree(model: Any) -> bool:
    """Return whether something is a tree of arrays that can be called, as modules of Equinox are.

    Modules of Flax are no such trees here.
    """
    if isinstance(model, nnx.Module | linen.Module) or not callable(model):
        return False
    return any(is_weight(leaf) for leaf in jax.tree.leaves(model))


def is_weight(leaf: Any) -> bool:
    """Return whether a leaf of a tree is an array of real or complex numbers."""
    return isinstance(leaf, ARRAYS) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def split_callable_tree(model: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the weights of a tree that can be called, and the function that takes them first.

    The weights are in the same tree, which has None in the place of everything else.
    """

    def keep_weight(leaf: Any) -> Any:
        return leaf if is_weight(leaf) else None

    def keep_other(leaf: Any) -> Any:
        return None if is_weight(leaf) else leaf

    def join(weight: Any, other: Any) -> Any:
        return other if weight is None else weight

    def is_none(node: Any) -> bool:
        return node is None

    others = jax.tree.map(keep_other, model)

    def apply(weights: Any, *inputs: Any, **kwargs: Any) -> Any:
        # JAX takes None for an empty tree, unless it is told that it is a leaf
        whole = jax.tree.map(join, weights, others, is_leaf=is_none)
        return whole(*inputs, **kwargs)

    return jax.tree.map(keep_weight, model), apply


def name_path(path: tuple[Any, ...]) -> str:
    """Return the name of an array by its path in a tree, such as `layers_0_w`."""
    return jax.tree_util.keystr(path, simple=True, separator="_")


@dataclass(frozen=True)
class WeightTree:
    """The tree in which a file has its weights, and the name of each array in it."""

    form: Any  # a PyTreeDef
    names: tuple[str, ...]

    @classmethod
    def read(cls, weights: Any) -> WeightTree:
        """Return the form of a tree of weights; an array's name is its path in the tree."""
        paths, form = jax.tree.flatten_with_path(weights)
        names: list[str] = []
        for path, _ in paths:
            name = name_path(path)
            while name in names:  # `a_b` may be one key or two
                name += "_"
            names.append(name)
        return cls(form, tuple(names))

    def build(self, arrays: dict[str, Any]) -> Any:
        """Return the file's tree with these arrays, which are given by name."""
        return jax.tree.unflatten(self.form, [arrays[name] for name in self.names])

    def take_apart(self, tree: Any) -> dict[str, Any]:
        """Return the arrays of such a tree by name."""
        return dict(zip(self.names, self.form.flatten_up_to(tree), strict=True))


class FunctionModel(nnx.Module):
    """Weights in a tree of arrays, and the function that takes them first."""

    def __init__(self, weights: Any, apply: Callable[..., Any]) -> None:
        """Make a parameter of each array, named by its path in the tree."""
        self.tree = WeightTree.read(weights)
        self.apply = apply
        params = {}
        for name, array in self.tree.take_apart(weights).items():
            params[name] = nnx.Param(array)
        self.weights = nnx.Dict(params)

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the file's function with the present weights."""
        arrays = {name: variable[...] for name, variable in self.weights.items()}
        return self.apply(self.tree.build(arrays), *inputs, **kwargs)


class LinenModel(nnx.Module):
    """A module of Flax's older interface, initialised with the file's own batch.

    The only variables that it updates are its running statistics.
    """

    def __init__(self, module: linen.Module) -> None:
        """Initialise the module on a batch of one sample from the user's file."""
        x, _ = user().make_batch(1)
        x = map_tree(narrow_to_float32, x)  # which the first weights are in
        as_nnx = bridge.ToNNX(module, rngs=nnx.Rngs(SEED))
        self.inner = call_with(partial(bridge.lazy_init, as_nnx), x)
        self.param_dtype = jnp.float32  # in float64, `build` sets this type

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module, and keep the running statistics that it updates."""
        with begin_cells_with(self.param_dtype):
            return self.inner(*inputs, **kwargs, mutable=["batch_stats"])


def narrow_to_float32(array: Any) -> Any:
    """Return an array in float32, where it is in float64."""
    return array.astype(jnp.float32) if array.dtype == jnp.float64 else array


@contextmanager
def begin_cells_with(dtype: Any) -> Iterator[None]:
    """Let recurrent cells of Linen begin with states of this type, which may be float64.

    Their own first states have the type that the file gives its weights.
    """

    def widen(make_states: Callable[..., Any]) -> Callable[..., Any]:
        def make_wide_states(cell: Any, *arguments: Any, **options: Any) -> Any:
            before = cell.param_dtype
            object.__setattr__(cell, "param_dtype", dtype)  # Linen freezes its modules
            try:
                return make_states(cell, *arguments, **options)
            finally:
                object.__setattr__(cell, "param_dtype", before)

        return make_wide_states

    with ExitStack() as stack:
        if dtype != jnp.float32:
            for cell in list_cells(linen.RNNCellBase):
                wide = widen(cell.initialize_carry)
                stack.enter_context(replace_attributes(cell, initialize_carry=wide))
        yield


def list_cells(parent: type) -> list[Any]:
    """Return all subclasses of a class that make first states in the type of their weights."""
    subclasses: list[Any] = []
    child: type
    for child in parent.__subclasses__():
        if "initialize_carry" in vars(child) and hasattr(child, "param_dtype"):
            subclasses.append(child)
        subclasses += list_cells(child)
    return subclasses


def read_rng_states() -> dict[str, Any]:
    """Return the model's initial states of random numbers, in nested dictionaries."""
    return nnx.to_pure_dict(nnx.state(make_plain_model(), nnx.RngState))


def find_blocks(model: nnx.Module) -> list[Any]:
    """Return the blocks, which checkpointing recomputes: named by the file, or repeated modules.

    Raises Fault.
    """
    return user_blocks.find_named_or_repeated(model, user(), ACCESS)


def loss(output: Any, target: Array) -> Array:
    """Return the file's loss of an output in float32 or wider. Raises Fault."""

    def widen(value: Any) -> Any:
        if not is_inexact(value):
            return value
        return value.astype(jnp.promote_types(value.dtype, jnp.float32))

    wide_output = jax.tree.map(widen, output)
    loss_array: Array = user().compute_loss(wide_output, target)
    return loss_array.reshape(())


def optimizer() -> optax.GradientTransformation:
    """Return the file's optimizer. Raises Fault.

    Optimizers that only the file's own step can use are replaced by one that does nothing.
    """
    if user().takes_model():
        # without arrays: only its transformation is used
        returned = nnx.eval_shape(lambda: user().get("optimizer")(make_plain_model()))
    else:
        returned = user().get("optimizer")()
    if isinstance(returned, nnx.Optimizer):
        returned = returned.tx
    elif user().has_step() and select_returned(returned, nnx.Optimizer):
        returned = optax.identity()
    if isinstance(returned, optax.GradientTransformation):
        return use_file_pytree(returned)
    init = getattr(returned, "init", None)
    update = getattr(returned, "update", None)
    if not callable(init) or not callable(update):
        expected = "an optax.GradientTransformation, or an object with its init and update"
        kind = describe_type(returned)
        raise user().fault("optimizer", f"optimizer() must return {expected}, not {kind}")
    return use_file_pytree(optax.GradientTransformation(init, update))  # as of optax.MultiSteps


def use_file_pytree(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """Return an optimizer that gives the file's optimizer the weights in the file's own pytree.

    A mask of optax, for instance, has the structure of that pytree. Weights of modules stay as they
    are.
    """

    def init(params: Any) -> Any:
        """Return the state of the file's optimizer."""
        return inner.init(to_file_pytree(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Return the updates of the model's arrays, and the new state; `params` may be None."""
        params = to_file_pytree(params)
        updates, state = inner.update(to_file_pytree(updates), state, params, **extra)
        return from_file_pytree(updates), state

    return optax.GradientTransformationExtraArgs(init, update)


def to_file_pytree(params: Any) -> Any:
    """Return a model's arrays in the pytree of its file, if the file has one; None stays None."""
    tree = user().weight_tree
    return params if tree is None or params is None else tree.build(params["weights"])


def from_file_pytree(arrays: Any) -> Any:
    """Return arrays in the file's pytree as those of a model."""
    tree = user().weight_tree
    return arrays if tree is None else {"weights": tree.take_apart(arrays)}


def rename_weight(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the path of a leaf of an optimizer's state with the model's name of its weight.

    The state may have the file's own tree of weights, or a part of it, as behind a mask of optax:
    the end of the path is then an array's path in the file's tree. The default optimizer, and what
    wraps the file's, has the model's name already.
    """
    tree = user().weight_tree
    if tree is None:
        return path
    for start in range(len(path) + 1):
        name = name_path(path[start:])
        if name in tree.names:
            parents = path[:start]
            if parents[-1:] == (DictKey("weights"),):
                return path
            return *parents, DictKey("weights"), DictKey(name)
    return path


def run_step(model: nnx.Module, batch: tuple[Any, Any], optimizer: Any) -> Array:
    """Make the file's own training step, and return its loss. Raises Fault."""
    return jnp.asarray(user().make_step(model, batch, optimizer)).reshape(())


def make_step_optimizer(model: nnx.Module, transformation: optax.GradientTransformation) -> Any:
    """Return the optimizer of this model that the file's own step takes.

    It is returned by the file's `optimizer(model)`, or else is an `nnx.Optimizer` of all weights
    with the transformation.
    """
    if user().takes_model():
        return user().get("optimizer")(model)
    return nnx.Optimizer(model, transformation, wrt=nnx.Param)


def read_optimizer(returned: Any) -> list[Any]:
    """Return the state of each optimizer, in trees of arrays, with its count of steps."""

    def is_nnx_state(node: Any) -> bool:
        return isinstance(node, nnx.Variable | nnx.State)  # trees by themselves

    def to_pure(node: Any) -> Any:
        return node.get_value() if isinstance(node, nnx.Variable) else nnx.to_pure_dict(node)

    states = []
    for each in select_returned(returned, nnx.Optimizer):
        arrays = jax.tree.map(to_pure, each.opt_state, is_leaf=is_nnx_state)
        states.append((each.step.get_value(), arrays))
    return states


def write_optimizer(returned: Any, states: list[Any]) -> None:
    """Put states that `read_optimizer` returned into new optimizers."""
    for each, (count, arrays) in zip(select_returned(returned, nnx.Optimizer), states, strict=True):
        each.step.set_value(count)
        variables = jax.tree.leaves(
            each.opt_state, is_leaf=lambda node: isinstance(node, nnx.Variable)
        )
        for variable, array in zip(variables, jax.tree.leaves(arrays), strict=True):
            variable.set_value(array)


def read_leaves(model: nnx.Module) -> Iterator[tuple[str, nnx.Variable, np.ndarray]]:
    """Yield canonical name, variable and array in the canonical layout of each leaf.

    Raises Fault for kinds of variables that are not supported.
    """
    for path, variable in nnx.to_flat_state(nnx.state(model)):
        if not isinstance(variable, nnx.Param | nnx.BatchStat | nnx.RngState):
            name = ".".join(map(str, path))
            raise user().fault(
                "model",
                f"the model has {name}, a variable of the kind {describe_type(variable)}, and only "
                "nnx.Param, nnx.BatchStat and states of random numbers are supported: what else a "
                "step changes cannot be followed",
            )
    for module, path, variable in flax_weights.iterate_leaves(model):
        layout = flax_weights.find_converter(module, str(path[-1]))
        value = np.asarray(variable.get_value())
        name = flax_weights.name_leaf(path)
        if np.iscomplexobj(value):  # in float32 it would lose its imaginary part
            raise user().fault(
                "model",
                f"{name} is complex, and weights in JAX must be real: keep its real and its "
                "imaginary part as two weights",
            )
        if jnp.issubdtype(value.dtype, jnp.floating) and value.itemsize < FLOAT32_BYTES:
            raise user().fault(
                "model",
                f"{name} is {value.dtype}, and weights in JAX must be float32: let model() keep "
                "them in float32, and cast them where they are used",
            )
        yield name, variable, flax_weights.RESTORERS[layout](value.astype(np.float32))


def weights() -> dict[str, np.ndarray]:
    """Return the model's initial weights and statistics."""
    return {name: array.copy() for name, array in make_weights().items()}


@cache
def make_weights() -> dict[str, np.ndarray]:
    """Return the model's initial weights and statistics, computed once (Linen runs the model).

    They are copies, since JAX's own arrays would stay alive in every step.
    """
    return {name: array.copy() for name, _, array in read_leaves(make_plain_model())}


def batch(size: int) -> tuple[Any, Any]:
    """Return inputs and targets in NumPy arrays. Raises Fault."""
    x, y = user().make_batch(size)
    return map_tree(to_numpy, x), map_tree(to_numpy, y)


def to_numpy(array: Any) -> np.ndarray:
    """Return an array of a batch in NumPy.

    A key of random numbers becomes its data, which `jax.random` takes as well. Raises Fault for the
    key of another generator than the default, since its data do not tell which.
    """
    if not jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return np.asarray(array)
    generator = jax.random.key_impl(array)
    if generator != jax.random.key_impl(jax.random.key(0)):
        raise user().fault(
            "batch",
            f"batch(n) gave a key of the generator {generator}: make it in the model from a number "
            "in the batch, or set jax_default_prng_impl in the file",
        )
    return np.asarray(jax.random.key_data(array))


def explain_uncut(inputs: Any, size: int) -> str:
    """Return why a step cannot loop over micro-batches of these inputs, or "" if it can.

    XLA's loop needs micro-batches of one shape, which only an axis of samples gives.
    """
    if any(has_axis_of(array, size) for array in list_arrays(inputs)):
        return ""
    return (
        f"no input of batch({size}) has {size} samples along its first axis, and a loop in a "
        "compiled step takes micro-batches of one shape"
    )


def facts(size: int) -> ModelFacts:
    """Return the facts of the file's model for the parent, which does not import JAX.

    `size` is the number of samples in a batch. Raises Fault.
    """
    model = make_plain_model()
    inputs, targets = batch(size)
    params = list_params(model)
    parameters = 0
    for _, shape, is_trained in params:
        if is_trained:
            parameters += math.prod(shape)
    modules = {}  # by their path, such as `blocks.0.attention`
    for path, module in nnx.iter_modules(model):
        modules[".".join(str(key) for key in path)] = module
    description = user_blocks.describe_model(
        modules,
        find_blocks(model),
        inputs,
        targets,
        batch_norms=[name for name, m in modules.items() if isinstance(m, nnx.BatchNorm)],
        has_convolutions=any(isinstance(module, nnx.Conv) for module in modules.values()),
    )
    return {
        **description,
        "uncut": explain_uncut(inputs, size),
        "params": params,
        "parameters": parameters,
        "own_step": user().has_step(),
        "linen": isinstance(model, LinenModel | FunctionModel),
        "optimizer": "of the file" if "optimizer" in user() and optimizer() else "SGD",
    }


read_facts_of_shapes = facts  # it runs no step, and makes the weights on the host


def list_params(model: nnx.Module) -> list[tuple[str, list[int], bool]]:
    """Return each weight's and statistic's canonical name, shape, and whether it is trained.

    Raises Fault if two have the same name.
    """
    params = []
    for name, variable, array in read_leaves(model):
        params.append((name, list(array.shape), isinstance(variable, nnx.Param)))
    if len({name for name, _, _ in params}) < len(params):
        reason = "two weights of one layer would have one name; kernel, scale and embedding are one"
        raise user().fault("model", reason)
    return params


def find_named_period(adapter: JaxAdapter) -> int:
    """Return the period in steps after which the optimizer does more, as MultiSteps does; or 1.

    Of several periods it is the longest. optax keeps their lengths in closures, but counts in the
    state: steps are made until each count has begun again. The adapter ends with its first weights.
    """
    waiting = set(range(len(read_period_counters(adapter.optimizer_state))))
    if not waiting:
        return 1
    period = 1
    for steps in range(1, LONGEST_PERIOD + 1):
        with adapter.disable_randomness():
            adapter.step()
        for number, count in enumerate(read_period_counters(adapter.optimizer_state)):
            if number in waiting and count == 0:
                waiting.remove(number)
                period = steps
        if not waiting:
            break
    adapter.restore()
    return period


def compute_gradient(adapter: JaxAdapter) -> tuple[float, list[tuple[str, np.ndarray]]]:
    """Return the loss of the adapter's inputs, and the gradients as they enter an optimizer.

    The adapter gets the statistics that the forward pass leaves, as in the other frameworks.
    """
    compiled = jax.jit(adapter.make_gradient(adapter.graph))
    model = (adapter.params, adapter.stats, adapter.constants)
    (loss_array, adapter.stats), grads = compiled(*model, *adapter.inputs)
    named_grads: list[tuple[str, np.ndarray]] = []
    for path, grad in jax.tree_util.tree_leaves_with_path(grads):
        named_grads += adapter.names.restore_leaf(list_keys(path), np.asarray(grad))
    return float(loss_array), named_grads


# JAX has no known wrong gradients, and operations inside a compiled step cannot be watched
explain_wrong_gradients = leave_operation_unknown
find_first_random = leave_operation_unknown
find_first_infinite = leave_operation_unknown
