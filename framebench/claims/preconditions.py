"""What must hold for a measurement before its number may decide a claim.

A claim needs only what its own sentence names: a GPU, a size, an instruction set of a processor.
Bytes and counts decide wherever they are taken, seconds only on a GPU: an article's seconds are a
GPU's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DeviceKind = Literal["cpu", "gpu"]


@dataclass(frozen=True)
class Conditions:
    """The conditions under which a number was measured, or planned for a device."""

    size: str = ""  # of its cases; empty if it has none
    device: DeviceKind = "cpu"
    cpu_flags: frozenset[str] | None = frozenset()  # None if the records do not tell


@dataclass(frozen=True)
class Preconditions:
    """What a claim asks of a measurement; an empty field allows anything."""

    size: str = ""
    device: DeviceKind | None = None
    cpu_flag: str = ""  # such as amx_bf16
    # what the suite lacks to measure it, in words: a model, an instrument, a language, a control
    lacking: str = ""

    def describe_unmet(self, here: Conditions) -> str:
        """Return the claim's preconditions that are not met here, or "" if all are."""
        unmet = []
        if self.device and self.device != here.device:
            unmet.append(f"not measured on a {self.device.upper()} yet")
        elif self.size and self.size != here.size:
            unmet.append(f"needs {self.size} size: this is {here.size or 'no size'}")
        cpu_flags = here.cpu_flags or ()
        if self.cpu_flag and self.cpu_flag not in cpu_flags:
            found = ", ".join(sorted(cpu_flags)) or "none is recorded"
            unmet.append(f"needs a processor with {self.cpu_flag}: here: {found}")
        return "; ".join(unmet)


ANYWHERE = Preconditions()
