"""The result of a bisection over releases, as `framebench versions bisect --json` prints it."""

from __future__ import annotations

from statistics import median
from typing import Literal

from pydantic import Field

from framebench.records.record import Release
from framebench.records.record_parts import RecordPart

# Equal work repeats to this share in fresh processes: a smaller difference is none, however calm
# the processes were.
FLOOR = 0.001


class ReleaseResult(RecordPart):
    """The peaks of one release in bytes, one for each fresh process, or why it has no peak."""

    release: Release
    values: tuple[float, ...] = ()
    instrument: str | None = None
    reason: str | None = None  # why it could not be installed, run or verified
    versions: dict[str, str] = Field(default={})

    @property
    def value(self) -> float | None:
        """Return the median over the processes, or None if no process has a number."""
        return median(self.values) if self.values else None

    @property
    def noise(self) -> float:
        """Return the spread of its processes as a share of the smallest value; at least FLOOR."""
        least = min(self.values, default=0)
        return max(FLOOR, max(self.values) / least - 1) if least else FLOOR

    def compute_change(self, base: ReleaseResult) -> float | None:
        """Return the change relative to the base, such as 0.3 for 30 % more.

        Returns None if either has no value, or if two instruments read them.
        """
        if not self.value or not base.value or self.instrument != base.instrument:
            return None
        return self.value / base.value - 1

    def has_changed(self, base: ReleaseResult, minimum: float) -> bool | None:
        """Return whether the value differs from the base's by more than `minimum` and the noise.

        Returns None if that is unknown: there is no change to compute, or the noise is larger than
        `minimum` and hides it.
        """
        change = self.compute_change(base)
        noise = max(self.noise, base.noise)
        if change is None:
            return None
        # noise hides what is smaller than itself, and nothing that is larger
        if abs(change) > max(minimum, noise):
            return True
        return False if noise <= minimum else None


BisectionOutcome = Literal["found", "one of several", "no change", "undecided", "not measured"]


class Bisection(RecordPart):
    """The answer of a search for the release that changed a peak.

    `first` is the first release whose peak differs from that of the oldest one that runs. If
    releases before it could not be tried, they are in `between`: the change may be in one of them.
    """

    framework: str
    case: str
    quantity: Literal["peak"] = "peak"
    device: str | None = None  # the device of the plans; None: measured
    threshold: float
    outcome: BisectionOutcome
    answer: str
    first: str | None = None
    last_unchanged: str | None = None
    between: tuple[str, ...] = ()  # stepped over, each of which may be the first
    tried: tuple[ReleaseResult, ...]  # in the order of trying
