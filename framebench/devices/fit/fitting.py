"""Whether a prediction fits on a device, and the largest batch that does.

The rule was fixed before it was applied to anything.

Next to what a framework's allocator takes, a GPU holds the context: the driver's part of the
process and its loaded kernels. GPUs that others measured had 617 MiB to 1,343 MiB of it. A
prediction is off by some
share: the error that nine of ten measured rows are within. What fits with the larger context and
that error fits; what does not fit with the smaller context and that error does not; in between it
depends, and the answer says on what.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from framebench.devices.catalog import Device
from framebench.devices.plans import store
from framebench.devices.plans.planned import Planned
from framebench.records.pins import find_pinned_version
from framebench.suite.case import Case

# bytes of a CUDA context, the least and the most that was measured
CONTEXT = (617 * 2**20, 1343 * 2**20)
MOST_SAMPLES = 2**16  # in a batch
FLAT = 0.2  # of the share by which a batch grows: what plans of one size grow by at most
# how many times the largest that fits the next may be, for another line between the two to be of
# use
APART = 1.1
# The share that a prediction may be off by. PyTorch: the error that nine of ten peaks that others
# measured are within (studies/published_peaks). JAX: more than a GPU of our own was off by at full
# size (studies/gpu_session).
ALLOWED = {"torch": 0.0789776, "jax": 0.08}


class SearchRule(NamedTuple):
    """How a framework's largest batch is searched for."""

    first: tuple[int, ...]  # batches that are planned first, in multiples of the smallest there is
    first_leap: int  # the next batch is at most so many times the largest that fits ...
    leap: int  # ... and later
    most_plans: int  # of one strategy


RULES = {
    # segments of 20 MiB hide how small batches grow
    "torch": SearchRule((1, 4), first_leap=16, leap=16, most_plans=8),
    # XLA computes values again near its pool's limit, so that two plans of one size say little
    # about a third; a plan takes up to a minute
    "jax": SearchRule((4,), first_leap=1024, leap=2, most_plans=5),
}


def context_of(device: Device) -> tuple[int, int]:
    """Return the bytes of a context on a device, at the least and at the most."""
    return CONTEXT if device.kind == "gpu" else (0, 0)


class CachedPlan(NamedTuple):
    """A cached prediction."""

    planned: Planned
    file: Path
    error: float  # the share that it may be off by


def read_cached(results: Path, device: str) -> dict[str, CachedPlan]:
    """Return the cached predictions of the pinned releases by case id, for other features.

    Nothing is planned.
    """
    cached: dict[str, CachedPlan] = {}
    for framework, error in ALLOWED.items():
        file = store.file(results, device, framework, find_pinned_version(framework))
        for case, planned in store.read(file).items():
            cached[case] = CachedPlan(planned, file, error)
    return cached


@dataclass(frozen=True)
class Offer:
    """One strategy at one batch on a device, or within a smaller budget of it."""

    case: Case
    planned: Planned
    device: Device
    error: float  # the share that the prediction may be off by
    budget: int | None = None  # bytes
    # of a search for the largest batch: the next one does not fit for certain
    complete: bool = True
    # of a search: the smallest larger batch that was planned and may not fit
    below: int | None = None

    @property
    def batch(self) -> int:
        return self.case.batch

    @property
    def bytes(self) -> int | None:
        """Return what the framework takes, also of what was refused."""
        return (
            self.planned.peak_bytes
            if self.planned.peak_bytes is not None
            else self.planned.needs_bytes
        )

    @property
    def memory(self) -> int:
        """Return the bytes that there are."""
        return min(self.budget or self.device.memory_bytes, self.device.memory_bytes)

    @cached_property
    def fits(self) -> bool | None:
        """Return None where it depends on how far the prediction is off, or nothing was
        predicted.
        """
        if self.bytes is None:
            return False if self.planned.outcome == "refused" else None
        least, most = context_of(self.device)
        if self.bytes * (1 + self.error) + most <= self.memory:
            return True
        if self.bytes * (1 - self.error) + least > self.memory:
            return False
        return None

    @property
    def answer(self) -> str:
        """Return whether it fits in words."""
        if self.fits is not None:
            return "fits" if self.fits else "does not fit"
        if self.bytes is None:
            return self.planned.reason or self.planned.outcome
        margin = (self.memory - context_of(self.device)[1]) / self.bytes - 1
        if margin >= 0:
            return f"fits if the prediction is at most {margin:.1%} low"
        return f"fits only if the prediction is {-margin:.1%} high"


