"""Modules that are started or imported by name: no import statement would miss them when they are
renamed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.processes import ROOT

MODULE = re.compile(r"framebench(\.\w+)+")


def list_string_literals(source: str) -> Iterator[str]:
    """Yield the string literals in the source of a module, and the fixed parts of its f-strings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def is_module(name: str) -> bool:
    """Return whether there is a module or a package of this name, such as `framebench.worker`."""
    path = ROOT / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").exists()


def test_every_module_named_in_a_string_exists():
    named = set()
    for file in (ROOT / "framebench").rglob("*.py"):
        for literal in list_string_literals(file.read_text()):
            if MODULE.fullmatch(literal):
                named.add(literal)
    assert "framebench.worker.worker" in named
    missing = {name for name in named if not is_module(name)}
    assert missing == set()
