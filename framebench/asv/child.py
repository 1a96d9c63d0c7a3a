"""Start one of asv's scripts so that it ends with asv, as do the processes that it forks.

asv that is killed leaves its forkserver and benchmark process running: they would go on measuring
although nobody holds the results folder any more. This file is run by its path, before asv has said
which checkout is imported, so that it imports nothing of framebench.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1  # of Linux's <sys/prctl.h>


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Run the script that the arguments name, with the arguments behind it."""
    die_with_parent()
    os.register_at_fork(after_in_child=die_with_parent)  # the kernel forgets it at each fork
    if not sys.flags.safe_path:
        del sys.path[0]  # the folder of this file, whose modules are no top-level ones
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
