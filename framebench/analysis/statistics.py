"""Does a step take longer than another, and by how much? From live blocks: processes that take turns on one core.

- Within a block, rounds are compared: both arms step within the same second, so that a machine that drifts changes both alike.
  The block's ratio is the median over its rounds, since single rounds stray.
- The block is the unit of the interval, as its processes are fresh: what a process got (addresses, pages, places of threads)
  stays with it, and more rounds do not average it out (Kalibera and Jones 2013, "Rigorous benchmarking in reasonable time").
- Logarithms are averaged over blocks, so that swapping the arms inverts every result.
- Of few blocks the variance is hardly known. It is moderated by that of the other pairs (Smyth 2004, "Linear models and
  empirical Bayes methods", section 3), which count as `PRIOR` blocks at most; the interval is that of Student's t. Some pairs
  are noisier than most: the median of the variances is the prior, so that a few do not widen every interval, and a pair that is
  noisier than the prior explains keeps its own variance alone, so that its interval is not too narrow.
- A ratio of fewer than `FEW` blocks has no interval, since fewer cover noisy pairs too seldom (studies/noise); it is printed
  as `~1.23`, and decides nothing. One is undecided if its interval holds both faster and slower, and is wider than `WIDE`.

Peaks repeat: they need no blocks. How often all this errs: studies/noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

CONFIDENCE = 0.95
FEW = 3  # blocks that an interval takes
NO_INTERVAL = f"fewer than {FEW} blocks have no interval"
WIDE = 0.05  # relative half-width from which on an interval around 1 tells nothing
PRIOR = 4  # degrees of freedom that the variance of all other pairs has at most
# of one process's peak, relative and in bytes: the kernel gives pages by the dozen, and equal processes of small peaks differ
# by up to a quarter of a MiB (studies/noise). Other instruments are exact
RESOLUTION = {"host.rss": (0.005, 2**17)}
WORK = 0.001  # relative: instructions of equal work repeat to a ten-thousandth, of other work they do not


class Ratio(NamedTuple):
    """Change over base, in the mean over blocks."""

    value: float
    low: float | None = None  # 95 % interval; None of fewer than FEW blocks
    high: float | None = None
    p: float | None = None  # two-sided, of a ratio of 1
    blocks: int = 0

    @property
    def decided(self) -> bool:
        """Whether it tells faster from slower, or that there is hardly a difference."""
        return self.low is not None and self.high is not None and (self.narrow or not self.low <= 1 <= self.high)

    @property
    def narrow(self) -> bool:
        """Whether its interval is `WIDE` or better to each side."""
        return self.low is not None and self.high is not None and max(self.high / self.value, self.value / self.low) <= 1 + WIDE

    @property
    def text(self) -> str:
        """`0.12 (0.11 to 0.13)`, `undecided (0.93 to 1.12)`, or `~1.23` without an interval."""
        if self.low is None:
            return f"~{self.value:.2f}"
        between = f"({self.low:.2f} to {self.high:.2f})"
        return f"{self.value:.2f} {between}" if self.decided else f"undecided {between}"


class Pool(NamedTuple):
    """How log ratios of blocks differ, in the median over several pairs of arms."""

    variance: float = 0.0
    freedom: int = 0  # of all pairs together


def of_block(base: Mapping[int, float], change: Mapping[int, float]) -> float | None:
    """Log ratio of one block: the median over the rounds that both arms have. Seconds by round; None if they share no round.

    Raises ValueError for a time that is no positive number.
    """
    both = sorted(base.keys() & change.keys())
    times = np.array([[base[r] for r in both], [change[r] for r in both]], dtype=float)
    if not ((times > 0) & np.isfinite(times)).all():
        raise ValueError(f"not all times are positive numbers: {times.tolist()}")
    return float(np.median(np.log(times[1]) - np.log(times[0]))) if both else None


def pooled(pairs: Iterable[Sequence[float]]) -> Pool:
    """Of log ratios by pair and block. A pair of one block tells nothing."""
    several = [_spread(tuple(logs)) for logs in pairs if len(logs) > 1]
    return Pool(float(np.median([s.variance for s in several])), sum(s.freedom for s in several)) if several else NOTHING


@cache  # the same pairs tell of how blocks differ for each ratio of a machine
def _spread(logs: tuple[float, ...]) -> Pool:
    """Of one pair. A variance of few blocks is below the true one more often than above it: it is divided by what its median
    would be."""
    from scipy import special  # scipy.stats takes four times as long to import

    freedom = len(logs) - 1
    return Pool(float(np.asarray(logs, dtype=float).var(ddof=1) / (special.chdtri(freedom, 0.5) / freedom)), freedom)


NOTHING = Pool()


def over_blocks(logs: Sequence[float], others: Pool = NOTHING) -> Ratio:
    """The ratio, from one log ratio a block. `others` are other pairs of the same machine; a pair that were its own prior would
    be counted twice.

    Raises ValueError without blocks, and for what is no number.
    """
    from scipy import special  # scipy.stats takes four times as long to import

    log_ratios = np.asarray(logs, dtype=float)
    if not log_ratios.size or not np.isfinite(log_ratios).all():
        raise ValueError(f"log ratios of blocks must be numbers, one at least: {log_ratios.tolist()}")
    mean, sample_freedom = float(log_ratios.mean()), len(log_ratios) - 1
    if len(log_ratios) < FEW:
        return Ratio(math.exp(mean), blocks=len(log_ratios))
    variance = float(log_ratios.var(ddof=1))
    prior = min(PRIOR, others.freedom)
    if prior and variance > others.variance * float(special.fdtri(sample_freedom, others.freedom, CONFIDENCE)):
        prior = 0
    freedom = prior + sample_freedom
    error = math.sqrt((prior * others.variance + sample_freedom * variance) / freedom / len(log_ratios))
    half = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    p = float(2 * special.stdtr(freedom, -abs(mean) / error)) if error else float(mean == 0)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), p, len(log_ratios))


def of_peaks(base: Sequence[float], change: Sequence[float], instrument: str) -> Ratio:
    """Largest over largest peak, each of one number of bytes per process. The interval reaches over the processes that were
    seen, and over what the instrument resolves; of exact counters that agree it is a point.

    Raises ValueError without processes, and for peaks that are not positive.
    """
    if not base or not change or min(*base, *change) <= 0:
        raise ValueError(f"peaks must be positive, one at least of each arm: {list(base)}, {list(change)}")
    share, size = RESOLUTION.get(instrument, (0.0, 0))
    wide = math.exp(math.hypot(share + size / max(base), share + size / max(change)))  # errors of two processes
    low, high = min(change) / max(base) / wide, max(change) / min(base) * wide
    return Ratio(max(change) / max(base), low, high, blocks=min(len(base), len(change)))


def holm(ps: Sequence[float]) -> list[float]:
    """The p of several tests on one page, corrected for their number (Holm 1979), in the order given."""
    order = np.argsort(ps, kind="stable")
    steps = np.maximum.accumulate(np.asarray(ps, dtype=float)[order] * np.arange(len(ps), 0, -1))
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(steps, 1.0)
    return [float(p) for p in corrected]


class Quantity(NamedTuple):
    """What is compared, and how much of a difference matters."""

    name: str
    unit: str
    minimum: float  # relative; smaller differences are none
    more: str
    less: str


TIME = Quantity("step time", "s", 0.03, "slower", "faster")
PEAK = Quantity("peak memory", "bytes", 0.01, "more memory", "less memory")
NONE, UNDECIDED = "no difference", "undecided"


def verdict(ratio: Ratio, quantity: Quantity, p: float | None = None) -> str:
    """The quantity's `more` or `less`, NONE or UNDECIDED.

    A difference matters (`minimum`) and is hardly chance: p (of several tests on one page, corrected) is at most 5 %; where
    there is no p, as with peaks, the interval excludes 1. No difference: the whole interval lies within the minimum.
    """
    if ratio.low is None or ratio.high is None:
        return UNDECIDED
    p = ratio.p if p is None else p
    limit = 1 + quantity.minimum
    seen = not ratio.low <= 1 <= ratio.high if p is None else p <= 1 - CONFIDENCE
    if seen and (ratio.value > limit or ratio.value < 1 / limit):
        return quantity.more if ratio.value > 1 else quantity.less
    return NONE if 1 / limit <= ratio.low and ratio.high <= limit else UNDECIDED
