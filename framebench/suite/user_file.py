"""A user's Python file, loaded under a name that replaces no module, and what is wrong with it in one line."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import math
import random
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from framebench.models.spec import SEED
from framebench.suite.trees import mapped
from framebench.suite.without_numbers import in_words

NAME = "the_users_file"  # in sys.modules: by its own name, numpy.py would replace NumPy


LISTENERS: list[Callable[[str], object]] = []  # are told which part of the file runs


class Fault(Exception):
    """The user's file is at fault; the message says where."""


class DoesNotApply(Exception):
    """What the file has cannot be used in this way; the message says why."""


def announce(part: str) -> None:
    for listener in LISTENERS:
        listener(part)


def loaded(file: str) -> ModuleType:
    """The module. As when Python runs the file, what lies beside it is imported first. Raises Fault."""
    spec = importlib.util.spec_from_file_location(NAME, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    sys.path.insert(0, str(Path(file).absolute().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise Fault(blamed(error, file)) from error
    return module


def blamed(error: BaseException, file: str) -> str:
    """Where in the file it happened, and what."""
    message = in_words(error, frame_of(error, file))
    if isinstance(error, SystemExit):
        message = f"sys.exit({error.code!r}) would end the process here: leave it out"
    return f"{file}:{line_of(error, file)}: {message}"


def line_of(error: BaseException, file: str) -> int | None:
    """The innermost line of the file that led to the error; None if none did."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == file else None
    trace = error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == file else line
        trace = trace.tb_next
    return line


def frame_of(error: BaseException, file: str) -> FrameType | None:
    """The innermost one of the file."""
    frame, trace = None, error.__traceback__
    while trace is not None:
        frame = trace.tb_frame if trace.tb_frame.f_code.co_filename == file else frame
        trace = trace.tb_next
    return frame


def defined(file: str) -> dict[str, int]:
    """The names that the file defines at its top level, with their lines, without running it. Raises Fault."""
    return {name: node.lineno for node in parsed(file).body for name in _names_of(node)}


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def imported(file: str) -> set[str]:
    """The packages that the file imports anywhere, without running it. Raises Fault."""
    return {name.split(".")[0] for node in ast.walk(parsed(file)) for name, _ in _modules_of(node)}


def _modules_of(node: ast.AST) -> list[tuple[str, list[str]]]:
    """Which a statement imports, each with the names that it takes of it."""
    if isinstance(node, ast.Import):
        return [(alias.name, []) for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [(node.module, [alias.name for alias in node.names])]
    return []


def import_packages(file: str) -> None:
    """Those that the file's own lines import and that do not lie beside it: what packages take for themselves is none of a
    step's memory. What goes wrong is told when the file itself is imported."""
    folder = Path(file).absolute().parent
    for module, names in (one for node in parsed(file).body for one in _modules_of(node)):
        package = module.split(".")[0]
        if not ((folder / package).exists() or (folder / f"{package}.py").exists()):
            with contextlib.suppress(Exception, SystemExit):
                found = importlib.import_module(module)
                for name in names:  # a package may load what it holds when it is asked for
                    getattr(found, name, None)


@cache
def parsed(file: str) -> ast.Module:
    try:
        return ast.parse(Path(file).read_bytes(), file)
    except SyntaxError as error:
        raise Fault(blamed(error, file)) from error
    except (OSError, ValueError) as error:
        raise Fault(f"{file}: {error}") from error


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
        random.seed(SEED)
        np.random.seed(SEED)
        self.seed(SEED)
        return self.get(name)(*arguments)

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
