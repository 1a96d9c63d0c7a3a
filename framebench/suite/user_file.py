"""Load a user's Python file under a name that replaces no module, and say what is wrong with it.

For a target device its step runs on fake tensors, which have shapes and no values. PyTorch's
messages name fake tensors, which readers have not heard of, so they are reworded. Standard library
only.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import re
import sys
import traceback
from functools import cache
from importlib.abc import PathEntryFinder
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import ModuleType

# the parts of a file that run first: every step, under any strategy, holds what they make
HELD_PARTS = ("import of the file", "model()", "batch()")
FORWARD_PASS = "first forward pass"
NAME = "the_users_file"  # in sys.modules: by its own name, numpy.py would replace NumPy
# PyTorch's messages when a fake tensor's values are read, or tensors are on two devices
NUMBERLESS = re.compile(
    r"DataDependentOutputException|DynamicOutputShapeException"
    r"|\.numpy\(\) is not supported for tensor subclasses|Can't call numpy\(\) on Tensor"
)
MIXED = re.compile(r"(at least|found) two (different )?devices")
# how builds of PyTorch without CUDA, and those with it on a machine without a GPU, refuse one
NO_GPU = re.compile(
    r"not linked with support for cuda|not compiled with CUDA enabled|no NVIDIA driver|No CUDA GPUs"
)
# of packages by Hugging Face, without a connection and with HF_HUB_OFFLINE
NOT_DOWNLOADED = re.compile(
    r"(?s)(connect to|reach) .?https://huggingface\.co|on the Hub and we cannot find|"
    r"HF_HUB_OFFLINE"
)
LONGEST_MESSAGE = 500  # letters of a message
MOST_BYTES = 2**24  # of a file; a long one that programs write has some 2**20


class Fault(Exception):
    """Raised for a mistake in the user's file; the message says where it is."""


class DoesNotApply(Exception):
    """Raised where something in the user's file cannot be used in this way, with the reason."""


class UncachedLoader(SourceFileLoader):
    """Load a source, and write no byte code next to it."""

    def set_data(self, path: str, data: object, *, _mode: int = 0o666) -> None:
        """Write no byte code, which Python would do here."""


def load_without_byte_code(folder: Path) -> None:
    """Let this process leave no `__pycache__` in a user's folder and in the folders below it.

    What is installed below it, as in a virtual environment, is loaded as usual: without byte code
    every process would compile a framework's sources.
    """
    find_modules = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (UncachedLoader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )

    def find_in_folder(path: str) -> PathEntryFinder:
        place = Path(path).absolute()
        if not place.is_relative_to(folder) or "site-packages" in place.parts:
            raise ImportError(f"{path} is none of the user's folders")  # another hook takes it
        return find_modules(path)

    sys.path_hooks.insert(0, find_in_folder)
    sys.path_importer_cache.pop(str(folder), None)


def load_file(file: str) -> ModuleType:
    """Import the file, with its folder first on the path, as when Python runs it. Raises Fault.

    The module stays in `sys.modules` under `NAME`, and the folder stays on `sys.path`.
    """
    folder = Path(file).absolute().parent
    load_without_byte_code(folder)
    loader = UncachedLoader(NAME, file)  # whatever the file's name ends with
    spec = importlib.util.spec_from_loader(NAME, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    sys.path.insert(0, str(folder))
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise Fault(describe_fault(error, file)) from error
    return module


def hash_sources() -> str:
    """Return a hash of the modules that are the user's: the file, and what it imports of its own.

    What is installed, and framebench itself, is not among them.
    """
    excluded_folders = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1])
    sources = set()
    for module in list(sys.modules.values()):
        source = getattr(module, "__file__", None)
        if not isinstance(source, str) or not Path(source).is_file():
            continue
        path = Path(source).absolute()
        if not any(path.is_relative_to(folder) for folder in excluded_folders):
            sources.add(path)
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(f"{path}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def describe_fault(error: BaseException, file: str) -> str:
    """Return a sentence on where in the file an error happened, and what it was."""
    line = find_line(error, file)
    place = f"{file}:{line}" if line else file
    if isinstance(error, SystemExit):
        return (
            f"{place}: sys.exit({error.code!r}) would end the process here: "
            f"put it below `if __name__ == '__main__'`"
        )
    return f"{place}: {describe_error(error)}"


def find_line(error: BaseException, file: str) -> int | None:
    """Return the innermost line of the file that led to the error, or None if no line did."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if frame.f_code.co_filename == file:
            return line
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    return None


def describe_error(error: BaseException) -> str:
    """Return an error's message in a reader's words."""
    message = f"{type(error).__name__}: {error}"
    if NUMBERLESS.search(message):
        return (
            "the values of a tensor are read here: for a target device tensors are fake, "
            "with shapes and no values"
        )
    if MIXED.search(message):
        return (
            "tensors lie on two devices, the CPU and the GPU: on a GPU this step fails, too. "
            "Make all of them with device=x.device, the device of the inputs"
        )
    if NO_GPU.search(message):
        return (
            "this names a GPU, and the step runs without one: make tensors with device=x.device, "
            "the device of the inputs"
        )
    if NOT_DOWNLOADED.search(message):
        return (
            "this could not be downloaded from the Hugging Face Hub. Memory does not depend on "
            "the values of weights: make the model from its configuration, as by "
            "AutoModel.from_config(GPT2Config())"
        )
    return message.replace("FakeTensor", "Tensor")[:LONGEST_MESSAGE]


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
    """Return the names that a statement defines: of functions, classes, imports and variables."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = []
        for alias in node.names:
            name = alias.asname or alias.name
            names.append(name.split(".")[0])  # `import os.path` defines `os`
        return names
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
    """Return the modules that a statement imports, each with the names imported from it."""
    if isinstance(node, ast.Import):
        return [(alias.name, []) for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [(node.module, [alias.name for alias in node.names])]
    return []


def import_packages(file: str) -> None:
    """Import the packages that the file's top-level lines import, unless they lie in its folder.

    This happens before memory is read, since packages' own memory is not part of a step's. Errors
    are ignored: they are reported when the file itself is imported.
    """
    folder = Path(file).absolute().parent
    for node in parse_file(file).body:
        for module, names in list_modules(node):
            package = module.split(".")[0]
            if (folder / package).exists() or (folder / f"{package}.py").exists():
                continue
            with contextlib.suppress(Exception, SystemExit):
                imported = importlib.import_module(module)
                for name in names:  # some packages import their modules on first access
                    getattr(imported, name, None)


@cache
def parse_file(file: str) -> ast.Module:
    """Return the file's syntax tree. Raises Fault."""
    if Path(file).exists() and not Path(file).is_file():
        # a pipe or device would be waited for, and each process reads the file once more
        raise Fault(f"{file}: no regular file; name a Python file that can be read repeatedly")
    try:
        size = Path(file).stat().st_size
        if size > MOST_BYTES:  # such as of a checkpoint, which would be read whole
            raise Fault(
                f"{file}: {size:,} bytes, where a Python file has at most {MOST_BYTES:,}; name "
                "the file that defines the model"
            )
        return ast.parse(Path(file).read_bytes(), file)
    except SyntaxError as error:
        raise Fault(describe_fault(error, file)) from error
    except (OSError, ValueError) as error:
        raise Fault(f"{file}: {error}") from error
