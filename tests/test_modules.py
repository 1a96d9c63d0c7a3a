"""Modules that are started or imported by name: no import statement would miss them when they are
renamed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.processes import ROOT

MODULE = re.compile(r"framebench(\.\w+)+")


def texts(source: str) -> Iterator[str]:
    """Return every string literal of a module but its parts of f-strings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_module_named_in_a_text_exists() -> None:
    named = set()
    for file in (ROOT / "framebench").rglob("*.py"):
        named |= {text for text in texts(file.read_text()) if MODULE.fullmatch(text)}
    assert "framebench.worker.worker" in named
    paths = {name: ROOT / name.replace(".", "/") for name in named}
    assert [
        name
        for name, path in paths.items()
        if not (path.is_dir() or path.with_suffix(".py").exists())
    ] == []
