"""Runs inside a framework's environment: `python serving.py FRAMEWORK` imports the framework once. Each line on its standard
input is a program to run, in a child that begins with the framework imported and no thread started.

An order is one line of JSON, `{"program": [FILE, *ARGUMENTS], "variables": {...}, "out": FILE, "log": FILE}`. The answer is one
line with the program's exit code, negative if a signal ended it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import sys
import traceback
import warnings
from typing import Any

from tests.mutants.serve import FORKS


def main(framework: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    gc.disable()  # a quarter of what the imports take
    for name in FORKS[framework]:
        importlib.import_module(name)
    gc.enable()
    gc.collect()
    for line in sys.stdin:
        print(carried_out(json.loads(line)), file=answers)


def carried_out(order: dict[str, Any]) -> int:
    """The exit code of a child that runs the program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of any fork
        child = os.fork()
    if child == 0:
        run(**order)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(program: list[str], variables: dict[str, str], out: str, log: str) -> None:
    """As `leaving.py` does; never returns."""
    for name, number, flags in ((os.devnull, 0, os.O_RDONLY), (out, 1, os.O_WRONLY), (log, 2, os.O_WRONLY)):
        os.dup2(os.open(name, flags), number)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = program
    code = 1
    try:
        runpy.run_path(program[0], run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
