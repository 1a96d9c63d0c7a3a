"""What must hold where a claim is decided: checked by the machine for every arm, before its number may decide.

A claim needs only what its own sentence names: a device's tool, a volume, a language. Bytes and counts decide wherever they are
taken, seconds on a GPU alone: an article's seconds are a GPU's. What the suite lacks (a model, an instrument, a listing, a
release) is no precondition: such a claim is not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from packaging.specifiers import SpecifierSet

from framebench.models.spec import names
from framebench.records.provenance import ROOT
from framebench.records.record import INSTRUMENTS

Device = Literal["cpu", "gpu"]
HERE = "Python"  # what every program of this suite is written in


@dataclass(frozen=True)
class Conditions:
    """Under which an arm's numbers came about. A number that was planned counts for the device that it was planned for."""

    size: str = ""  # of its cases; empty where it has none
    device: Device = "cpu"
    cpu_flags: frozenset[str] | None = frozenset()  # None where the records do not tell
    versions: Mapping[str, str] = field(default_factory=dict)  # of what ran, by name
    language: str = HERE
    card: str = ""  # the name of one that measured, or was planned for


@dataclass(frozen=True)
class Needs:
    """A claim's precondition; what is empty may be anything."""

    size: str = ""
    device: Device | None = None
    card: str = ""  # such as RTX 3090
    cpu_flag: str = ""  # such as amx_bf16
    version: str = ""  # such as "jax>=0.5"
    language: str = ""  # other than Python, none is ever met here
    release: str = ""  # that the suite must have installed, such as "torch 1.13"
    workload: str = ""  # a model that the suite must have
    instrument: str = ""  # what must be readable: a name of `records.record.INSTRUMENTS`
    case: str = ""  # that the suite has not: said in words
    listing: str = ""  # a file of examples/articles: what an article prints

    def unmet(self, here: Conditions) -> str:
        """What is not as the claim needs it; empty if all is."""
        return "; ".join(part for part in self._unmet(here) if part)

    def _unmet(self, here: Conditions) -> tuple[str, ...]:
        flags = here.cpu_flags
        told = "the records do not tell" if flags is None else f"here: {', '.join(sorted(flags)) or 'none of its kind'}"
        return (
            f"needs {self.language}: this suite runs {here.language}" if self.language not in ("", here.language) else "",
            f"needs a {self.device.upper()}" if self.device and self.device != here.device else "",
            f"needs an {self.card}: this is {here.card or 'no card'}" if self.card not in here.card else "",
            f"needs size {self.size}: this is {here.size or 'no size'}" if self.size and self.size != here.size else "",
            f"needs a processor with {self.cpu_flag}: {told}" if self.cpu_flag and self.cpu_flag not in (flags or ()) else "",
            self._version(here),
        )

    def lacking(self) -> str:
        """What the suite lacks to measure it; empty if nothing."""
        parts = (
            f"needs {self.release}: the suite has no environment with it" if self.release else "",
            f"needs a workload {self.workload}: the suite has none" if self.workload not in ("", *names()) else "",
            f"needs {self.instrument}: no instrument of the suite reads it"
            if self.instrument not in ("", *INSTRUMENTS)
            else "",
            f"needs {self.case}: the suite has no such case" if self.case else "",
            f"needs the listing {self.listing}: it is not kept" if self.listing and not listing(self.listing).exists() else "",
        )
        return "; ".join(part for part in parts if part)

    def _version(self, here: Conditions) -> str:
        if not self.version:
            return ""
        name = self.version[: next(i for i, letter in enumerate(self.version) if letter in "<>=!~")].strip()
        release = here.versions.get(name)
        if release is not None and SpecifierSet(self.version[len(name) :].strip()).contains(release, prereleases=True):
            return ""
        return f"needs {self.version}: this is {release or 'unknown'}"


def listing(name: str) -> Path:
    """What an article prints, as a program: `<framework>_<what>`."""
    return ROOT / "examples" / "articles" / f"{name}.py"


ANYWHERE = Needs()
CARD = Needs(device="gpu")
FULL = Needs(size="full")
FULL_ON_A_CARD = Needs(size="full", device="gpu")
JULIA = Needs(language="Julia")
JULIA_ON_A_CARD = Needs(language="Julia", device="gpu")
