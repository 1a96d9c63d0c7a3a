"""Other processes: the command line, the frameworks' interpreters, and what plays their part."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest

from framebench.cli.__main__ import main
from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.records.provenance import ROOT

NOBODY = 65534
COMMAND = (sys.executable, "-m", "framebench.cli")


def framebench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as a user calls it, but in this process, which has imported it already. What it raises is a traceback to a
    user, so it is raised here."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        warnings.catch_warnings(),
        mock.patch.object(sys, "argv", ["framebench", *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


# LLVM does not optimize what XLA:CPU makes, and fused operations are emitted the short way: half the time. XLA's own passes,
# its buffers and its mathematics are the usual ones. `conftest.py` sets it for every test.
CHEAP_XLA = {"XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"}


def quickly() -> dict[str, str]:
    """Variables with which a framework compiles less: programs are kept from one run of the tests to the next."""
    kept = environments.cache() / "tests"
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(kept / "inductor"),
        "JAX_COMPILATION_CACHE_DIR": str(kept / "xla"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    } | CHEAP_XLA


LEAVING = ROOT / "tests" / "leaving.py"


def run_inside(environment: Environment, program: Path, *arguments: str, variables: dict[str, str] | None = None) -> object:
    """Run a program in a framework's environment; the last line it prints is JSON."""
    threads = {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(environment.python), "-P", str(LEAVING), str(program), *arguments],
        env={**os.environ, **environment.variables(), **threads, **(variables or {}), "PYTHONPATH": str(ROOT)},
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def acting(script: str, folder: Path) -> Environment:
    """An environment whose interpreter is a script of ours that plays a framework's part; `--env` may name it too."""
    interpreter = folder / "python"
    has = json.dumps({"versions": dict.fromkeys(("torch", "jax", "jittor", "numpy"), "0"), "error": ""})
    interpreter.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && exec echo \'{has}\'\nexec {sys.executable} {ROOT / "tests" / script} "$@"\n'
    )
    interpreter.chmod(0o755)
    return Environment("torch", "0", interpreter)


@contextmanager
def plain_user() -> Iterator[None]:
    """Permissions are obeyed in here, also where the tests are run by root."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[Path]:
    """A file system of its own, mounted with these options; the test is skipped where that is not allowed."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a file system: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
