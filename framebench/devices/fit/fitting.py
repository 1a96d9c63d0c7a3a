"""Decide whether a prediction fits on a device, and search the largest batch that does.

The rule was fixed before it was applied to any prediction.

A GPU holds the CUDA context in addition to the framework's allocator: the driver's part of the
process and the kernels that it loaded. Contexts of 617 MiB to 1,343 MiB were measured by others.
Each kind of prediction has an error (`needs.INTERVALS`). Where too few peaks were measured to judge
it, it is that of the worst of them, and the answer says so. A case fits if there is room for the
prediction plus its error and the larger context. It does not fit if there is no room even for the
prediction less its error and the smaller context. In between the answer names the error at which it
fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from framebench.devices.catalog import Device
from framebench.devices.needs import find_context_bytes
from framebench.devices.plans.answer import AT_LEAST
from framebench.devices.plans.planned import Planned, find_upper_needs
from framebench.suite.case import Case

MOST_SAMPLES = 2**16  # in a batch
# Sizes are on a plateau if they grow by less than this part of the batch's growth.
PLATEAU_GROWTH = 0.2
# The gap between the largest batch that fits and the smallest that does not is wide if their ratio
# is above this.
WIDE_GAP = 1.1
# What fits and needs more than this share of the memory says how little is left.
TIGHT_SHARE = 0.9
MOST_GAP_PLANS = 2  # beyond `most_plans`: below a batch that does not fit, and in a wide gap


class SearchRule(NamedTuple):
    """The settings of the search for a framework's largest batch."""

    first: tuple[int, ...]  # batches that are planned first, in multiples of the smallest
    first_leap: int  # the next one is at most so many times the largest that fits,
    leap: int  # and the later ones so many times
    most_plans: int  # of one strategy, unless the last ones leave a gap: `MOST_GAP_PLANS`


RULES = {
    # segments of 20 MiB hide how small batches grow
    "torch": SearchRule((1, 4), first_leap=16, leap=16, most_plans=8),
    # near its pool's limit XLA recomputes values, so two plans do not predict a third well; a plan
    # takes up to a minute
    "jax": SearchRule((4,), first_leap=1024, leap=2, most_plans=5),
}


@dataclass(frozen=True)
class FitAssessment:
    """The assessment whether a case fits on a device, or within a budget that is smaller."""

    case: Case
    planned: Planned
    device: Device
    budget: int | None = None  # bytes
    # in a search: whether the next larger batch was predicted, and does not fit in this way
    is_exact: bool = True
    # in a search: the smallest larger batch that was predicted, which may not fit
    smallest_not_fitting: int | None = None

    @property
    def batch(self) -> int:
        return self.case.batch

    @property
    def bytes(self) -> int | None:
        """Return the predicted bytes of the framework, also of a case that was refused."""
        return self.planned.predicted_bytes

    @property
    def memory(self) -> int:
        """Return the bytes of the device, or of the budget if that is less."""
        return min(self.budget or self.device.memory_bytes, self.device.memory_bytes)

    @property
    def needs(self) -> int | None:
        """Return the bytes to plan with: the upper end of the prediction, and the context."""
        return find_upper_needs(self.planned)

    @cached_property
    def fits(self) -> bool | None:
        """Return whether it fits at the upper end of the error.

        None means that it depends on how far the prediction is off, or that nothing was predicted.
        """
        smallest_context, _ = find_context_bytes(self.device)
        if self.bytes is None or self.needs is None:
            # of a case that cannot be simulated there may be a lower bound
            lower_bound = self.planned.parts.get(AT_LEAST, 0) + smallest_context
            is_too_large = self.planned.outcome == "refused" or lower_bound > self.memory
            return False if is_too_large else None
        if self.needs <= self.memory:
            return True
        least_bytes = self.bytes * (1 + self.planned.error_interval.low) + smallest_context
        return False if least_bytes > self.memory else None

    @property
    def answer(self) -> str:
        """Return whether it fits in words."""
        if self.fits:
            return f"fits{self.describe_margin()}{self.describe_doubt()}"
        if self.fits is False:
            return f"does not fit{self.describe_doubt()}"
        if self.bytes is None:
            return self.planned.reason or self.planned.outcome
        _, largest_context = find_context_bytes(self.device)
        margin = (self.memory - largest_context) / self.bytes - 1
        if margin >= 0:
            return f"fits if the prediction is at most {margin:.1%} low{self.describe_doubt()}"
        return f"fits only if the prediction is {-margin:.1%} high{self.describe_doubt()}"

    @property
    def is_tight(self) -> bool:
        """Return whether it fits, and leaves little of the memory for what is not predicted."""
        return bool(self.fits) and (self.needs or 0) > TIGHT_SHARE * self.memory

    def describe_margin(self) -> str:
        """Return what is left of the memory where that is little, and the error that is allowed."""
        if not self.is_tight or self.needs is None:
            return ""
        text = f" with {1 - self.needs / self.memory:.1%} to spare"
        interval = self.planned.error_interval
        if interval.is_judged:
            text += f", if the prediction is at most {interval.high:.1%} low"
        return text

    def describe_doubt(self) -> str:
        """Return that the error is not judged, or "" if it is or nothing was predicted."""
        interval = self.planned.error_interval
        if self.bytes is None or interval.is_judged:
            return ""
        return f", by a prediction whose error is {interval.describe_doubt()}"


