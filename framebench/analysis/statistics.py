"""Statistics: is a step slower than another, or does it need more memory, and by how much?

Step times are compared in blocks: processes that are alive at the same time and take turns on one
core.

- Within a block, rounds are compared: both sides step within the same second, so that a machine
  that drifts changes both alike.
  The block's ratio is the median over its rounds, since single rounds stray.
- The block is the unit of the interval, as its processes are fresh: what a process got (addresses,
  pages, places of threads) stays with it, and more rounds do not average it out (Kalibera and Jones
  2013, "Rigorous benchmarking in reasonable time").
- Logarithms are averaged over blocks, so that swapping the sides inverts every result.
- The variance of few blocks is hardly known. It is moderated by that of the other pairs (Smyth
  2004, "Linear models and empirical Bayes methods", section 3), which count as `PRIOR` blocks at
  most; the interval is that of Student's t. Some pairs are noisier than most: the median of the
  variances is the prior, so that a few do not widen every interval, and a pair that is noisier than
  the prior explains keeps only its own variance, so that its interval is not too narrow.
- A ratio of fewer than `FEWEST_BLOCKS` blocks has no interval, since fewer cover noisy pairs too
  seldom (studies/noise); it is printed as `~1.23`, and decides nothing. One is undecided if its
  interval holds both faster and slower, and is wider than `WIDE_INTERVAL`.

Peaks repeat: they need no blocks. How often all this errs: studies/noise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

CONFIDENCE = 0.95
FEWEST_BLOCKS = 3  # that give an interval
NO_INTERVAL = f"fewer than {FEWEST_BLOCKS} blocks have no interval"
WIDE_INTERVAL = 0.05  # relative half-width from which on an interval around 1 tells nothing
PRIOR = 4  # degrees of freedom that the variance of all other pairs has at most
# Resolution of one process's peak, relative and in bytes: the kernel gives pages by the dozen, and
# equal processes of small peaks differ by up to a quarter of a MiB (studies/noise). Other
# instruments are exact.
RESOLUTION = {"host.rss": (0.005, 2**17)}
# relative: instructions of equal work repeat to a ten-thousandth, of other work they do not
WORK = 0.001


class Ratio(NamedTuple):
    """A candidate over its base."""

    value: float
    low: float | None = None  # 95 % interval; None with fewer than FEWEST_BLOCKS blocks
    high: float | None = None
    p: float | None = None  # two-sided, of a ratio of 1
    blocks: int = 0

    @property
    def decided(self) -> bool:
        """Return whether the interval tells faster from slower, or is narrow."""
        if self.low is None or self.high is None:
            return False
        return self.narrow or not self.low <= 1 <= self.high

    @property
    def narrow(self) -> bool:
        """Return whether the interval is no wider than `WIDE_INTERVAL` to each side."""
        if self.low is None or self.high is None:
            return False
        return max(self.high / self.value, self.value / self.low) <= 1 + WIDE_INTERVAL

    @property
    def text(self) -> str:
        """Return `0.12 (0.11 to 0.13)`, `undecided (0.93 to 1.12)`, or `~1.23` for few blocks."""
        if self.low is None:
            return f"~{self.value:.2f}"
        interval = f"({self.low:.2f} to {self.high:.2f})"
        return f"{self.value:.2f} {interval}" if self.decided else f"undecided {interval}"


class Pool(NamedTuple):
    """The variance of log ratios from block to block, in the median over several pairs."""

    variance: float = 0.0
    freedom: int = 0  # degrees of freedom of all pairs together


NO_POOL = Pool()


def compare_rounds(base: Mapping[int, float], candidate: Mapping[int, float]) -> float | None:
    """Return the log ratio of one block: the median over the rounds that both sides have.

    The arguments are seconds by round. Returns None if they share no round.
    """
    shared = base.keys() & candidate.keys()
    if not shared:
        return None
    return statistics.median(math.log(candidate[number] / base[number]) for number in shared)


def pool_spreads(spreads: Sequence[Pool]) -> Pool:
    """Return how much the blocks of several pairs differ, in the median."""
    if not spreads:
        return NO_POOL
    variances = [spread.variance for spread in spreads]
    return Pool(float(np.median(variances)), sum(spread.freedom for spread in spreads))


def measure_spread(logs: Sequence[float]) -> Pool:
    """Return the variance of one pair, of two blocks or more.

    A variance of few blocks is below the true one more often than above it, so it is divided by
    what its median would be.
    """
    from scipy import special  # scipy.stats takes four times as long to import

    freedom = len(logs) - 1
    median = special.chdtri(freedom, 0.5) / freedom
    return Pool(float(np.asarray(logs, dtype=float).var(ddof=1) / median), freedom)


def compare_blocks(logs: Sequence[float], others: Pool = NO_POOL) -> Ratio:
    """Return the ratio, from one log ratio a block.

    `others` are the other pairs of the same machine: a pair that were its own prior would be
    counted twice.
    """
    from scipy import special  # scipy.stats takes four times as long to import

    log_ratios = np.asarray(logs, dtype=float)
    blocks = len(log_ratios)
    mean = float(log_ratios.mean())
    if blocks < FEWEST_BLOCKS:
        return Ratio(math.exp(mean), blocks=blocks)

    variance = float(log_ratios.var(ddof=1))
    prior = min(PRIOR, others.freedom)
    if prior:
        # 95 % of the pairs that are no noisier than the others have a ratio of variances below this
        largest_ratio = float(special.fdtri(blocks - 1, others.freedom, CONFIDENCE))
        if variance > others.variance * largest_ratio:
            prior = 0
    freedom = prior + blocks - 1
    squares = prior * others.variance + (blocks - 1) * variance
    error = math.sqrt(squares / freedom / blocks)  # standard error of the mean
    half = compute_student_quantile(freedom) * error
    p = float(mean == 0)  # without any spread no other value is possible
    if error:
        p = float(2 * special.stdtr(freedom, -abs(mean) / error))
    return Ratio(
        value=math.exp(mean),
        low=math.exp(mean - half),
        high=math.exp(mean + half),
        p=p,
        blocks=blocks,
    )


@cache
def compute_student_quantile(freedom: int) -> float:
    """Return the quantile of Student's t that leaves CONFIDENCE between itself and its negative."""
    from scipy import special  # scipy.stats takes four times as long to import

    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))