@dataclass
class BatchSearch:
    """The search for the largest batch of a strategy that fits for certain."""

    case: Case  # with the smallest batch that there is
    device: Device
    error: float
    budget: int | None = None
    planned: dict[int, Planned] = field(default_factory=dict)  # by batch

    @property
    def rule(self) -> SearchRule:
        return RULES[self.case.framework]

    @property
    def offer(self) -> Offer:
        """Return the offer at the largest batch that fits, or else at the smallest."""
        offer = self.offer_at(self.largest_fitting or min(self.planned))
        return replace(offer, complete=self.is_decided, below=self.next_above)

    def offer_at(self, batch: int) -> Offer:
        """Return the offer at a batch that was planned."""
        return Offer(
            replace(self.case, batch=batch),
            self.planned[batch],
            self.device,
            self.error,
            self.budget,
        )

    def fits(self, batch: int) -> bool:
        """Return whether a batch that was planned fits for certain."""
        return self.offer_at(batch).fits is True

    @property
    def largest_fitting(self) -> int:
        """Return the largest batch that fits for certain, 0 if none does."""
        return max(filter(self.fits, self.planned), default=0)

    @property
    def next_above(self) -> int | None:
        """Return the smallest batch above what fits that was planned."""
        return min((batch for batch in self.planned if batch > self.largest_fitting), default=None)

    @property
    def is_decided(self) -> bool:
        return (
            self.largest_fitting + self.case.batch in self.planned
            or self.largest_fitting >= MOST_SAMPLES
        )

    @property
    def is_apart(self) -> bool:
        """Return whether what fits and what does not are far apart."""
        return self.next_above is not None and self.next_above > APART * self.largest_fitting

    @property
    def has_planned_enough(self) -> bool:
        """Return whether to end: one more plan where the last guess was too large, and one where
        the ends are apart.
        """
        allowed = self.rule.most_plans + (not self.fits(max(self.planned))) + self.is_apart
        return len(self.planned) >= allowed

    def next(self) -> Case | None:
        """Return what to plan next; None when the next larger batch does not fit, or enough was
        planned.
        """
        smallest = self.case.batch
        if smallest in self.planned and not self.fits(smallest):
            return None
        first = [smallest * times for times in self.rule.first]
        if self.planned and not self.largest_fitting:
            first.append(smallest)
        for batch in first:
            if batch not in self.planned:
                return replace(self.case, batch=batch)
        if self.is_decided or self.has_planned_enough:
            return None
        return replace(self.case, batch=self.guess())

    def guess(self) -> int:
        """Return the batch where a line meets the limit.

        It goes through what fits and what does not, or the two largest batches; with a single batch
        through the plan's arguments, which no batch changes. Where plans of what fits are of one
        size, the guess is halfway to what does not fit.
        """
        smallest = self.case.batch
        fitting = self.largest_fitting
        above = self.next_above
        sizes = [(0, self.planned[fitting].parts.get("arguments", 0)), *self.sizes_up_to(above)]
        (first, low), (second, high) = sizes[-2:]
        slope = (high - low) / (second - first)
        limit = (self.offer_at(fitting).memory - context_of(self.device)[1]) / (1 + self.error)
        is_first_guess = len(self.planned) <= len(self.rule.first)
        most = (self.rule.first_leap if is_first_guess else self.rule.leap) * fitting
        guess = second + (limit - high) / slope if slope > 0 else most
        if above and self.is_apart and self.is_flat():
            guess = (fitting * above) ** 0.5
        if self.is_apart and len(self.planned) >= self.rule.most_plans:
            guess = max(guess, fitting * APART**0.5)  # the last ones bring the ends together
        in_steps = max(int(guess // smallest) * smallest, fitting + smallest)
        return min(in_steps, (above or MOST_SAMPLES + smallest) - smallest, most)

    def sizes_up_to(self, last: int | None) -> list[tuple[int, int]]:
        """Return batches with their bytes, in order."""
        sizes = []
        for batch in sorted(self.planned):
            size = self.offer_at(batch).bytes
            if size is not None and (last is None or batch <= last):
                sizes.append((batch, size))
        return sizes

    def is_flat(self) -> bool:
        """Return whether of the two largest batches that fit the larger one needs hardly more."""
        fitting = [
            (batch, size) for batch, size in self.sizes_up_to(None) if size and self.fits(batch)
        ]
        if len(fitting) < 2:
            return False
        (first, low), (second, high) = fitting[-2:]
        return high / low - 1 < FLAT * (second / first - 1)
