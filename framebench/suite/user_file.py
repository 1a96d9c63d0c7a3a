"""A user's Python file, loaded under a name that replaces no module, and what is wrong with it in one line."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType

from framebench.suite.without_numbers import in_words

NAME = "the_users_file"  # in sys.modules: by its own name, numpy.py would replace NumPy


class Fault(Exception):
    """The user's file is at fault; the message says where."""


class DoesNotApply(Exception):
    """What the file has cannot be used in this way; the message says why."""


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
        message = f"sys.exit({error.code!r}) would end the process here: put it below `if __name__ == '__main__'`"
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
