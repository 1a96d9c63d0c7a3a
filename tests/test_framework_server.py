"""A program that is served by a process of several ends as one of its own does, and leaves the next
one nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.instruments.host import MALLOC_ENV
from tests.processes import ROOT, THREADS, run_in_server, select_import_variables

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


@pytest.mark.parametrize("value", ["one", "another"])
def test_a_served_program_has_its_own_arguments_folder_and_variables(value, tmp_path):
    (tmp_path / "program.py").write_text(ABOUT_ITSELF)
    command = [str(tmp_path / "program.py"), "a b"]
    done = run_in_server(HERE, command, {**os.environ, "TOLD": value}, tmp_path, {})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "arguments": ["a b"],
        "folder": str(tmp_path),
        "variable": value,
        "name": "__main__",
        "sees_the_last_program": False,
    }


def test_a_module_comes_from_its_own_path(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.py").write_text(f"print({name!r})")
        variables = os.environ | {"PYTHONPATH": str(tmp_path / name)}
        done = run_in_server(HERE, ["-m", "same"], variables, tmp_path, {})
        assert done.stdout == f"{name}\n"


@pytest.mark.parametrize(
    ("code", "exit_code", "last_line"),
    [
        ("raise ValueError('mine')", 1, ["ValueError: mine"]),
        ("import sys; sys.exit(3)", 3, []),
        ("import sys; sys.exit('why')", 1, ["why"]),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, []),
    ],
)
def test_a_program_runs_after_one_that_failed(code, exit_code, last_line, tmp_path):
    def run(code: str) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "program.py"
        program.write_text(code)
        return run_in_server(HERE, [str(program)], dict(os.environ), tmp_path, {})

    failed = run(code)
    assert failed.returncode == exit_code
    assert failed.stderr.splitlines()[-1:] == last_line
    assert run("print('there')").stdout == "there\n"


def test_variables_that_an_import_reads_need_a_server_of_their_own():
    jax = environments.describe("jax")
    usual = {**os.environ, **jax.list_variables(), **THREADS, "PYTHONPATH": "/any"}
    assert select_import_variables(usual, jax) == {}
    assert select_import_variables(usual | MALLOC_ENV, jax) == MALLOC_ENV
    assert select_import_variables(usual | {"JAX_PLATFORMS": "cpu"}, jax) == {
        "JAX_PLATFORMS": "cpu"
    }
    assert select_import_variables(usual | {"OMP_NUM_THREADS": "2"}, jax) == {
        "OMP_NUM_THREADS": "2"
    }


SLEEP = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.getppid(), os.getpid(), child.pid, flush=True)
time.sleep(600)
"""
TEST_RUN = """
import os, sys
from pathlib import Path
from tests.test_framework_server import HERE
from tests.processes import run_in_server

program = Path(sys.argv[1])
run_in_server(HERE, [str(program)], dict(os.environ), program.parent, {})
"""


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process runs; a zombie only waits for its parent to notice its end."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="the server waits for a process by its handle")
def test_a_server_and_its_program_end_with_a_test_run_that_is_killed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"import sys\nsys.stdout = open({str(tmp_path / 'said')!r}, 'w')\n{SLEEP}")
    run = subprocess.Popen([sys.executable, "-c", TEST_RUN, str(program)], cwd=ROOT)
    said = tmp_path / "said"
    while not (said.exists() and said.read_text().endswith("\n")):
        assert run.poll() is None
        time.sleep(0.05)
    processes = [psutil.Process(int(number)) for number in said.read_text().split()]
    assert len(processes) == 3
    run.kill()
    run.wait()
    deadline = time.monotonic() + 60
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = list(filter(is_alive, processes))
    for process in left:
        process.kill()
    assert left == []
