"""What must hold for a measurement before its number may decide a claim.

A claim needs only what its own sentence names: a device's tool, a volume, a language. Bytes and
counts decide wherever they are taken, seconds on a GPU alone: an article's seconds are a GPU's.
What the suite lacks (a model, an instrument, a listing, a release) is no precondition: such a claim
is not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Device = Literal["cpu", "gpu"]
LANGUAGE = "Python"  # what every program of this suite is written in


@dataclass(frozen=True)
class Conditions:
    """Under which a number came about.

    A number that was planned counts for the device that it was planned for.
    """

    size: str = ""  # of its cases; empty where it has none
    device: Device = "cpu"
    cpu_flags: frozenset[str] | None = frozenset()  # None where the records do not tell
    gpu: str = ""  # the name of one that measured, or was planned for


@dataclass(frozen=True)
class Needs:
    """A claim's precondition; what is empty may be anything."""

    size: str = ""
    device: Device | None = None
    gpu: str = ""  # such as RTX 3090
    cpu_flag: str = ""  # such as amx_bf16
    language: str = ""  # other than Python, none is ever met here
    lacking: str = ""  # what the suite lacks to measure it, in words

    def describe_unmet(self, here: Conditions) -> str:
        """Return what is not as the claim needs it; empty if all is."""
        unmet = []
        if self.language and self.language != LANGUAGE:
            unmet.append(f"needs {self.language}: this suite runs {LANGUAGE}")
        if self.device and self.device != here.device:
            unmet.append(f"needs a {self.device.upper()}")
        if self.gpu not in here.gpu:
            unmet.append(f"needs an {self.gpu}: this is {here.gpu or 'no GPU'}")
        if self.size and self.size != here.size:
            unmet.append(f"needs size {self.size}: this is {here.size or 'no size'}")
        if self.cpu_flag and (here.cpu_flags is None or self.cpu_flag not in here.cpu_flags):
            unmet.append(
                f"needs a processor with {self.cpu_flag}: {describe_flags(here.cpu_flags)}"
            )
        return "; ".join(unmet)


def describe_flags(flags: frozenset[str] | None) -> str:
    """Return which instructions a processor has; None if its records do not tell."""
    if flags is None:
        return "the records do not tell"
    return f"here: {', '.join(sorted(flags)) or 'none of its kind'}"


ANYWHERE = Needs()
