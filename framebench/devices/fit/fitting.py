"""Decide whether a prediction fits on a device, and search the largest batch that does.

The rule was fixed before it was applied to any prediction.

A GPU holds the CUDA context in addition to the framework's allocator: the driver's part of the
process and the kernels that it loaded. Contexts of 617 MiB to 1,343 MiB were measured by others.
Each kind of prediction has an error (`needs.INTERVALS`). Where too few peaks were measured to judge
it, it is that of the worst of them, and the answer says so. A case fits if there is room for the
prediction plus its error and the larger context. It does not fit if there is no room even for the
prediction less its error and the smaller context. In between the answer names the error at which it
fits. A case that can only be bounded fits if there is room for its upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from framebench.devices.catalog import Device
from framebench.devices.needs import estimate_needs, find_context_bytes
from framebench.devices.plans.answer import AT_LEAST, AT_MOST
from framebench.devices.plans.planned import Planned
from framebench.suite.case import Case

MOST_SAMPLES = 2**16  # in a batch
# What fits and needs more than this share of the memory says how little is left.
TIGHT_SHARE = 0.9
# A search on one device begins at so many times the smallest batch: at fewer, what the pool takes
# at once hides how the memory grows. Over ranks, where a model is large and a plan takes minutes,
# it begins at the smallest, which tells whether any batch fits.
FIRST = 4
# The second batch is at most so many times the first, and a later one so many times the largest
# that fits. The first line rests on one plan, and on what no batch changes.
FIRST_LEAP, LEAP = 1024, 4
MOST_PLANS = 10  # of a search; three are enough where the memory grows along a line
# A search ends with so many failures: another plan would likely fail, too, or take too long.
MOST_FAILURES = 2
# Sizes are on a plateau if they grow by less than this part of what the batch grows by.
PLATEAU_GROWTH = 0.5
# A bracket is narrow if it leaves the largest batch open by less than this part of the share by
# which predictions were too low: to know it more closely would tell no more of a GPU.
NARROW_SHARE = 0.5
NEAR = 0.9  # a batch of more than this share of another one is near to it
# parts of a prediction that no batch changes, of a plan and of a simulation
FIXED_PARTS = ("arguments", "weights", "optimizer_states")


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
    # in a search: the smallest larger batch of which nothing tells whether it fits
    smallest_failing: FitAssessment | None = None

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
    def most_bytes(self) -> int | None:
        """Return the predicted bytes, or the upper bound of a case that can only be bounded."""
        return self.planned.parts.get(AT_MOST) if self.bytes is None else self.bytes

    @property
    def needs(self) -> int | None:
        """Return the bytes to plan with: the upper end of prediction or bound, and the context."""
        if self.most_bytes is None:
            return None
        return estimate_needs(self.most_bytes, self.planned.error_interval.high, self.device)

    @cached_property
    def fits(self) -> bool | None:
        """Return whether it fits at the upper end of the error.

        None means that it depends on how far the prediction is off, or that nothing was predicted.
        """
        if self.planned.outcome == "refused":
            return False
        if self.needs is not None and self.needs <= self.memory:
            return True
        if self.bytes is None:  # there may be a lower bound
            least_bytes: float = self.planned.parts.get(AT_LEAST, 0)
        else:
            least_bytes = self.bytes * (1 + self.planned.error_interval.low)
        smallest_context, _ = find_context_bytes(self.device)
        return False if least_bytes + smallest_context > self.memory else None

    @property
    def failure(self) -> str | None:
        """Return why nothing tells whether it fits; None if a prediction or bounds do."""
        if self.most_bytes is None and self.fits is None:
            return self.planned.reason or self.planned.outcome
        return None

    @property
    def answer(self) -> str:
        """Return whether it fits in words."""
        if self.fits:
            by_bound = " by its upper bound" if self.bytes is None else ""
            return f"fits{by_bound}{self.describe_margin()}{self.describe_doubt()}"
        if self.fits is False:
            return f"does not fit{self.describe_doubt()}"
        if self.failure is not None:
            return self.failure
        if self.bytes is None:
            return "may fit: only its bounds are known"
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
        """Return that the error is not judged, or "" if it is, or no prediction decides."""
        interval = self.planned.error_interval
        is_by_lower_bound = self.bytes is None and not self.fits
        if is_by_lower_bound or interval.is_judged:
            return ""
        return ", error not judged"  # in a cell of a table; its caption has the rows


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
        not_fitting = None
        failing = None
        for batch in self.larger_batches:
            larger = self.assess(batch)
            if larger.failure is None:
                not_fitting = batch
                break
            failing = failing or larger
        return replace(
            assessment,
            is_exact=self.is_decided,
            smallest_not_fitting=not_fitting,
            smallest_failing=failing,
        )

    def assess(self, batch: int) -> FitAssessment:
        """Return the assessment of a batch that was predicted. Raises KeyError for another."""
        case = replace(self.case, batch=batch)
        return FitAssessment(case, self.planned[batch], self.device, self.budget)

    def fits(self, batch: int) -> bool:
        """Return whether a batch that was predicted fits at the upper end of the error."""
        return self.assess(batch).fits is True

    def has_failed(self, batch: int) -> bool:
        """Return whether nothing tells if a batch fits that was to be predicted."""
        return self.assess(batch).failure is not None

    @property
    def largest_fitting(self) -> int:
        """Return the largest batch that fits at the upper end of the error, 0 if no batch does."""
        return max(filter(self.fits, self.planned), default=0)

    @property
    def larger_batches(self) -> list[int]:
        """Return the batches above the largest that fits, the smallest first.

        They do not fit, or not at the upper end of the error, or their prediction failed.
        """
        return sorted(batch for batch in self.planned if batch > self.largest_fitting)

    @property
    def smallest_above(self) -> int | None:
        """Return the smallest of `larger_batches`, below which the search goes on."""
        return next(iter(self.larger_batches), None)

    @property
    def is_decided(self) -> bool:
        """Return whether the next larger batch is known not to fit, or none may be larger."""
        next_batch = self.largest_fitting + self.case.batch
        is_next_known = next_batch in self.planned and not self.has_failed(next_batch)
        return is_next_known or self.largest_fitting >= self.most_samples

    @property
    def most_samples(self) -> int:
        """Return the largest batch that is predicted at all, a multiple of the smallest."""
        return MOST_SAMPLES // self.case.batch * self.case.batch

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
        return 0 if self.has_ended else MOST_PLANS - len(self.planned)

    def next(self) -> Case | None:
        """Return the case to predict next, or None if the search has ended."""
        failures = sum(map(self.has_failed, self.planned))
        if failures >= MOST_FAILURES or len(self.planned) >= MOST_PLANS:
            return None
        batch = self.choose_batch() if self.largest_fitting else self.choose_first_batch()
        return None if batch is None else replace(self.case, batch=batch)

    def choose_first_batch(self) -> int | None:
        """Return the batch to predict while none is known to fit, or None if none is left."""
        smallest = self.case.batch
        candidates = [smallest] if self.case.ranks > 1 else [FIRST * smallest, smallest]
        # a step may fail for a single sample, as batch norm does
        if smallest in self.planned and self.has_failed(smallest):
            candidates.append(2 * smallest)
        for batch in candidates:
            if batch not in self.planned:
                return batch
        return None

    def choose_batch(self) -> int | None:
        """Return the batch to predict next where one is known to fit, or None if none is left.

        A line through predicted sizes meets the limit there. Where lines are no help, it is the
        geometric mean of the bracket. The result is a multiple of the smallest batch.
        """
        step = self.case.batch
        fitting, above = self.largest_fitting, self.smallest_above
        # if every batch has fitted so far, the search ends at MOST_SAMPLES
        most = self.most_samples if above is None else above - step
        if most <= fitting or self.has_narrow_bracket():
            return None
        estimate = self.extrapolate_linearly()
        if above is not None and estimate >= fitting + step:
            leads_beyond_failure = estimate >= above and self.has_failed(above)
            if leads_beyond_failure or self.has_plateau() or self.was_last_plan_of_little_use():
                estimate = float((fitting * above) ** 0.5)
        return max(fitting + step, min(int(estimate // step) * step, most))

    def has_narrow_bracket(self) -> bool:
        """Return whether the largest batch is known closely enough for how far predictions are off.

        A batch above it whose prediction failed tells nothing.
        """
        fitting, above = self.largest_fitting, self.smallest_above
        if above is None or self.has_failed(above):
            return False
        open_batches = above - self.case.batch - fitting
        error = self.assess(fitting).planned.error_interval.high
        return open_batches <= NARROW_SHARE * error * fitting

    def extrapolate_linearly(self) -> float:
        """Return the batch at which a line through predicted sizes meets the limit.

        The line goes through the two largest batches up to `smallest_above`. Where no batch is
        known not to fit, the result is no farther than one leap. On a plateau the line goes through
        batch 0 instead: the compiler recomputes more for a larger batch, up to where that helps no
        more.
        """
        above = self.smallest_above
        sizes = self.list_sizes(above or self.largest_fitting)
        leap = LEAP if len(sizes) > 2 else FIRST_LEAP
        farthest = above or leap * self.largest_fitting
        batch_0 = sizes[0]
        upper_batch, upper_bytes = sizes.pop()
        if above is None:
            if self.has_plateau():
                sizes = [batch_0]
            # two batches that are near to each other may have the same segments
            sizes = [size for size in sizes if size[0] <= NEAR * upper_batch]
        lower_batch, lower_bytes = sizes[-1]
        slope = (upper_bytes - lower_bytes) / (upper_batch - lower_batch)
        if slope <= 0:
            return farthest
        to_limit = self.compute_limit() - upper_bytes
        return min(farthest, upper_batch + to_limit / slope)

    def compute_limit(self) -> float:
        """Return the bytes of a prediction that just fits at the upper end of the error."""
        assessment = self.assess(self.largest_fitting)
        _, context = find_context_bytes(self.device)
        return (assessment.memory - context) / (1 + assessment.planned.error_interval.high)

    def list_sizes(self, largest: int) -> list[tuple[int, int]]:
        """Return batches up to the largest with their predicted bytes, the smallest first.

        The first one is batch 0, with the bytes that no batch changes.
        """
        parts = self.planned[self.largest_fitting].parts
        sizes = [(0, sum(parts.get(part, 0) for part in FIXED_PARTS))]
        for batch in sorted(self.planned):
            size = self.assess(batch).most_bytes
            if size is not None and batch <= largest:
                sizes.append((batch, size))
        return sizes

    def has_plateau(self) -> bool:
        """Return whether the two largest batches that fit need nearly the same memory.

        XLA recomputes values to stay within its pool.
        """
        (_, fixed), *fitting = self.list_sizes(self.largest_fitting)
        if len(fitting) < 2:
            return False
        (lower_batch, lower_bytes), (upper_batch, upper_bytes) = fitting[-2:]
        proportional = (lower_bytes - fixed) * (upper_batch / lower_batch - 1)
        return upper_bytes - lower_bytes < PLATEAU_GROWTH * proportional

    def was_last_plan_of_little_use(self) -> bool:
        """Return whether the last plan left more than half of the bracket, as a logarithm."""
        *earlier, _ = self.planned.items()
        before = replace(self, planned=dict(earlier))
        if not before.largest_fitting or before.smallest_above is None or not self.smallest_above:
            return False
        ratio = self.smallest_above / self.largest_fitting
        return ratio**2 > before.smallest_above / before.largest_fitting
