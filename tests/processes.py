"""Other processes: the command line, the frameworks' interpreters, and what plays their part."""

from __future__ import annotations

import atexit
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest

from framebench.cli.__main__ import main
from framebench.engine import environments
from framebench.engine.children import ProgramEnd
from framebench.engine.environments import Environment
from framebench.instruments.host import MALLOC_ENV
from framebench.records.provenance import ROOT
from tests.framework_server import FORKS

NOBODY = 65534
COMMAND = (sys.executable, "-m", "framebench.cli")


def framebench(
    *arguments: object, code: int | None = None, **options: object
) -> subprocess.CompletedProcess[str]:
    """Run the command as a user calls it, but in this process, which has imported it already.

    `results=folder` stands for the option `--results` with this value, and `code` is the exit code
    that it must have. What the command raises is a traceback to a user, so it is raised here.
    """
    words = ["framebench", *map(str, arguments)]
    for name, value in options.items():
        words += [f"--{name}", str(value)]
    out, err, ended_with = io.StringIO(), io.StringIO(), 0
    with (
        warnings.catch_warnings(),
        mock.patch.object(sys, "argv", words),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            ended_with = end.code if isinstance(end.code, int) else int(end.code is not None)
    assert code in (None, ended_with), out.getvalue() + err.getvalue()
    return subprocess.CompletedProcess(words, ended_with, out.getvalue(), err.getvalue())


def read_json(*arguments: object, **options: object) -> Any:
    """Run the command with `--json`, and return what it prints."""
    done = framebench(*arguments, "--json", **options)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def run_process(
    command: Sequence[object], folder: Path = ROOT, code: int | None = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with these variables too, and return what it printed.

    Its exit code must be this one, unless that is None.
    """
    words = [str(word) for word in command]
    env = os.environ | variables
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
    assert code in (None, done.returncode), done.stdout + done.stderr
    return done


# LLVM does not optimize what XLA:CPU makes, and fused operations are emitted the short way: half
# the time. XLA's own passes, its buffers and its mathematics are the usual ones. `conftest.py` sets
# it for every test.
CHEAP_XLA = {"XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"}


def get_compilation_caches() -> dict[str, str]:
    """Return variables with which a framework compiles less.

    Programs are kept from one run of the tests to the next.
    """
    cache = environments.cache() / "tests"
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "JAX_COMPILATION_CACHE_DIR": str(cache / "xla"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    } | CHEAP_XLA


RUN_AND_EXIT = ROOT / "tests" / "run_and_exit.py"
FRAMEWORK_SERVER = ROOT / "tests" / "framework_server.py"
# What may be set for a program that another one's process begins; the rest may count where a
# framework is imported
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
RUN = subprocess.run


def run_inside(
    environment: Environment,
    program: Path,
    *arguments: str,
    variables: dict[str, str] | None = None,
) -> object:
    """Run a program in a framework's environment; the last line it prints is JSON.

    Where it asks for no variables of its own, PyTorch and JAX are imported once for all programs of
    this process.
    """
    environ = {
        **os.environ,
        **environment.list_variables(),
        "OMP_NUM_THREADS": "1",
        **(variables or {}),
        "PYTHONPATH": str(ROOT),
    }
    if environment.framework in FORKS and variables in (None, get_compilation_caches()):
        done = run_in_server(
            environment, [str(program), *arguments], environ, ROOT, variables or {}
        )
    else:
        python = [str(environment.python), "-P", str(RUN_AND_EXIT)]
        done = RUN(
            [*python, str(program), *arguments],
            env=environ,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def run_served(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command; one that wants PyTorch or JAX as all others do is served."""
    environment = find_environment_of(command[0])
    if environment and command[1] == "-P" and options.get("capture_output"):
        variables = options.get("env") or dict(os.environ)
        first = select_import_variables(variables, environment)
        if first in ({}, MALLOC_ENV):
            folder = options.get("cwd") or Path.cwd()
            return run_in_server(environment, command[2:], variables, folder, first)
    return RUN(command, **options)


def find_environment_of(python: str) -> Environment | None:
    """Return the environment that has this interpreter, if it is PyTorch's or JAX's."""
    for name in FORKS:
        environment = environments.describe(name)
        if str(environment.python) == python:
            return environment
    return None


def run_program_served(
    command: list[str],
    variables: dict[str, str],
    limit_s: float,
    on_errors: Callable[[str], None] | None = None,
) -> ProgramEnd:
    """Run a program as `children.run_program` does, but served if it can be.

    `on_errors` is called once with the whole standard error, at the end.
    """
    done = run_served(
        command, env=variables, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if on_errors:
        on_errors(done.stderr)
    return ProgramEnd(done.returncode, done.stdout, done.stderr)


def select_import_variables(variables: dict[str, str], environment: Environment) -> dict[str, str]:
    """Return the variables that must be there when an interpreter starts.

    These are not what every program has, what is ours, and what is read later.
    """
    usual = (os.environ, environment.list_variables(), THREADS)
    later = ("FRAMEBENCH_", "PYTHONPATH", "CUDA_VISIBLE_DEVICES")
    if environment.framework != "jax":
        later += ("JAX_",)
    first = {}
    for name, value in variables.items():
        is_usual = any(known.get(name) == value for known in usual)
        if not is_usual and not name.startswith(later):
            first[name] = value
    return first


def run_in_server(
    environment: Environment,
    command: list[str],
    variables: dict[str, str],
    folder: Path,
    first: dict[str, str],
    stdin: str = os.devnull,
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process that has imported the framework for all of them."""
    server = start_server(environment, tuple(sorted(first.items())))
    with tempfile.TemporaryDirectory() as scratch:
        out, log = Path(scratch) / "out", Path(scratch) / "log"
        order = {
            "program": command,
            "variables": variables,
            "folder": str(folder),
            "stdin": stdin,
            "out": str(out),
            "log": str(log),
        }
        out.touch()
        log.touch()
        try:
            server.stdin.write(json.dumps(order) + "\n")
            server.stdin.flush()
            code = int(server.stdout.readline())
        # a test that took too long: its program ends, and the next test has a server of its own
        except BaseException:
            os.killpg(server.pid, signal.SIGKILL)
            start_server.cache_clear()
            raise
        return subprocess.CompletedProcess(command, code, out.read_text(), log.read_text())


@cache
def start_server(
    environment: Environment, first: tuple[tuple[str, str], ...]
) -> subprocess.Popen[str]:
    """Start a process that imports a framework, and runs the programs that it is sent."""
    variables = {**os.environ, **environment.list_variables(), **THREADS, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(
        [str(environment.python), "-P", str(FRAMEWORK_SERVER), environment.framework],
        env=variables | dict(first),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    atexit.register(server.communicate)  # the end of its orders is its end
    return server


def list_processes(program: Path | None = None, **variables: str) -> list[psutil.Process]:
    """Return the running processes that have a program in their command, or one of the variables.

    Those that have ended, and that a parent has yet to ask how, are left out.
    """
    found = []
    for process in psutil.process_iter():
        try:
            is_meant = not variables.items().isdisjoint(process.environ().items())
            if program is not None and str(program) in process.cmdline():
                is_meant = True
            if is_meant and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:  # it has ended in the meantime
            continue
    return found


def write_script(file: Path, text: str) -> Path:
    """Write a program for the shell, and return its file."""
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def make_fake_environment(script: str, folder: Path) -> Environment:
    """Make an environment whose interpreter is a script of ours that plays a framework's part.

    `--env` may name its interpreter, too.
    """
    versions = dict.fromkeys(("torch", "jax", "jittor", "numpy"), "0")
    answer = json.dumps({"versions": versions, "error": ""})
    interpreter = write_script(
        folder / "python",
        f"[ \"$1\" = -c ] && exec echo '{answer}'\n"
        f'exec {sys.executable} {ROOT / "tests" / script} "$@"',
    )
    return Environment("torch", "0", interpreter)


@contextmanager
def plain_user() -> Iterator[None]:
    """Become a user who must obey permissions, also where the tests are run by root."""
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
    """Mount a file system of its own with these options.

    The test is skipped where that is not allowed.
    """
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a file system: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
