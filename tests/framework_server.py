"""Serve programs in a framework's environment: `python framework_server.py FRAMEWORK`.

The framework is imported once. Each line on standard input names a program, which runs in a child
that begins with the framework imported and no thread started.

An order is one line of JSON, `{"program": [FILE or "-m", *ARGUMENTS], "variables": {...}, "folder":
FOLDER, "stdin": FILE, "out": FILE, "log": FILE}`, where the program finds itself in the folder. The
answer is one line with its exit code, negative if a signal ended it. Once the orders have ended,
the server ends, and with it a program that is still running.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import sys
import traceback
import warnings
from typing import Any

# What is imported before the forks. PyTorch and JAX start their threads when they first compute, so
# none is lost in a fork; Jittor starts them when it is imported.
FORKS = {
    "torch": ("torch", "torch.utils.checkpoint", "torch.amp", "torch._dynamo"),
    "jax": (
        "jax",
        "jax.numpy",
        "jax.ad_checkpoint",
        "jax.extend.core",
        "jax.extend.backend",
        "flax.nnx",
        "optax",
    ),
}


def main(framework: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    gc.disable()  # a quarter of what the imports take
    for name in FORKS.get(framework, ()):
        importlib.import_module(name)
    gc.enable()
    gc.collect()
    for line in sys.stdin:
        print(run_order(json.loads(line)), file=answers)


def run_order(order: dict[str, Any]) -> int:
    """Return the exit code of a child that runs the program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of any fork
        child = os.fork()
    if child == 0:
        run(**order)
    wait_for_end(child)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def wait_for_end(child: int) -> None:
    """Wait until a program has ended, and kill all processes here if nobody waits for it.

    A test run that is killed can end no process, but its end of the pipe is closed.
    """
    if not hasattr(os, "pidfd_open"):  # Linux has it
        return
    handle = os.pidfd_open(child)
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    waiting.register(0, 0)  # tells of the end of the orders alone, as an order may be there already
    for number, _ in waiting.poll():
        if number == 0:
            os.killpg(0, signal.SIGKILL)
    os.close(handle)


def run(
    program: list[str], variables: dict[str, str], folder: str, stdin: str, out: str, log: str
) -> None:
    """Run a program as an interpreter would; never return."""
    for name, number, flags in (
        (stdin, 0, os.O_RDONLY),
        (out, 1, os.O_WRONLY),
        (log, 2, os.O_WRONLY),
    ):
        os.dup2(os.open(name, flags), number)
    os.chdir(folder)
    paths = [os.environ.get("PYTHONPATH", ""), variables.get("PYTHONPATH", "")]
    before, after = (list(filter(None, path.split(os.pathsep))) for path in paths)
    sys.path[:] = [*after, *sys.path[len(before) :]]
    os.environ.clear()
    os.environ.update(variables)
    code = 1
    try:
        run_program(program)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_program(program: list[str]) -> None:
    if program[0] == "-m":
        sys.argv = program[1:]
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = program
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1])
