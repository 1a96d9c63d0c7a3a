"""An interpreter that already has a framework is used as it is: nothing is installed there, and its
versions are recorded.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framebench.engine import installed
from framebench.engine.environments import SetupError
from framebench.records import store
from tests.processes import COMMAND, run_process, write_script
from tests.record_files import list_files

CASE = "transformer/torch/eval/no_grad/b4/tiny"


def make_pretender(folder: Path, answer: str) -> Path:
    """Make an interpreter that answers every question alike."""
    return write_script(folder / "python", f"cat <<'END'\n{answer}\nEND")


def test_an_interpreter_that_lacks_a_package_is_refused_with_the_error(tmp_path):
    answer = {"versions": {}, "error": "ImportError: libcudart.so.12: cannot open"}
    python = make_pretender(tmp_path, json.dumps(answer))
    lacking = r"what jax needs \(jax, flax, optax, numpy\): ImportError: libcudart"
    with pytest.raises(SetupError, match=lacking):
        installed.describe("jax", python)

    no_python = make_pretender(tmp_path, "Segmentation fault")
    reason = "is no Python, or one that does not start: it does not say whether it has torch"
    with pytest.raises(SetupError, match=reason):
        installed.describe("torch", no_python)


def test_this_interpreter_lacks_the_frameworks():
    """The control environment holds none, and none is installed into it."""
    with pytest.raises(SetupError, match=r"No module named 'torch'.*No module named 'jittor'"):
        installed.find_environments(["torch", "jittor"], installed.INSTALLED)


def test_a_missing_interpreter_is_refused_with_a_hint():
    with pytest.raises(SetupError, match="give 'installed' for this one"):
        installed.find_environments(["torch"], "no-such-python")


def test_a_missing_framework_is_left_out_with_a_sentence(environment):
    messages = []
    found = installed.find_environments(
        iter(["jittor", "torch"]), str(environment["torch"].python), messages.append
    )
    assert list(found) == ["torch"]
    assert len(messages) == 1
    assert "No module named 'jittor'" in messages[0]


def test_run_by_an_installed_torch(environment, results):
    python = environment["torch"].python
    before = sorted(python.parent.parent.iterdir())
    options = ["--rounds", "0", "--env", python, "--results", results]
    command = [*COMMAND, "run", "transformer/*/eval/no_grad/b4/tiny", *options]
    done = run_process(command)
    assert "left out" in done.stderr
    (record,) = store.read_all(results)
    assert (record.case, record.status) == (CASE, "ok")
    (file,) = list_files(results)
    assert file.stem == environment["torch"].name
    assert sorted(python.parent.parent.iterdir()) == before
