"""The functions that `framebench try` calls in a user's file, and the checks of what they return.

Each call begins from the same seeds, so that every process builds the same model and batch.
"""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from framebench.models.spec import SEED
from framebench.suite.trees import can_split, is_list_of_samples, list_arrays, split
from framebench.suite.user_file import Fault, list_definitions, load_file

STEP_ARGUMENTS = 3  # model, batch, optimizer

# Called with the part of the file that is about to run, such as "model()".
LISTENERS: list[Callable[[str], object]] = []


def announce(part: str) -> None:
    """Tell every listener which part of the file runs now."""
    for listener in LISTENERS:
        listener(part)


def describe_type(instance: Any) -> str:
    """Return the name of an object's class as users know it.

    PyTorch's fake tensors are called tensors, since the user's code made tensors.
    """
    for base in type(instance).__mro__:
        if not base.__module__.startswith("torch._subclasses"):
            return f"{base.__module__}.{base.__qualname__}".removeprefix("builtins.")
    raise AssertionError("every class ends in object")


def unwrap_loss(value: Any) -> Any:
    """Return the loss next to which a tuple or a dictionary has what is only logged."""
    if isinstance(value, tuple | list) and value:
        return value[0]
    return value.get("loss", value) if isinstance(value, Mapping) else value


class UserFile:
    """A user's file: it calls the functions there by name, each from the same random seeds.

    Python's and NumPy's generators are seeded here, the framework's by `seed_framework`.
    """

    def __init__(self, file: str, seed_framework: Callable[[int], object]) -> None:
        self.file = file
        self.seed_framework = seed_framework
        self.is_one_argument = False  # whether the inputs are one list of samples
        announce("import of the file")
        # The import may draw too (a teacher at module level), and must give the same everywhere.
        self.seed_all()
        self.module = load_file(file)

    def __contains__(self, name: str) -> bool:
        return hasattr(self.module, name)

    def has_function(self, name: str) -> bool:
        """Return whether the file has a function of this name, and not merely a value."""
        return callable(getattr(self.module, name, None))

    def locate(self, name: str) -> str:
        """Return `file:line` of the definition of a name."""
        return f"{self.file}:{list_definitions(self.file).get(name, 1)}"

    def get(self, name: str) -> Any:
        """Return what the file calls by this name. Raises Fault if there is nothing."""
        if name not in self:
            raise Fault(f"{self.file} has no `{name}`; docs/try.md says what the file needs")
        return getattr(self.module, name)

    def call_seeded(self, name: str, *arguments: Any) -> Any:
        """Call a function of the file, from the same seeds each time. Raises Fault."""
        announce(f"{name}()")
        self.seed_all()
        return self.get(name)(*arguments)

    def seed_all(self) -> None:
        """Seed the generators of Python, NumPy and the framework."""
        random.seed(SEED)
        np.random.seed(SEED)
        self.seed_framework(SEED)

    def make_model(self, modules: type | tuple[type, ...]) -> Any:
        """Return what `model()` makes. Raises Fault if `model` is a module, and not a function."""
        model = self.get("model")
        if isinstance(model, modules):
            where = self.locate("model")
            raise Fault(
                f"{where}: `model` is {describe_type(model)}: it must be a function, or a class, "
                f"that makes a new model each time, as in `def model(): return ...`"
            )
        return self.call_seeded("model")

    def make_batch(self, size: int, types: Any, called: str) -> tuple[Any, Any]:
        """Return inputs and targets: trees of arrays of the given types.

        The targets are None where `batch` returned a dictionary, which has them among the inputs.
        Messages call an array `called`. Raises Fault if `batch` returned anything else.
        """
        returned = self.call_seeded("batch", size)
        if isinstance(returned, Mapping):
            returned = (returned, None)
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            what = describe_type(returned)
            if isinstance(returned, tuple | list):
                what = f"{what} of {len(returned)}"
            where = self.locate("batch")
            raise Fault(
                f"{where}: batch(n) must return (inputs, target), and it returned {what}; for a "
                f"model that takes several, inputs is a tuple or, of keywords, a dict of {called}s"
            )
        inputs, targets = returned
        self.check_arrays("an input", inputs, types, called)
        self.check_arrays("a target", targets, types, called)
        self.is_one_argument = is_list_of_samples(inputs, size)
        if self.is_one_argument:
            inputs = (inputs,)  # as detectors take a list of images
        return inputs, targets

    def as_written(self, batch: tuple[Any, Any]) -> Any:
        """Return a batch in the form in which the file's `batch` returned it."""
        inputs, targets = batch
        if self.is_one_argument:
            inputs = inputs[0]
        is_whole = targets is None and isinstance(inputs, Mapping)
        return inputs if is_whole else (inputs, targets)

    def has_step(self) -> bool:
        """Return whether the file has its own training step, `step(model, batch, optimizer)`.

        A function with another number of arguments is for something else.
        """
        if not self.has_function("step"):
            return False
        try:
            parameters = inspect.signature(self.get("step")).parameters.values()
        except (TypeError, ValueError):
            return False
        required = [one for one in parameters if one.default is inspect.Parameter.empty]
        return len(required) == STEP_ARGUMENTS

    def check_arrays(self, what: str, tree: Any, types: Any, called: str) -> None:
        """Check that the arrays of an input or a target are the framework's.

        Inputs must have one; targets may be anything that `loss` understands. Raises Fault.
        """
        where = self.locate("batch")
        arrays = list_arrays(tree)
        for array in arrays:
            if not isinstance(array, types):
                kind = describe_type(array)
                raise Fault(f"{where}: batch(n) must give {called}s, and {what} has {kind}")
        if not arrays and what == "an input":
            raise Fault(
                f"{where}: batch(n) must give {called}s, and {what} has none: "
                f"it is {describe_type(tree)}"
            )

    def split_batch(self, batch: tuple[Any, Any], parts: int, size: int) -> list[tuple[Any, Any]]:
        """Return the micro-batches of a batch of `size` samples, as (inputs, targets).

        The file's `split(batch, parts)` cuts it if there is one: it gets what `batch(n)` returns,
        and returns a list of as many like it. Raises Fault if it does not.
        """
        if not self.has_function("split"):
            inputs, targets = batch
            return list(zip(split(inputs, parts, size), split(targets, parts, size), strict=True))
        returned = self.get("split")(self.as_written(batch), parts)
        micro_batches = list(returned) if isinstance(returned, Iterable) else [returned]
        where = self.locate("split")
        if len(micro_batches) != parts:
            raise Fault(
                f"{where}: split(batch, {parts}) must return {parts} batches, "
                f"and it returned {len(micro_batches)}"
            )
        result: list[tuple[Any, Any]] = []
        for part in micro_batches:
            if isinstance(part, Mapping):
                part = (part, None)
            if not isinstance(part, tuple | list) or len(part) != 2:
                raise Fault(
                    f"{where}: split(batch, {parts}) must return batches as batch(n) returns "
                    f"them, and one is {describe_type(part)}"
                )
            inputs = (part[0],) if self.is_one_argument else part[0]
            result.append((inputs, part[1]))
        return result

    def explain_uncut(self, inputs: Any, size: int) -> str:
        """Return why a batch of `size` samples cannot be cut into micro-batches; empty if it can.

        Whether its parts then add up to the batch is another question.
        """
        if self.has_function("split") or can_split(inputs, size):
            return ""
        return (
            f"no input of batch({size}) has {size} samples along its first axis: "
            "write split(batch, k), which returns k smaller batches"
        )

    def compute_loss(self, types: Any, called: str, output: Any, target: Any) -> Any:
        """Return the loss, an array of one number.

        It is what the file's `loss` returns, or the output's own where the file has none. Values
        that are only logged may follow it in a tuple, or stand next to the key `loss`.

        Raises Fault.
        """
        has_loss = "loss" in self
        value = self.get("loss")(output, target) if has_loss else self.read_loss(output)
        name = "loss" if has_loss else "model"
        return self.read_number(name, "loss(output, target)", types, called, value)

    def read_number(self, name: str, what: str, types: Any, called: str, value: Any) -> Any:
        """Return the loss in what a function of this name returned: an array of one number.

        Raises Fault.
        """
        value = unwrap_loss(value)
        if isinstance(value, types) and math.prod(value.shape) == 1:
            return value
        where = self.locate(name)
        returned = describe_type(value)
        if isinstance(value, types):
            returned = f"{returned} of shape {tuple(value.shape)}"
        expected = f"one number as {called}"
        raise Fault(f"{where}: {what} must return {expected}, and it returned {returned}")

    def read_loss(self, output: Any) -> Any:
        """Return the loss that a model's output carries. Raises Fault if it carries none."""
        loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if loss is None:
            raise Fault(
                f"{self.locate('model')}: the file has no `loss`, and the model's output, "
                f"{describe_type(output)}, has no `.loss`: write loss(output, target), "
                f"or give the model its labels among the inputs"
            )
        return loss