def compare_peaks(base: Sequence[float], candidate: Sequence[float], instrument: str) -> Ratio:
    """Return the largest peak of the candidate over the largest of the base.

    The arguments have the bytes of a peak for each process. The interval reaches over the processes
    that were measured, and over what the instrument resolves; of exact counters that agree it is a
    point.
    """
    share, size = RESOLUTION.get(instrument, (0.0, 0))
    base_error = share + size / max(base)
    candidate_error = share + size / max(candidate)
    error = math.exp(math.hypot(base_error, candidate_error))  # they are independent
    return Ratio(
        value=max(candidate) / max(base),
        low=min(candidate) / max(base) / error,
        high=max(candidate) / min(base) * error,
        blocks=min(len(base), len(candidate)),
    )


def correct_by_holm(ps: Sequence[float]) -> list[float]:
    """Return the p values of several tests, corrected for their number (Holm 1979), in order."""
    order = np.argsort(ps, kind="stable")
    factors = np.arange(len(ps), 0, -1)
    ascending = np.maximum.accumulate(np.asarray(ps, dtype=float)[order] * factors)
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(ascending, 1.0)
    return corrected.tolist()


class Quantity(NamedTuple):
    """A quantity that is compared, and the least difference that matters."""

    name: str
    unit: str
    minimum: float  # relative; smaller differences are none
    more: str
    less: str


TIME = Quantity("step time", "s", minimum=0.03, more="slower", less="faster")
PEAK = Quantity("peak memory", "bytes", minimum=0.01, more="more memory", less="less memory")
NONE, UNDECIDED = "no difference", "undecided"


def decide(ratio: Ratio, quantity: Quantity) -> str:
    """Return the verdict: the quantity's `more` or `less`, NONE or UNDECIDED.

    A difference is one that matters (`minimum`) and is hardly chance: p is at most 5 %. If there
    are several tests on one page, the ratio's `p` is the corrected one. If it has no p, as for
    peaks, the interval must exclude 1. There is no difference if the whole interval lies within the
    minimum.
    """
    if ratio.low is None or ratio.high is None:
        return UNDECIDED
    is_chance = ratio.low <= 1 <= ratio.high
    if ratio.p is not None:
        is_chance = ratio.p > 1 - CONFIDENCE
    limit = 1 + quantity.minimum
    if not is_chance and ratio.value > limit:
        return quantity.more
    if not is_chance and ratio.value < 1 / limit:
        return quantity.less
    if 1 / limit <= ratio.low and ratio.high <= limit:
        return NONE
    return UNDECIDED
