"""Count the instructions that a process executes in user space, by the processor's counter.

The counter is opened by Linux's perf_event_open(2), and is inherited by threads and processes that
begin after it was opened: open it before a framework is imported. Equal programs count the same to
a part in ten thousand, whatever else the machine does; how fast they run is another matter.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

SYSCALL = {"x86_64": 298, "aarch64": 241}  # of perf_event_open
HARDWARE, SOFTWARE = 0, 1  # PERF_TYPE_*
INSTRUCTIONS, PAGE_FAULTS = 1, 2  # PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_SW_PAGE_FAULTS
SIZE = 136  # of perf_event_attr, version 8; fields that an older kernel does not know are zero here
FLAGS_OFFSET = 40  # of the bit field in perf_event_attr
INHERIT, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6


class Counter:
    """A counter of this process and all its later threads, from zero when it is opened."""

    def __init__(self, descriptor: int) -> None:
        """Read the counter of an open file descriptor; `open` makes both."""
        self.descriptor = descriptor

    @classmethod
    def open(cls, kind: int = HARDWARE, event: int = INSTRUCTIONS) -> Counter | None:
        """Open the counter of an event.

        Returns None if the kernel does not allow it (perf_event_paranoid above 2), or if the
        processor has no such counter, as in many virtual machines.
        """
        number = SYSCALL.get(platform.machine())
        if number is None:
            return None
        attributes = bytearray(SIZE)
        struct.pack_into("IIQ", attributes, 0, kind, SIZE, event)
        flags = INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR
        struct.pack_into("Q", attributes, FLAGS_OFFSET, flags)
        buffer = (ctypes.c_char * SIZE).from_buffer(attributes)
        this_process, any_core, no_group, no_flags = 0, -1, -1, 0
        descriptor = ctypes.CDLL(None).syscall(
            number, buffer, this_process, any_core, no_group, no_flags
        )
        if descriptor < 0:
            return None
        return cls(descriptor)

    def read(self) -> int:
        """Return the count so far, living threads included."""
        return int.from_bytes(os.read(self.descriptor, 8), sys.byteorder)
