"""Runs inside a framework's environment: `python fork.py FRAMEWORK` imports the framework once and then, for each order on its
standard input, forks a child in which a worker runs as `python -m framebench.worker.worker` would, from the sources that the
order names. The framework starts its threads when it first computes, so none is lost in the fork.

An order is one line of JSON, `{"tree": FOLDER, "task": {...}, "out": FILE, "log": FILE, "limit_s": SECONDS}`; the answer is one
line with the child's exit code, negative if a signal ended it.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import sys
import time
import warnings
from typing import Any

IMPORTS = {
    "torch": ("torch", "torch.utils.checkpoint", "torch.amp", "torch._dynamo"),
    "jax": ("jax", "jax.numpy", "jax.ad_checkpoint", "jax.extend.core", "jax.extend.backend", "flax.nnx", "optax"),
}


def main() -> None:
    for name in IMPORTS[sys.argv[1]]:
        importlib.import_module(name)
    sys.path.pop(0)  # this file's folder
    sys.dont_write_bytecode = True  # a file edited twice within a second would be taken for what it was before
    for line in sys.stdin:
        order = json.loads(line)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX warns of any fork
            child = os.fork()
        if child == 0:
            work(order)
        print(wait(child, time.monotonic() + order["limit_s"]), flush=True)


def work(order: dict[str, Any]) -> None:
    """Become the worker; never returns."""
    os.setsid()  # what the worker starts dies with it
    for name, number, how in (("out", 1, os.O_WRONLY | os.O_CREAT), ("log", 2, os.O_WRONLY | os.O_CREAT)):
        os.dup2(os.open(order[name], how | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(order["tree"])
    sys.path.insert(0, order["tree"])
    sys.argv = ["worker", json.dumps(order["task"])]
    try:
        runpy.run_module("framebench.worker.worker", run_name="__main__", alter_sys=True)
    finally:
        os._exit(3)  # the worker ends by itself


def wait(child: int, deadline: float) -> int:
    """Exit code of the child, which is killed when its time is up."""
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.01)


if __name__ == "__main__":
    main()
