"""A function that is killed within one of its calls to the operating system, whichever it is."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

# the functions of `os` that change a file, a folder or the disk
CALLS = (
    "write",
    "fsync",
    "ftruncate",
    "mkdir",
    "rmdir",
    "replace",
    "rename",
    "unlink",
)


def is_killed_at_call(
    number: int, folder: Path, act: Callable[..., object], *arguments: object
) -> bool:
    """Call a function in a process that ends by SIGKILL within its call of this number.

    The calls are those that change the folder or what is in it. Of a write half is written, as
    where a machine stops. Return whether the process was killed: it is not where the function makes
    fewer calls than that.
    """
    fork = get_context("fork")
    process = fork.Process(target=act_until_killed, args=(number, folder, act, *arguments))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def act_until_killed(
    number: int, folder: Path, act: Callable[..., object], *arguments: object
) -> None:
    """Call a function, and end this process within its call of this number."""
    calls = 0

    def watch(name: str) -> Callable[..., Any]:
        call = getattr(os, name)

        def watched(target: Any, *arguments: Any, **options: Any) -> Any:
            nonlocal calls
            if is_within(target, folder):
                calls += 1
                if calls == number:
                    if name == "write":
                        (content,) = arguments
                        call(target, content[: len(content) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
            return call(target, *arguments, **options)

        return watched

    for name in CALLS:
        setattr(os, name, watch(name))
    act(*arguments)


def is_within(target: int | str | Path, folder: Path) -> bool:
    """Return whether a path or an open file is a folder or lies in it."""
    if isinstance(target, int):
        target = os.readlink(f"/proc/self/fd/{target}")
    return Path(target).is_relative_to(folder)
