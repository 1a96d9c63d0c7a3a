"""The commands as the help lists them, read from the sources of their modules.

To list the commands nothing of them is needed but name, panel and docstring: importing what they
run takes seconds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import framebench
from framebench.cli import shared


class Summary(NamedTuple):
    """What the help says of a command."""

    name: str
    panel: str
    text: str


def add_summaries(modules: Iterable[str]) -> None:
    """Add the commands of these modules to the application, without importing the modules."""
    for module in modules:
        for summary in read_summaries(module):
            command = shared.app.command(
                summary.name, help=summary.text, rich_help_panel=summary.panel
            )
            command(refuse_call)


def refuse_call() -> None:
    """Stand for a command that is listed: what is called is imported first (`load_commands`)."""
    raise NotImplementedError("a command was called that is only listed")


def read_summaries(module: str) -> Iterator[Summary]:
    """Yield the commands and groups of commands that a module adds to the application."""
    tree = ast.parse(find_source(module).read_text())
    groups = {}  # the help of each typer.Typer by its name in the module
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if is_call_of(decorator, "command"):
                    yield summarize_function(node, decorator)
        elif isinstance(node, ast.Assign) and is_call_of(node.value, "Typer"):
            groups[ast.unparse(node.targets[0])] = read_options(node.value)["help"]
        elif isinstance(node, ast.Expr) and is_call_of(node.value, "add_typer"):
            assert isinstance(node.value, ast.Call)
            options = read_options(node.value)
            text = groups[ast.unparse(node.value.args[0])]
            yield Summary(options["name"], options["rich_help_panel"], text)


def find_source(module: str) -> Path:
    """Return the file of a module of this package."""
    folder = Path(framebench.__file__).parent
    return folder.joinpath(*module.split(".")[1:]).with_suffix(".py")


def is_call_of(node: ast.AST, method: str) -> bool:
    """Return whether a node calls a method of the application or of Typer by this name."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == method and ast.unparse(node.func.value) in ("app", "typer")


def summarize_function(function: ast.FunctionDef, decorator: ast.AST) -> Summary:
    """Return the summary of a function that is a command."""
    assert isinstance(decorator, ast.Call)
    name = function.name
    if decorator.args:
        name = ast.literal_eval(decorator.args[0])
    panel = read_options(decorator)["rich_help_panel"]
    return Summary(name, panel, ast.get_docstring(function) or "")


def read_options(call: ast.AST) -> dict[str, str]:
    """Return the named arguments of a call that are texts, or names of texts in `cli.shared`."""
    assert isinstance(call, ast.Call)
    options = {}
    for keyword in call.keywords:
        if keyword.arg and isinstance(keyword.value, ast.Name):
            options[keyword.arg] = getattr(shared, keyword.value.id)
        elif keyword.arg and isinstance(keyword.value, ast.Constant):
            options[keyword.arg] = keyword.value.value
    return options
