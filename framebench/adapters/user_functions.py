"""The functions that `framebench try` calls in a user's file, and the checks of what they return.

Each call begins from the same seeds, so that every process builds the same model and batch.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from framebench.models.spec import SEED
from framebench.suite.trees import map_tree
from framebench.suite.user_file import Fault, list_definitions, load_file

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


class UserFile:
    """A user's file: it calls the functions there by name, each from the same random seeds.

    Python's and NumPy's generators are seeded here, the framework's by `seed_framework`.
    """

    def __init__(self, file: str, seed_framework: Callable[[int], object]) -> None:
        self.file = file
        self.seed_framework = seed_framework
        announce("import of the file")
        # The import may draw too (a teacher at module level), and must give the same everywhere.
        self.seed_all()
        self.module = load_file(file)

    def __contains__(self, name: str) -> bool:
        return hasattr(self.module, name)

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
        self.check_arrays("an input", inputs, size, types, called)
        self.check_arrays("a target", targets, size, types, called)
        return inputs, targets

    def check_arrays(self, what: str, tree: Any, size: int, types: Any, called: str) -> None:
        """Check the arrays of an input or a target.

        At least one must have `size` samples. Inputs must have an array; targets may be None or an
        empty collection. Raises Fault.
        """
        where = self.locate("batch")
        arrays: list[Any] = []
        map_tree(arrays.append, tree)
        for array in arrays:
            if not isinstance(array, types):
                kind = describe_type(array)
                raise Fault(f"{where}: batch(n) must give {called}s, and {what} has {kind}")
        if not arrays:
            is_filled = isinstance(tree, tuple | list) and len(tree) > 0
            if what == "an input" or is_filled:
                raise Fault(
                    f"{where}: batch(n) must give {called}s, and {what} has none: "
                    f"it is {describe_type(tree)}"
                )
            return
        if not any(array.ndim > 0 and len(array) == size for array in arrays):
            shape = tuple(arrays[0].shape)
            raise Fault(
                f"{where}: batch({size}) gave {what} of shape {shape}, "
                f"whose first axis is no {size} samples"
            )

    def compute_loss(self, types: Any, called: str, output: Any, target: Any) -> Any:
        """Return the loss, an array of one number.

        It is what the file's `loss` returns, or the output's own where the file has none. Values
        that are only logged may follow it in a tuple, or stand next to the key `loss`.

        Raises Fault.
        """
        has_loss = "loss" in self
        value = self.get("loss")(output, target) if has_loss else self.read_loss(output)
        if isinstance(value, tuple | list) and value:
            value = value[0]
        elif isinstance(value, Mapping):
            value = value.get("loss", value)
        if isinstance(value, types) and math.prod(value.shape) == 1:
            return value
        where = self.locate("loss" if has_loss else "model")
        what = describe_type(value)
        if isinstance(value, types):
            what = f"{what} of shape {tuple(value.shape)}"
        raise Fault(
            f"{where}: loss(output, target) must return one number as {called}, "
            f"and it returned {what}"
        )

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
