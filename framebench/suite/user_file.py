"""Load a user's Python file under a name that replaces no module, and say what is wrong with it."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import sys
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType, ModuleType, TracebackType

from framebench.suite.without_numbers import describe_error

NAME = "the_users_file"  # in sys.modules: by its own name, numpy.py would replace NumPy


class Fault(Exception):
    """The user's file is at fault; the message says where."""


class DoesNotApply(Exception):
    """What the file has cannot be used in this way; the message says why."""


def load_file(file: str) -> ModuleType:
    """Import the file. Raises Fault.

    As when Python runs the file, what lies in its folder is imported first.
    """
    loader = SourceFileLoader(NAME, file)  # whatever the file's name ends with
    spec = importlib.util.spec_from_loader(NAME, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    sys.path.insert(0, str(Path(file).absolute().parent))
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise Fault(describe_fault(error, file)) from error
    return module


def describe_fault(error: BaseException, file: str) -> str:
    """Return where in the file an error happened, and what."""
    line = find_line(error, file)
    place = file if line is None else f"{file}:{line}"
    if isinstance(error, SystemExit):
        return (
            f"{place}: sys.exit({error.code!r}) would end the process here: "
            f"put it below `if __name__ == '__main__'`"
        )
    return f"{place}: {describe_error(error, find_frame(error, file))}"


def find_line(error: BaseException, file: str) -> int | None:
    """Return the innermost line of the file that led to the error; None if none did."""
    trace = find_trace(error, file)
    if trace is not None:
        return trace.tb_lineno
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    return None


def find_frame(error: BaseException, file: str) -> FrameType | None:
    """Return the innermost frame of the file that led to the error; None if none did."""
    trace = find_trace(error, file)
    return None if trace is None else trace.tb_frame


def find_trace(error: BaseException, file: str) -> TracebackType | None:
    """Return the innermost entry of the error's traceback that is of the file."""
    innermost = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            innermost = trace
        trace = trace.tb_next
    return innermost


def list_definitions(file: str) -> dict[str, int]:
    """Return the names that the file defines at its top level, with their lines.

    The file is not run. Raises Fault.
    """
    lines = {}
    for node in parse_file(file).body:
        for name in list_defined(node):
            lines[name] = node.lineno
    return lines


def list_defined(node: ast.stmt) -> list[str]:
    """Return the names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def list_imports(file: str) -> set[str]:
    """Return the packages that the file imports anywhere, without running it. Raises Fault."""
    packages = set()
    for node in ast.walk(parse_file(file)):
        for module, _ in list_modules(node):
            packages.add(module.split(".")[0])
    return packages


def list_modules(node: ast.AST) -> list[tuple[str, list[str]]]:
    """Return the modules that a statement imports, each with the names that it takes of it."""
    if isinstance(node, ast.Import):
        return [(alias.name, []) for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [(node.module, [alias.name for alias in node.names])]
    return []


def import_packages(file: str) -> None:
    """Import the packages that the file's top-level lines import, unless they lie in its folder.

    What packages take for themselves is none of a step's memory. What goes wrong here is told when
    the file itself is imported.
    """
    folder = Path(file).absolute().parent
    for node in parse_file(file).body:
        for module, names in list_modules(node):
            package = module.split(".")[0]
            if (folder / package).exists() or (folder / f"{package}.py").exists():
                continue
            with contextlib.suppress(Exception, SystemExit):
                imported = importlib.import_module(module)
                for name in names:  # a package may load what it holds when it is asked for
                    getattr(imported, name, None)


@cache
def parse_file(file: str) -> ast.Module:
    """Return the file's syntax tree. Raises Fault."""
    try:
        return ast.parse(Path(file).read_bytes(), file)
    except SyntaxError as error:
        raise Fault(describe_fault(error, file)) from error
    except (OSError, ValueError) as error:
        raise Fault(f"{file}: {error}") from error
