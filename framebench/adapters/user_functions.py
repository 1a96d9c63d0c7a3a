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


def see_nothing(adapter: Any, *_: Any) -> str:
    """Return an empty text, in a framework that does not tell which operation did something."""
    return ""


def unwrap_loss(value: Any) -> Any:
    """Return the loss in a tuple or dictionary whose other values are only logged."""
    if isinstance(value, tuple | list) and value:
        return value[0]
    return value.get("loss", value) if isinstance(value, Mapping) else value


def read_pair(returned: Any) -> tuple[Any, Any] | None:
    """Return inputs and targets of what a file returned for a batch; None if it is no batch.

    A dictionary has its targets among the inputs.
    """
    if isinstance(returned, Mapping):
        return returned, None
    if isinstance(returned, tuple | list) and len(returned) == 2:
        inputs, targets = returned
        return inputs, targets
    return None


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
        """Return the file's object of this name. Raises Fault if there is none."""
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

    def fault(self, name: str, what: str) -> Fault:
        """Return the error that something is wrong with what the file calls by a name."""
        return Fault(f"{self.locate(name)}: {what}")

    def make_model(self, modules: type | tuple[type, ...]) -> Any:
        """Return what `model()` makes. Raises Fault if `model` is a module, and not a function."""
        model = self.get("model")
        if isinstance(model, modules):
            raise self.fault(
                "model",
                f"`model` is {describe_type(model)}: it must be a function, or a class, "
                f"that makes a new model each time, as in `def model(): return ...`",
            )
        return self.call_seeded("model")

    def make_batch(self, size: int, types: Any, called: str) -> tuple[Any, Any]:
        """Return inputs and targets: trees of arrays of the given types.

        The targets are None where `batch` returned a dictionary, which has them among the inputs.
        Messages call an array `called`. Raises Fault if `batch` returned anything else.
        """
        returned = self.call_seeded("batch", size)
        pair = read_pair(returned)
        if pair is None:
            what = describe_type(returned)
            if isinstance(returned, tuple | list):
                what = f"{what} of {len(returned)}"
            raise self.fault(
                "batch",
                f"batch(n) must return (inputs, target), and it returned {what}; for a model that "
                f"takes several, inputs is a tuple or, of keywords, a dict of {called}s",
            )
        inputs, targets = pair
        for what, tree in (("an input", inputs), ("a target", targets)):
            for array in list_arrays(tree):
                if not isinstance(array, types):
                    kind = describe_type(array)
                    raise self.fault(
                        "batch", f"batch(n) must give {called}s, and {what} has {kind}"
                    )
        if not list_arrays(inputs):
            kind = describe_type(inputs)
            raise self.fault(
                "batch", f"batch(n) must give {called}s, and an input has none: it is {kind}"
            )
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
        step = getattr(self.module, "step", None)
        if not inspect.isfunction(step):
            return False
        parameters = inspect.signature(step).parameters.values()
        required = [one for one in parameters if one.default is inspect.Parameter.empty]
        return len(required) == STEP_ARGUMENTS

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
        call = f"split(batch, {parts})"
        if len(micro_batches) != parts:
            count = len(micro_batches)
            raise self.fault(
                "split", f"{call} must return {parts} batches, and it returned {count}"
            )
        result: list[tuple[Any, Any]] = []
        for part in micro_batches:
            pair = read_pair(part)
            if pair is None:
                what = f"and one is {describe_type(part)}"
                raise self.fault(
                    "split", f"{call} must return batches as batch(n) returns them, {what}"
                )
            inputs, targets = pair
            result.append(((inputs,) if self.is_one_argument else inputs, targets))
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
        what = "loss(output, target)"
        if "loss" in self:
            return self.read_number("loss", what, types, called, self.get("loss")(output, target))
        return self.read_number("model", what, types, called, self.read_loss(output))

    def read_number(self, name: str, what: str, types: Any, called: str, value: Any) -> Any:
        """Return the loss in what a function of this name returned: an array of one number.

        Raises Fault.
        """
        value = unwrap_loss(value)
        returned = describe_type(value)
        if isinstance(value, types):
            if math.prod(value.shape) == 1:
                return value
            returned = f"{returned} of shape {tuple(value.shape)}"
        expected = f"one number as {called}"
        raise self.fault(name, f"{what} must return {expected}, and it returned {returned}")

    def read_loss(self, output: Any) -> Any:
        """Return the loss that a model's output carries. Raises Fault if it carries none."""
        loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if loss is None:
            raise self.fault(
                "model",
                f"the file has no `loss`, and the model's output, {describe_type(output)}, has no "
                f"`.loss`: write loss(output, target), or give the model its labels among the "
                f"inputs",
            )
        return loss
