"""The package as a notebook sees it: what `dir` shows is what the documentation calls."""

from __future__ import annotations

import inspect
import re

import framebench
import framebench.analysis  # which becomes a name of the package, and is not public
from tests.processes import ROOT

CALL = re.compile(r"\bframebench\.([a-z_]+)\(")


def test_dir_shows_documented_functions_alone():
    assert dir(framebench) == sorted(set(framebench.__all__))
    for name in dir(framebench):
        function = getattr(framebench, name)
        assert inspect.isfunction(function)
        assert inspect.getdoc(function)


def test_every_function_that_the_documentation_calls_is_shown():
    called = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        called.update(CALL.findall(page.read_text()))
    assert {"load", "planned"} <= called
    assert called <= set(dir(framebench))