@dataclass
class PredictedBatchSearch:
    """Search by predictions the largest batch that fits at the upper end of the error."""

    case: Case  # at the smallest batch that the strategy can have
    device: Device
    budget: int | None = None  # bytes
    planned: dict[int, Planned] = field(default_factory=dict)  # by batch

    @property
    def result(self) -> FitAssessment:
        """Return the assessment of the largest batch that fits, or else of the smallest batch."""
        assessment = self.assess(self.largest_fitting or min(self.planned))
        return replace(
            assessment,
            is_exact=self.is_decided,
            smallest_not_fitting=self.smallest_not_fitting,
        )

    def assess(self, batch: int) -> FitAssessment:
        """Return the assessment of a batch that was predicted. Raises KeyError for another."""
        case = replace(self.case, batch=batch)
        return FitAssessment(case, self.planned[batch], self.device, self.budget)

    def fits(self, batch: int) -> bool:
        """Return whether a batch that was predicted fits at the upper end of the error."""
        return self.assess(batch).fits is True

    @property
    def largest_fitting(self) -> int:
        """Return the largest batch that fits at the upper end of the error, 0 if no batch does."""
        return max(filter(self.fits, self.planned), default=0)

    @property
    def smallest_not_fitting(self) -> int | None:
        """Return the smallest predicted batch above the largest that fits.

        It does not fit, or not at the upper end of the error.
        """
        larger = [batch for batch in self.planned if batch > self.largest_fitting]
        return min(larger, default=None)

    @property
    def is_decided(self) -> bool:
        """Return whether the next larger batch was predicted too, or none may be larger."""
        next_batch = self.largest_fitting + self.case.batch
        return next_batch in self.planned or self.largest_fitting >= MOST_SAMPLES

    @property
    def has_ended(self) -> bool:
        """Return whether no batch is to be predicted any more."""
        return self.next() is None

    @property
    def has_answer(self) -> bool:
        """Return whether a batch is known to fit, or the search has ended without one."""
        return self.largest_fitting > 0 or self.has_ended

    @property
    def most_plans_left(self) -> int:
        """Return how many more batches may have to be predicted."""
        if self.has_ended:
            return 0
        return RULES[self.case.framework].most_plans + MOST_GAP_PLANS - len(self.planned)

    @property
    def is_gap_wide(self) -> bool:
        """Return whether a batch between the largest that fits and the next is worth predicting."""
        above = self.smallest_not_fitting
        return above is not None and above > WIDE_GAP * self.largest_fitting

    def next(self) -> Case | None:
        """Return the case to predict next, or None if the search has ended."""
        rule = RULES[self.case.framework]
        smallest = self.case.batch
        planned = self.planned.get(smallest)
        # a step may fail for a single sample, as batch norm does
        if planned and planned.has_answer and not self.fits(smallest):
            return None
        first_batches = [smallest * times for times in rule.first]
        if self.planned and not self.largest_fitting:
            first_batches.append(smallest)
        for batch in first_batches:
            if batch not in self.planned:
                return replace(self.case, batch=batch)
        most_plans = rule.most_plans
        if not self.fits(max(self.planned)):
            most_plans += 1
        if self.is_gap_wide:
            most_plans += 1
        if self.is_decided or len(self.planned) >= most_plans:
            return None
        return replace(self.case, batch=self.choose_batch(rule))

    def choose_batch(self, rule: SearchRule) -> int:
        """Return the next batch to predict, in samples.

        A line through predicted sizes meets the limit there. On a plateau, where such a line is no
        help, it is the geometric mean of the bracket. The result is a multiple of the smallest
        batch, larger than the largest that fits, smaller than the smallest that does not, and no
        farther than one leap.
        """
        fitting, above = self.largest_fitting, self.smallest_not_fitting
        is_first_guess = len(self.planned) <= len(rule.first)
        leap = rule.first_leap if is_first_guess else rule.leap
        if above is not None and self.is_gap_wide and self.has_plateau():
            estimate = float((fitting * above) ** 0.5)
        else:
            estimate = self.extrapolate_linearly(leap * fitting)
        if self.is_gap_wide and len(self.planned) >= rule.most_plans:
            # the last predictions must narrow a wide gap, so they must not lie near its lower end
            estimate = max(estimate, fitting * WIDE_GAP**0.5)
        step = self.case.batch
        batch = max(int(estimate // step) * step, fitting + step)
        # if every batch has fitted so far, the search ends at MOST_SAMPLES
        most = MOST_SAMPLES if above is None else above - step
        return min(batch, most, leap * fitting)

    def extrapolate_linearly(self, farthest: int) -> float:
        """Return the batch at which a line through predicted sizes meets the limit.

        The line goes through the two largest batches up to `smallest_not_fitting`. XLA's argument
        buffers (weights and states), which do not depend on the batch, are the size of batch 0. If
        the line does not rise, the result is `farthest`.
        """
        planned = self.planned[self.largest_fitting]
        above = self.smallest_not_fitting
        sizes = [(0, planned.parts.get("arguments", 0))]
        for batch in sorted(self.planned):
            size = self.planned[batch].predicted_bytes
            if size is not None and (above is None or batch <= above):
                sizes.append((batch, size))
        (lower_batch, lower_bytes), (upper_batch, upper_bytes) = sizes[-2:]
        slope = (upper_bytes - lower_bytes) / (upper_batch - lower_batch)
        if slope <= 0:
            return farthest
        memory = self.assess(self.largest_fitting).memory
        _, context = find_context_bytes(self.device)
        limit = (memory - context) / (1 + planned.error_interval.high)
        return upper_batch + (limit - upper_bytes) / slope

    def has_plateau(self) -> bool:
        """Return whether the two largest batches that fit need nearly the same memory."""
        fitting = sorted(filter(self.fits, self.planned))
        if len(fitting) < 2:
            return False
        lower, upper = fitting[-2:]
        lower_bytes = self.planned[lower].predicted_bytes or 1
        growth = (self.planned[upper].predicted_bytes or 1) / lower_bytes - 1
        return growth < PLATEAU_GROWTH * (upper / lower - 1)
