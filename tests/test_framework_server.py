"""A program that is served by a process of several ends as one of its own does, and leaves the next
one nothing.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.instruments.host import MALLOC_ENV
from tests.processes import THREADS, at_first, served

HERE = Environment("none", "0", Path(sys.executable))
ABOUT_ITSELF = """
import builtins, json, os, sys
found = {
    "arguments": sys.argv[1:],
    "folder": os.getcwd(),
    "variable": os.environ["TOLD"],
    "name": __name__,
    "sees_the_last_program": hasattr(builtins, "left_behind"),
}
builtins.left_behind = True
print(json.dumps(found))
"""


@pytest.mark.parametrize("told", ["one", "another"])
def test_it_has_its_arguments_folder_and_variables_and_finds_nothing_left(
    told: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(ABOUT_ITSELF)
    command = [str(tmp_path / "program.py"), "a b"]
    done = served(HERE, command, {**os.environ, "TOLD": told}, tmp_path, {})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "arguments": ["a b"],
        "folder": str(tmp_path),
        "variable": told,
        "name": "__main__",
        "sees_the_last_program": False,
    }


def test_a_module_comes_from_its_own_path(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.py").write_text(f"print({name!r})")
        done = served(
            HERE, ["-m", "same"], {**os.environ, "PYTHONPATH": str(tmp_path / name)}, tmp_path, {}
        )
        assert done.stdout == f"{name}\n"


@pytest.mark.parametrize(
    ("code", "end", "said"),
    [
        ("raise ValueError('mine')", 1, "ValueError: mine"),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('why')", 1, "why"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
    ],
)
def test_however_it_ends_the_next_one_runs(code: str, end: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(code)
    done = served(HERE, [str(tmp_path / "program.py")], dict(os.environ), tmp_path, {})
    assert (done.returncode, said in done.stderr) == (end, True)
    (tmp_path / "program.py").write_text("print('there')")
    assert (
        served(HERE, [str(tmp_path / "program.py")], dict(os.environ), tmp_path, {}).stdout
        == "there\n"
    )


def test_what_counts_when_a_framework_is_imported_is_not_served() -> None:
    jax = environments.describe("jax")
    usual = {**os.environ, **jax.variables(), **THREADS, "PYTHONPATH": "/any"}
    assert at_first(usual, jax) == {}
    assert at_first(usual | MALLOC_ENV, jax) == MALLOC_ENV
    assert at_first(usual | {"JAX_PLATFORMS": "cpu"}, jax) == {"JAX_PLATFORMS": "cpu"}
    assert at_first(usual | {"OMP_NUM_THREADS": "2"}, jax) == {"OMP_NUM_THREADS": "2"}
