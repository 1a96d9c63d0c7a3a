"""Runs inside a framework's environment:

`python serve.py FRAMEWORK` imports the framework once and then, for each order on its standard
input, runs a worker as `python -m MODULE` would, from the sources that the order names.

PyTorch and JAX start their threads when they first compute, so none is lost in a fork: each order
has a child of its own. Jittor starts them when it is imported: all orders are carried out by this
process, and their sources must be the same.

An order is one line of JSON, `{"tree": FOLDER, "module": NAME, "task": {...}, "orders": FILE,
"out": FILE, "log": FILE, "limit_s": SECONDS}`, where the worker finds `orders` on its standard
input; the answer is one line with the worker's exit code, negative if a signal ended it. Without a
child such a signal ends this process too.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import sys
import time
import warnings
from typing import Any, TextIO

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


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a framework prints is no answer
    framework = sys.argv[1]
    for name in FORKS.get(framework, ()):
        importlib.import_module(name)
    sys.path.pop(0)  # this file's folder
    # a file edited twice within a second would be taken for what it was before
    sys.dont_write_bytecode = True
    for line in sys.stdin:
        (fork if framework in FORKS else carry_out)(json.loads(line), answers)


def fork(order: dict[str, Any], answers: TextIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of any fork
        child = os.fork()
    if child == 0:
        work(order)
    print(wait(child, time.monotonic() + order["limit_s"]), file=answers)


def work(order: dict[str, Any]) -> None:
    """Become the worker; never returns."""
    os.setsid()  # what the worker starts dies with it
    prepare(order)
    try:
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
    finally:
        os._exit(3)  # the worker ends by itself


def prepare(order: dict[str, Any]) -> None:
    """Streams, folder and arguments as the worker expects them."""
    for name, number in (("out", 1), ("log", 2)):
        file = os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    file = os.open(order["orders"], os.O_RDONLY)
    os.dup2(file, 0)
    os.close(file)
    os.chdir(order["tree"])
    if order["tree"] not in sys.path:
        sys.path.insert(0, order["tree"])
    sys.argv = ["worker", json.dumps(order["task"])]


def carry_out(order: dict[str, Any], answers: TextIO) -> None:
    """The order in this process, which ends if it takes too long.

    Standard input and output are what they were afterwards.
    """
    kept = [os.dup(number) for number in (0, 1, 2)]
    prepare(order)
    signal.alarm(order["limit_s"])
    worker = importlib.import_module("framebench.worker.worker")
    protocol = importlib.import_module("framebench.suite.protocol")
    mathematics = importlib.import_module("framebench.worker.mathematics")

    def measure(task: dict[str, Any], emit: Any) -> Any:
        return worker.run(protocol.Task.from_dict(task), emit, worker.read_orders())

    code = worker.answer(measure if order["module"] == worker.__name__ else mathematics.check_all)
    signal.alarm(0)
    gc.collect()  # the variables of this case would be counted as the next one's
    for number, stream in enumerate(kept):
        os.dup2(stream, number)
        os.close(stream)
    print(code, file=answers)


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
