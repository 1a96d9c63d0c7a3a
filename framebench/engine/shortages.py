"""Resources of the system that run out: processes, and room on disks."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from framebench.instruments import limits

OUT_OF_PROCESSES = "no further process can be started, perhaps by a limit (ulimit -u)"
ROOM_BYTES = 2**28  # far less than an environment takes, or a case that writes to a disk
# With so little room a process can write nothing at all. Some libraries then fail without naming
# the disk, and XLA leaves unfinished files behind.
NO_ROOM_BYTES = 2**20
LONGEST_LINE = 300  # characters of what a process printed


def describe_error(error: OSError) -> str:
    """Return the error in words, with the file if it names one."""
    if isinstance(error, BlockingIOError) and error.filename is None:  # EAGAIN of fork
        return OUT_OF_PROCESSES
    message = error.strerror or str(error)
    return f"{message}: {error.filename}" if error.filename else message


def check_disks(printed: str, folders: Iterable[Path] = ()) -> None:
    """Raise OSError if a process has failed because a disk is full, whatever it was at work on.

    That a disk is full is seen when the process has ended. A disk that only the process itself had
    filled, such as a case that keeps activations there, has room again: that is the case's fault.

    Args:
        printed: The reason and the last lines of the process that failed.
        folders: Where it may have written, besides the folders for temporary files.
    """
    complaints = [line.strip() for line in printed.splitlines() if limits.FULL_DISK.search(line)]
    full = list_full_disks(folders, ROOM_BYTES if complaints else NO_ROOM_BYTES)
    if any("quota" in complaint for complaint in complaints):
        # the file system has room, of which this user may take no more
        full = ["the user's quota is used up"]
    if not full:
        return
    reason = (
        f"a process failed for want of room on a disk: {' and '.join(full)}; make room there, or "
        "let TMPDIR name another folder for temporary files"
    )
    if complaints:
        reason += f". The process said: {complaints[0][:LONGEST_LINE]}"
    raise OSError(errno.ENOSPC, reason)


def list_full_disks(folders: Iterable[Path], least_bytes: int = ROOM_BYTES) -> list[str]:
    """Return which of these folders, and of those for temporary files, have less room than that.

    Each is a text such as `only 3 MiB are free in /tmp`.
    """
    places = [*folders, Path(tempfile.gettempdir())]
    # where the folder that the user names is full, Python takes another one; other programs do not
    if os.environ.get("TMPDIR"):
        places.append(Path(os.environ["TMPDIR"]))
    full = []
    for folder in dict.fromkeys(places):
        if not folder.is_dir():
            continue
        system = os.statvfs(folder)
        # a file system that is only read, such as a container's image, needs no room, and some
        # file systems do not tell how much they have
        if system.f_flag & os.ST_RDONLY or not system.f_blocks:
            continue
        free_bytes = system.f_bavail * system.f_frsize
        if free_bytes < least_bytes:
            full.append(f"only {free_bytes / 2**20:,.0f} MiB are free in {folder}")
    return full
