"""Where the peak of one steady step comes from, as `framebench explain CASE --json` prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pydantic import model_validator

from framebench.explain.account import Moment
from framebench.records.record import CaseId, check_release
from framebench.records.record_parts import RecordPart
from framebench.suite.case import Case


class FullestMoment(RecordPart):
    """The fullest moment of the step."""

    event: int
    bytes: int
    phase: str


class LayerMemory(RecordPart):
    """The bytes alive at the peak of one kind, from one layer, made in one phase."""

    kind: str
    layer: str
    phase: str  # "before" if the step began with it
    bytes: int
    tensors: int
    by: tuple[str, ...] = ()  # the operators that made it, the one with most bytes first


def count_bytes_by_kind(holders: Iterable[LayerMemory]) -> Counter[str]:
    """Return the bytes of some holders by kind."""
    bytes_by_kind: Counter[str] = Counter()
    for holder in holders:
        bytes_by_kind[holder.kind] += holder.bytes
    return bytes_by_kind


class Explanation(RecordPart):
    """One steady step's memory.

    The holders' bytes sum to the peak's, which is the timeline's highest point.
    """

    case: CaseId
    how: str  # a sentence on what was counted, and on what an event is
    # peak of a step without the account, in the same process, by instrument
    measured: dict[str, int]
    plan: dict[str, int] = {}  # JAX: bytes that the executable reserves, by purpose
    timeline: tuple[Moment, ...]
    # bytes in use at each moment of the timeline; older records lack it
    timeline_by_kind: dict[str, tuple[int, ...]] = {}
    peak: FullestMoment
    holders: tuple[LayerMemory, ...]
    versions: dict[str, str]
    device: str

    @model_validator(mode="after")
    def check_sums(self) -> Explanation:
        """Raise ValueError unless the holders sum to the peak, and the timeline reaches it."""
        # a value that is counted twice, or not at all, shows here
        highest = max(moment.bytes for moment in self.timeline)
        total = sum(holder.bytes for holder in self.holders)
        if not highest == self.peak.bytes == total:
            raise ValueError(
                f"the holders sum to {total} bytes, the peak is {self.peak.bytes}, "
                f"the timeline's {highest}"
            )
        sums = [sum(sizes) for sizes in zip(*self.timeline_by_kind.values(), strict=True)]
        if self.timeline_by_kind and sums != [moment.bytes for moment in self.timeline]:
            raise ValueError("the kinds do not sum to the timeline")
        return self

    @model_validator(mode="after")
    def check_version(self) -> Explanation:
        """Raise ValueError unless it says which version of the framework it is of."""
        check_release(self.framework_version)
        return self

    @property
    def kinds(self) -> dict[str, int]:
        """Return the bytes at the peak by kind, most first."""
        return dict(count_bytes_by_kind(self.holders).most_common())

    @property
    def framework(self) -> str:
        """Return the framework of the case."""
        return Case.from_id(self.case).framework

    @property
    def framework_version(self) -> str:
        """Return the framework's release without the build's label, or "" if not recorded."""
        return self.versions.get(self.framework, "").partition("+")[0]

    @property
    def release(self) -> str:
        """Return the framework and its version, such as `jax==0.10.2`."""
        return f"{self.framework}=={self.framework_version}"
