"""Find names that tests and tools use and the package no longer has.

mypy does not look at tests, so a renamed function is noticed there only when the test runs, which
for the slow ones is minutes later. This reads the source alone and imports nothing:

- `from framebench.x import name` and `import framebench.x`
- `module.name`, where `module` came from such an import
- `monkeypatch.setattr(module, "name", ...)` and `monkeypatch.setattr("framebench.x.name", ...)`
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("framebench", "tests", "tools", "studies", "benchmarks")
READ = ("framebench", "tests", "tools", "studies", "benchmarks", "analysis")
# a workload that a test installs below framebench.models
INSTALLED = "framebench.models.mixer"


def find_module_file(module: str) -> Path | None:
    """Return the file of a module such as `framebench.analysis.frames`, or None."""
    path = ROOT / module.replace(".", "/")
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return file
    return None


def has_module(module: str) -> bool:
    """Tell whether a dotted name is a module or a folder of modules of this repository."""
    return find_module_file(module) is not None or (ROOT / module.replace(".", "/")).is_dir()


def list_variables(tree: ast.Module) -> set[str]:
    """Return the names of parameters and variables, which may hide an imported module."""
    variables = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            variables.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            variables.add(node.id)
    return variables


def collect_assigned_names(body: list[ast.stmt]) -> set[str]:
    """Return the names that statements bind at the top level of a module, branches included."""
    names: set[str] = set()
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(statement.name)
                continue
            case ast.Import() | ast.ImportFrom():
                for alias in statement.names:
                    names.add((alias.asname or alias.name).split(".")[0])
                continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
        # an import or a function below `if`, `try` or `with`
        blocks = [getattr(statement, part, []) for part in ("body", "orelse", "finalbody")]
        for handler in getattr(statement, "handlers", []):
            blocks.append(handler.body)
        for block in blocks:
            names |= collect_assigned_names(block)
    return names


@cache
def list_names(module: str) -> frozenset[str] | None:
    """Return what can be imported from a module of this repository.

    None if it has no such module, or one that makes its names when it is imported.
    """
    file = find_module_file(module)
    if file is None:
        return None
    tree = ast.parse(file.read_text())
    names = collect_assigned_names(tree.body)
    if "__getattr__" in names or "*" in names:
        return None
    if file.name == "__init__.py":
        for entry in file.parent.iterdir():
            names.add(entry.stem)
    return frozenset(names)


def is_ours(module: str) -> bool:
    """Tell whether a dotted name belongs to this repository."""
    return module.split(".")[0] in PACKAGES and not module.startswith(INSTALLED)


def find_missing_name(dotted: str) -> str | None:
    """Return what is wrong with a dotted name such as `framebench.cli.run.start`, or None."""
    parts = dotted.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:length])
        if find_module_file(module) is None:
            continue
        names = list_names(module)
        name = parts[length]
        if names is None or name in names or name.startswith("__"):
            return None
        return f"{module} has no {name}"
    return None


def find_stale_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the fault of each name that the package does not have."""
    modules: dict[str, str] = {}  # local name: module
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and is_ours(node.module):
            for alias in node.names:
                dotted = f"{node.module}.{alias.name}"
                if not has_module(node.module):
                    yield node.lineno, f"no module {node.module}"
                elif alias.name != "*":
                    missing = find_missing_name(dotted)
                    if missing:
                        yield node.lineno, missing
                if find_module_file(dotted):
                    modules[alias.asname or alias.name] = dotted
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if is_ours(alias.name) and not has_module(alias.name):
                    yield node.lineno, f"no module {alias.name}"
                if is_ours(alias.name) and alias.asname:
                    modules[alias.asname] = alias.name
    for variable in list_variables(tree):
        modules.pop(variable, None)
    expressions = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    for node in expressions:
        for dotted in list_used_names(node, modules):
            missing = find_missing_name(dotted)
            if missing:
                yield node.lineno, missing


def list_used_names(node: ast.AST, modules: dict[str, str]) -> Iterator[str]:
    """Yield the dotted names that an expression takes from a module or replaces in it."""
    match node:
        case ast.Attribute(value=ast.Name(id=local), attr=name) if local in modules:
            if isinstance(node.ctx, ast.Load):
                yield f"{modules[local]}.{name}"
        case ast.Call(
            func=ast.Attribute(attr="setattr"),
            args=[ast.Name(id=local), ast.Constant(value=str(name)), *_],
        ) if local in modules:
            yield f"{modules[local]}.{name}"
        case ast.Call(
            func=ast.Attribute(attr="setattr" | "delattr"),
            args=[ast.Constant(value=str(dotted)), *_],
        ) if is_ours(dotted):
            yield dotted


def check() -> int:
    """Print each stale name with its place, and return how many there are."""
    faults = 0
    for folder in READ:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for line, fault in find_stale_names(ast.parse(file.read_text())):
                print(f"{file.relative_to(ROOT)}:{line}: {fault}")
                faults += 1
    return faults


if __name__ == "__main__":
    sys.exit(1 if check() else 0)
