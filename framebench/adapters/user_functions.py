"""What `try` asks of a user's file: its functions, called from the same seeds, and whether they return what they must."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from framebench.models.spec import SEED
from framebench.suite.trees import mapped
from framebench.suite.user_file import Fault, defined, loaded

LISTENERS: list[Callable[[str], object]] = []  # are told which part of the file runs


def announce(part: str) -> None:
    for listener in LISTENERS:
        listener(part)


def kind(instance: Any) -> str:
    """As people call it: a tensor that PyTorch only pretends to have is a tensor."""
    named = next(one for one in type(instance).__mro__ if not one.__module__.startswith("torch._subclasses"))
    return f"{named.__module__}.{named.__qualname__}".removeprefix("builtins.")


class UserFile:
    """The file's functions by name. Everything random that they ask Python and NumPy for is the same each time; a framework's
    own seed is set by `seed`."""

    def __init__(self, file: str, seed: Callable[[int], object]) -> None:
        self.file, self.seed = file, seed
        announce("import of the file")
        self.seed_all()  # a teacher, say, is made when the file is imported, and must be the same in each process
        self.module = loaded(file)

    def __contains__(self, name: str) -> bool:
        return hasattr(self.module, name)

    def line(self, name: str) -> str:
        """`file:line` of what has this name."""
        return f"{self.file}:{defined(self.file).get(name, 1)}"

    def get(self, name: str) -> Any:
        """Raises Fault."""
        if not hasattr(self.module, name):
            raise Fault(f"{self.file} has no `{name}`; docs/try.md says what the file needs")
        return getattr(self.module, name)

    def made(self, name: str, *arguments: Any) -> Any:
        """What the function of this name makes, from the same seeds each time."""
        announce(f"{name}()")
        self.seed_all()
        return self.get(name)(*arguments)

    def seed_all(self) -> None:
        """Seed Python, NumPy and the framework."""
        random.seed(SEED)
        np.random.seed(SEED)
        self.seed(SEED)

    def model(self, modules: type | tuple[type, ...]) -> Any:
        """What `model` makes. Raises Fault where it is a module itself."""
        if isinstance(self.get("model"), modules):
            raise Fault(
                f"{self.line('model')}: `model` is {kind(self.get('model'))}: it must be a function, or a class, that makes a "
                f"new model each time, as in `def model(): return ...`"
            )
        return self.made("model")

    def batch(self, size: int, types: Any, called: str) -> tuple[Any, Any]:
        """Inputs and targets, arrays of these types in any tree; no targets where the inputs have them. Raises Fault."""
        pair, where = self.made("batch", size), self.line("batch")
        if isinstance(pair, Mapping):
            pair = (pair, None)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise Fault(
                f"{where}: batch(n) must return (inputs, target), and it returned {kind(pair)}"
                f"{f' of {len(pair)}' if isinstance(pair, tuple | list) else ''}; for a model that takes several, inputs is a "
                f"tuple or, of keywords, a dict of {called}s"
            )
        for what, tree in zip(("an input", "a target"), pair):
            self._check(what, tree, size, types, called)
        return pair[0], pair[1]

    def _check(self, what: str, tree: Any, size: int, types: Any, called: str) -> None:
        """Raises Fault where an input or a target has no samples."""
        found, where = list[Any](), self.line("batch")
        mapped(found.append, tree)
        if wrong := [one for one in found if not isinstance(one, types)]:
            raise Fault(f"{where}: batch(n) must give {called}s, and {what} has {kind(wrong[0])}")
        if not found and (what == "an input" or (isinstance(tree, tuple | list) and tree)):
            raise Fault(f"{where}: batch(n) must give {called}s, and {what} has none: it is {kind(tree)}")
        if found and all(one.ndim == 0 or len(one) != size for one in found):
            shape = tuple(found[0].shape)
            raise Fault(f"{where}: batch({size}) gave {what} of shape {shape}, whose first axis is no {size} samples")

    def loss(self, types: Any, called: str, output: Any, target: Any) -> Any:
        """A single number: what the file's `loss` says, or where it has none the output's own. What is logged may come with it,
        after it or beside the name `loss`. Raises Fault."""
        loss_value = self.get("loss")(output, target) if "loss" in self else self.loss_of(output)
        if isinstance(loss_value, tuple | list) and loss_value:
            loss_value = loss_value[0]
        elif isinstance(loss_value, Mapping):
            loss_value = loss_value.get("loss", loss_value)
        if not isinstance(loss_value, types) or math.prod(loss_value.shape) != 1:
            what = (
                f"{kind(loss_value)} of shape {tuple(loss_value.shape)}" if isinstance(loss_value, types) else kind(loss_value)
            )
            where = self.line("loss" if "loss" in self else "model")
            raise Fault(f"{where}: loss(output, target) must return one number as {called}, and it returned {what}")
        return loss_value

    def loss_of(self, output: Any) -> Any:
        """Raises Fault."""
        found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if found is None:
            raise Fault(
                f"{self.line('model')}: the file has no `loss`, and the model's output, {kind(output)}, has no `.loss`: write "
                f"loss(output, target), or give the model its labels among the inputs"
            )
        return found
