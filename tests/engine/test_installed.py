"""An interpreter that already has a framework is used as it is: nothing is installed there, and its
versions are recorded.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from framebench.engine import installed
from framebench.engine.environments import Environment, SetupError
from framebench.records import store
from tests.processes import ROOT
from tests.record_files import list_files

CASE = "transformer/torch/eval/no_grad/b4/tiny"


def pretender(folder: Path, answer: str) -> Path:
    """An interpreter that answers every question alike."""
    script = folder / "python"
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    script.chmod(0o755)
    return script


def test_what_cannot_be_imported_is_named(tmp_path: Path) -> None:
    python = pretender(
        tmp_path, json.dumps({"versions": {}, "error": "ImportError: libcudart.so.12: cannot open"})
    )
    with pytest.raises(
        SetupError, match=r"what jax needs \(jax, flax, optax, numpy\): ImportError: libcudart"
    ):
        installed.describe("jax", python)
    with pytest.raises(
        SetupError, match="is no Python, or one that does not start: asked for torch"
    ):
        installed.describe("torch", pretender(tmp_path, "Segmentation fault"))


def test_this_interpreter_lacks_the_frameworks() -> None:
    """The control environment holds none, and none is installed into it."""
    with pytest.raises(SetupError, match=r"No module named 'torch'.*No module named 'jittor'"):
        installed.ready(["torch", "jittor"], installed.INSTALLED)


def test_no_interpreter() -> None:
    with pytest.raises(SetupError, match="give 'installed' for this one"):
        installed.ready(["torch"], "no-such-python")


def test_a_framework_that_is_not_there_is_left_out_with_a_sentence(
    environment: dict[str, Environment],
) -> None:
    said: list[str] = []
    found = installed.ready(
        iter(["jittor", "torch"]), str(environment["torch"].python), said.append
    )
    assert list(found) == ["torch"]
    assert len(said) == 1
    assert "No module named 'jittor'" in said[0]


def test_run_by_an_installed_torch(environment: dict[str, Environment], results: Path) -> None:
    before = sorted(environment["torch"].python.parent.parent.iterdir())
    command = [
        sys.executable,
        "-m",
        "framebench.cli",
        "run",
        "transformer/*/eval/no_grad/b4/tiny",
        "--rounds",
        "0",
    ]
    command += ["--env", str(environment["torch"].python), "--results", str(results)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "left out" in done.stderr
    (record,) = store.read_all(results)
    assert (record.case, record.status) == (CASE, "ok")
    (file,) = list_files(results)
    assert file.stem == environment["torch"].name
    assert sorted(environment["torch"].python.parent.parent.iterdir()) == before
