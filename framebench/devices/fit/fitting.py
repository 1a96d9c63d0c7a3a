"""Whether a prediction fits on a device, and the largest batch that does. The rule was fixed before it was applied to anything.

A card holds, beside what a framework's allocator takes, the context: the driver's part of the process and its loaded
kernels. Cards that others measured had 617 MiB to 1,343 MiB of it. A prediction is off by some share: the error that nine of
ten measured rows are within. What fits with the larger context and that error fits; what does not fit with the smaller
context and that error does not; in between it depends, and the answer says on what.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from framebench.devices.catalog import Device
from framebench.devices.plans.planned import Planned
from framebench.suite.case import Case

CONTEXT = (617 * 2**20, 1343 * 2**20)  # bytes beside the allocator's on a GPU, the least and the most that was measured
MOST = 2**16  # samples in a batch
FIRST = {"torch": (1, 4), "jax": (4,)}  # batches that are planned first, in multiples of the smallest there is
# The next batch is at most so many times the largest that fits, the first time and later. PyTorch's segments of 20 MiB hide how
# small batches grow. XLA computes values again near its pool's limit, so that two plans of one size tell little of a third
LEAP = {"torch": (16, 16), "jax": (1024, 2)}
FLAT = 0.2  # of the share by which a batch grows: what plans of one size grow by at most
APART = 1.1  # how many times the largest that fits the next may be, for another line between the two to be of use
PLANS = {"torch": 8, "jax": 5}  # of one strategy: XLA's take up to a minute each
# The share that a prediction may be off by. PyTorch: the error that nine of ten peaks that others measured are within
# (studies/published_peaks). JAX: more than a GPU of our own was off by at full size (studies/gpu_session).
ALLOWED = {"torch": 0.0789776, "jax": 0.08}


def context(device: Device) -> tuple[int, int]:
    return CONTEXT if device.kind == "gpu" else (0, 0)


@dataclass(frozen=True)
class Offer:
    """One strategy at one batch on a device, or within a smaller budget of it."""

    case: Case
    planned: Planned
    device: Device
    error: float  # the share that the prediction may be off by
    budget: int | None = None  # bytes
    complete: bool = True  # of a search for the largest batch: the next one does not fit for certain
    below: int | None = None  # of a search: the smallest larger batch of which it is not certain that it fits, if one was tried

    @property
    def batch(self) -> int:
        return self.case.batch

    @property
    def bytes(self) -> int | None:
        """That the framework takes, also of what was refused."""
        return self.planned.peak_bytes if self.planned.peak_bytes is not None else self.planned.needs_bytes

    @property
    def memory(self) -> int:
        return min(self.budget or self.device.memory_bytes, self.device.memory_bytes)

    @cached_property
    def fits(self) -> bool | None:
        """None: it depends on how far the prediction is off, or nothing could be told."""
        if self.bytes is None:
            return False if self.planned.outcome == "refused" else None
        least, most = context(self.device)
        if self.bytes * (1 + self.error) + most <= self.memory:
            return True
        return False if self.bytes * (1 - self.error) + least > self.memory else None

    @property
    def answer(self) -> str:
        if self.fits is not None:
            return "fits" if self.fits else "does not fit"
        if self.bytes is None:
            return self.planned.reason or self.planned.outcome
        room = (self.memory - context(self.device)[1]) / self.bytes - 1
        return (
            f"fits if the prediction is at most {room:.1%} low"
            if room >= 0
            else f"fits only if the prediction is {-room:.1%} high"
        )


@dataclass
class Search:
    """For the largest batch of a strategy that fits for certain. `case` has the smallest batch that there is."""

    case: Case
    device: Device
    error: float
    budget: int | None = None
    tried: dict[int, Planned] = field(default_factory=dict)

    def next(self) -> Case | None:
        """What to plan next; None when the next larger batch does not fit, or enough was planned."""
        unit = self.case.batch
        if unit in self.tried and not self._fits(unit):
            return None
        first = [unit * b for b in FIRST[self.case.framework]] + ([] if not self.tried or self._good else [unit])
        batch = next((b for b in first if b not in self.tried), None)
        if batch is None and (self._decided or self._enough):
            return None
        return replace(self.case, batch=batch or self._guess())

    @property
    def offer(self) -> Offer:
        """At the largest batch that fits, or else at the smallest."""
        return replace(self._at(self._good or min(self.tried)), complete=self._decided, below=self._bad)

    def _at(self, batch: int) -> Offer:
        return Offer(replace(self.case, batch=batch), self.tried[batch], self.device, self.error, self.budget)

    def _fits(self, batch: int) -> bool:
        return self._at(batch).fits is True

    @property
    def _good(self) -> int:
        return max((b for b in self.tried if self._fits(b)), default=0)

    @property
    def _decided(self) -> bool:
        return self._good + self.case.batch in self.tried or self._good >= MOST

    @property
    def _bad(self) -> int | None:
        """The smallest batch above what fits that was tried."""
        return min((b for b in self.tried if b > self._good), default=None)

    @property
    def _apart(self) -> bool:
        return self._bad is not None and self._bad > APART * self._good

    @property
    def _flat(self) -> bool:
        """Whether of the two largest batches that fit the larger one needs hardly more."""
        fit = [(b, size) for b in sorted(self.tried) if self._fits(b) and (size := self._at(b).bytes)]
        if len(fit) < 2:
            return False
        (first, low), (second, high) = fit[-2:]
        return high / low - 1 < FLAT * (second / first - 1)

    @property
    def _enough(self) -> bool:
        """One more where the last guess was too large, and one where what fits and what does not are far apart."""
        return len(self.tried) >= PLANS[self.case.framework] + (not self._fits(max(self.tried))) + self._apart

    def _guess(self) -> int:
        """Where a line meets the limit: through what fits and what does not, or the two largest batches. Of a single batch the
        plan's arguments are what no batch changes. Where plans of what fits are of one size, halfway to what does not fit."""
        unit, good, framework = self.case.batch, self._good, self.case.framework
        asked = [b for b in sorted(self.tried) if b <= (self._bad or b)]
        sizes = [(b, size) for b in asked if (size := self._at(b).bytes) is not None]
        fixed = self.tried[good].parts.get("arguments", 0)
        (first, low), (second, high) = sizes[-2:] if len(sizes) > 1 else ((0, fixed), *sizes)
        slope = (high - low) / (second - first)
        limit = (self._at(good).memory - context(self.device)[1]) / (1 + self.error)
        most = LEAP[framework][len(self.tried) > len(FIRST[framework])] * good
        at = second + (limit - high) / slope if slope > 0 else most
        if self._bad and self._apart and self._flat:
            at = (good * self._bad) ** 0.5
        if self._apart and len(self.tried) >= PLANS[framework]:
            at = max(at, good * APART**0.5)  # the last ones bring the ends together
        return min(max(int(at // unit) * unit, good + unit), (self._bad or MOST + unit) - unit, most)
