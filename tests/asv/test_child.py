"""What asv starts ends with it, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from framebench.asv import plugin

# as asv's forkserver: it forks a process for each benchmark, which starts others
SERVER = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
if os.fork() == 0:
    (folder / "benchmark").write_text(f"{os.getpid()}\\n")
    time.sleep(600)
(folder / "server").write_text(f"{os.getpid()}\\n")
time.sleep(600)
"""
ASV = "import subprocess, sys; subprocess.run(sys.argv[1:])"


def read_pid(file: Path) -> int:
    """Wait until a process has written its id, and return it."""
    deadline = time.monotonic() + 300
    while not (file.exists() and file.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return int(file.read_text())


def test_forkserver_and_benchmark_end_when_asv_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SERVER)
    command = [sys.executable, str(plugin.CHILD), str(script), str(tmp_path)]
    asv = subprocess.Popen([sys.executable, "-c", ASV, *command])
    started = [psutil.Process(read_pid(tmp_path / name)) for name in ("server", "benchmark")]
    asv.kill()
    asv.wait()
    _, alive = psutil.wait_procs(started, 120)
    assert alive == []


def test_a_script_finds_its_arguments_and_no_module_of_ours(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys; print(__name__, sys.argv[1:], __file__); import patches")
    command = [sys.executable, str(plugin.CHILD), str(script), "one", "other"]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"__main__ ['one', 'other'] {script}\n"
    assert "No module named 'patches'" in done.stderr
