"""Ask the kernel to end processes with their parent.

`framebench/asv/child.py` has a copy: it must import nothing of framebench.
"""

from __future__ import annotations

import ctypes
import signal

LIBC = ctypes.CDLL(None)  # loaded here: a process that was just forked must not load a library
PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>
PR_SET_CHILD_SUBREAPER = 36


def die_with_parent() -> None:
    """Let the kernel kill the calling process when its parent dies.

    The kernel forgets it at each fork. A new child may call it before its program starts.
    """
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Let the kernel make this process the parent of the orphans among its descendants.

    Otherwise a daemon with another process group and an empty environment could not be found.
    """
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
