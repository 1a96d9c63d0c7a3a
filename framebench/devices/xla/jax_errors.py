"""Tell what an error of XLA's compiler means. Standard library only.

Only a lack of the device's main memory means that a program does not fit. A kernel that asks for
too much of the memory on the chip has the same status, RESOURCE_EXHAUSTED, and tells nothing of it.
"""

from __future__ import annotations

import re

from framebench.devices.plans.answer import PlannerAnswer
from framebench.instruments.limits import ON_CHIP

OVER_HBM = re.compile(r"Used ([\d.]+)([KMGT]) of ([\d.]+)([KMGT]) hbm")
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
ONE_BUFFER = re.compile(r"Allocation \(size=(\d+)\) would exceed memory \(size=(\d+)\)")
# in other words; the status alone may be about files or threads of this machine
NO_MEMORY = re.compile(r"RESOURCE_EXHAUSTED: .*(memory|alloc)", re.I)
UNIMPLEMENTED = re.compile(r"UNIMPLEMENTED: (.*)")
MOST_CHARACTERS = 400  # of an error that is passed on


def explain_error(error: str) -> PlannerAnswer:
    """Return the answer that an error message of XLA's stands for.

    It is `refused` if the device's memory is too small, `not planned` if the device lacks an
    operation or a kernel's memory on the chip, and otherwise `failed`.
    """
    text = " ".join(error.split())[:MOST_CHARACTERS]
    if ON_CHIP.search(error):
        return PlannerAnswer("not planned", f"XLA cannot compile it for this device: {text}")
    over_hbm = OVER_HBM.search(error)
    if over_hbm:
        needs = float(over_hbm[1]) * UNITS[over_hbm[2]]
        memory = float(over_hbm[3]) * UNITS[over_hbm[4]]
        return refuse("the plan has", needs, memory)
    one_buffer = ONE_BUFFER.search(error)
    if one_buffer:
        return refuse("one buffer alone has", float(one_buffer[1]), float(one_buffer[2]))
    unimplemented = UNIMPLEMENTED.search(error)
    if unimplemented:
        reason = f"XLA cannot compile it for this device: {unimplemented[1].strip()}"
        return PlannerAnswer("not planned", reason)
    if NO_MEMORY.search(error):
        return PlannerAnswer("refused", f"XLA refuses for want of memory: {text}")
    return PlannerAnswer("failed", text)


def refuse(subject: str, needs: float, memory: float) -> PlannerAnswer:
    """Return the answer for a program that needs more bytes than the device's `memory`."""
    reason = f"{subject} {needs / 2**30:,.2f} GiB at compile time, of {memory / 2**30:,.2f} GiB"
    return PlannerAnswer("refused", reason, int(needs))
