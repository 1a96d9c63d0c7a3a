"""Keep a planner's standard output free for its answer, and copy its standard error."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import jax

from framebench.devices.xla.jax_older import help_jax
from framebench.worker.worker import reserve_stdout


def print_answer(make: Callable[[], dict[str, Any]]) -> NoReturn:
    """Print an answer as JSON, and nothing else; then end the process.

    JAX runs on the CPU meanwhile. If its release needs help, flags of XLA are set, and are added to
    the `flags` of the answer.
    """
    jax.config.update("jax_platforms", "cpu")
    flags = help_jax()
    stdout = reserve_stdout()
    answer = make()
    answer["flags"] |= flags
    print(json.dumps(answer), file=stdout, flush=True)
    os._exit(0)  # threads of the compiler would keep the process alive


@contextmanager
def copy_stderr() -> Iterator[list[str]]:
    """Copy what is written to standard error in this context, and yield a list for it.

    When the context is left, the text becomes the list's only item, and is printed after all.
    """
    copied: list[str] = []
    with tempfile.TemporaryFile() as file:
        stderr = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield copied
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            file.seek(0)
            copied.append(file.read().decode(errors="replace"))
            sys.stderr.write(copied[0])
