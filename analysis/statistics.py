"""Does a step take longer than another, and by how much? From live blocks: processes that take turns on one core.

- Within a block, rounds are compared: both arms step within the same second, so that a machine that drifts changes both alike.
  The block's ratio is the median over its rounds, since single rounds stray.
- The block is the unit of the interval, as its processes are fresh: what a process got (addresses, pages, places of threads)
  stays with it, and more rounds do not average it out (Kalibera and Jones 2013, "Rigorous benchmarking in reasonable time").
- Logarithms are averaged over blocks, so that swapping the arms inverts every result.
- Of few blocks the variance is hardly known. It is moderated by that of the other pairs (Smyth 2004, "Linear models and
  empirical Bayes methods", section 3), which count as `PRIOR` blocks at most; the interval is that of Student's t.
- A ratio whose interval is wider than `WIDE` either way is undecided, and is printed as such.

Peaks repeat: they need no blocks. How often all this errs: docs/study.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

CONFIDENCE = 0.95
WIDE = 0.05  # relative half-width of an interval from which on a ratio is undecided
PRIOR = 4  # degrees of freedom that the variance of all other pairs has at most
RESOLUTION = {"host.rss": 0.005}  # relative, of one process's peak (docs/peak.md); every other instrument is exact
WORK = 0.001  # relative: instructions of equal work repeat to a ten-thousandth, of other work they do not


class Ratio(NamedTuple):
    """Change over base, in the mean over blocks."""

    value: float
    low: float | None = None  # 95 % interval; None where nothing tells how blocks differ
    high: float | None = None
    p: float | None = None  # two-sided, of a ratio of 1
    blocks: int = 0

    @property
    def decided(self) -> bool:
        return self.low is not None and self.high is not None and max(self.high / self.value, self.value / self.low) <= 1 + WIDE

    @property
    def text(self) -> str:
        """`1.23 (1.20 to 1.26)`, `undecided (0.93 to 1.12)`, or `undecided` without an interval."""
        between = "" if self.low is None else f" ({self.low:.2f} to {self.high:.2f})"
        return f"{self.value:.2f}{between}" if self.decided else f"undecided{between}"


class Pool(NamedTuple):
    """How blocks differ, over several pairs of arms: squared deviations of log ratios from their pair's mean."""

    squares: float = 0.0
    freedom: int = 0


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
    several = [np.asarray(logs, dtype=float) for logs in pairs if len(logs) > 1]
    return Pool(sum(float(np.sum((logs - logs.mean()) ** 2)) for logs in several), sum(len(logs) - 1 for logs in several))


NOTHING = Pool()


def over_blocks(logs: Sequence[float], others: Pool = NOTHING) -> Ratio:
    """The ratio, from one log ratio a block. `others` are other pairs of the same machine; a pair that were its own prior would
    be counted twice.

    Raises ValueError without blocks, and for what is no number.
    """
    from scipy import stats  # takes most of a second, and few commands need it

    found = np.asarray(logs, dtype=float)
    if not found.size or not np.isfinite(found).all():
        raise ValueError(f"log ratios of blocks must be numbers, one at least: {found.tolist()}")
    mean, own = float(found.mean()), pooled([logs])
    prior = min(PRIOR, others.freedom)
    freedom = prior + own.freedom
    if not freedom:
        return Ratio(math.exp(mean), blocks=len(found))
    spread = (prior * others.squares / others.freedom if prior else 0.0) + own.squares
    error = math.sqrt(spread / freedom / len(found))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, freedom)) if error else float(mean == 0)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), p, len(found))


def of_peaks(base: Sequence[float], change: Sequence[float], instrument: str) -> Ratio:
    """Largest over largest peak, each of one number of bytes per process. The interval reaches over the processes that were
    seen, and over what the instrument resolves; of exact counters that agree it is a point.

    Raises ValueError without processes, and for peaks that are not positive.
    """
    if not base or not change or min(*base, *change) <= 0:
        raise ValueError(f"peaks must be positive, one at least of each arm: {list(base)}, {list(change)}")
    wide = math.exp(math.hypot(*[RESOLUTION.get(instrument, 0.0)] * 2))  # errors of two processes
    low, high = min(change) / max(base) / wide, max(change) / min(base) * wide
    return Ratio(max(change) / max(base), low, high, blocks=min(len(base), len(change)))


def same_work(base: float, change: float) -> bool:
    """Whether two counts of instructions per step tell of the same work. How fast it was they do not tell."""
    return abs(change / base - 1) <= WORK


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


# What follows judges pairs of processes by their order; nothing new uses it.
RESAMPLES = 999
FEWEST = 6  # rounds that can show a difference: with fewer, even one that all of them see has p > 1 - CONFIDENCE
# standard deviation of the logarithm of step times over processes: two of them differ by 7 % in the median (docs/study.md)
BETWEEN_PROCESSES = 0.073
EXACT = 14  # rounds up to which the test goes through every way of swapping the arms


FASTEST = Quantity("fastest step", "s", 0.03, "slower", "faster")
CPU_TIME = Quantity("CPU time", "s", 0.03, "more CPU time", "less CPU time")


class Verdict(NamedTuple):
    """Change against base. `base` and `change` are medians over processes, in the quantity's unit."""

    quantity: str
    unit: str
    base: float
    change: float
    ratio: float  # change / base: median over the rounds
    low: float  # 95 % interval of the ratio
    high: float
    p: float  # how likely such a difference is if the arms' names mean nothing; with n rounds at least 2 / 2**n
    minimum: float  # the relative difference that matters
    rounds: int
    verdict: str  # the quantity's `more` or `less`, "no difference", or "undecided"


def times(base: Sequence[Sequence[float]], change: Sequence[Sequence[float]], minimum: float = TIME.minimum) -> Verdict:
    """Compares median step times: of each arm a list of seconds per process, in the order of the rounds.

    Raises ValueError as `judge` does.
    """
    return judge([float(np.median(p)) for p in base], [float(np.median(p)) for p in change], TIME._replace(minimum=minimum))


def peaks(base: Sequence[float], change: Sequence[float], minimum: float = PEAK.minimum) -> Verdict:
    """Compares peaks: of each arm one number of bytes per process. Raises ValueError as `judge` does."""
    return judge(base, change, PEAK._replace(minimum=minimum))


def judge(base: Sequence[float], change: Sequence[float], quantity: Quantity) -> Verdict:
    """Compares one value per process; `base[i]` and `change[i]` are of the same round.

    Raises ValueError for fewer than two rounds, arms of unequal length, and values that are not positive numbers.
    """
    if len(base) != len(change) or len(base) < 2:
        raise ValueError(
            f"a comparison takes two rounds or more, each with both arms; got {len(base)} and {len(change)} values"
        )
    arms = np.array([base, change], dtype=float)
    if not ((arms > 0) & np.isfinite(arms)).all():
        raise ValueError(f"{quantity.name}: not all values are positive numbers: {list(base)}, {list(change)}")
    logs = np.log(arms[1]) - np.log(arms[0])
    low, high, p = *interval(logs), chance(logs)
    b, c = np.median(arms, axis=1)
    ratio, below, above = (float(np.exp(x)) for x in (np.median(logs), low, high))
    return Verdict(
        quantity.name, quantity.unit, float(b), float(c), ratio, below, above, float(p), quantity.minimum, len(logs),
        str(decide(low, high, p, quantity)),
    )  # fmt: skip


def interval(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bootstrap 95 % interval of the median over the last axis: rounds are resampled (percentile method, Efron 1979)."""
    from scipy import stats

    found = stats.bootstrap(
        (logs,), np.median, axis=-1, confidence_level=CONFIDENCE, n_resamples=RESAMPLES, method="percentile", rng=0
    ).confidence_interval
    return found.low, found.high


def spread(samples: Sequence[float]) -> tuple[float, float]:
    """Bootstrap 95 % interval of the median of one process's samples, as `interval` but quick: tables ask for thousands.

    It says how steady the process was, and nothing about other processes. Raises ValueError without samples.
    """
    if not samples:
        raise ValueError("no samples have no interval")
    ordered = sorted(samples)
    one, two = lower_end(len(ordered))
    return (ordered[one] + ordered[two]) / 2, (ordered[-1 - one] + ordered[-1 - two]) / 2


@cache
def lower_end(size: int) -> tuple[int, int]:
    """Ranks of the samples whose mean is the lower end of the interval (one sample twice, for an odd size); the upper end
    mirrors it. They are the middle ones of `size` ranks drawn with replacement, at 2.5 % of RESAMPLES such draws in the order
    of their sums: ranks can be drawn once for all values.
    """
    drawn = np.sort(np.random.default_rng(0).integers(0, size, (RESAMPLES, size)), axis=1)
    pairs = sorted(zip(drawn[:, (size - 1) // 2].tolist(), drawn[:, size // 2].tolist()), key=sum)
    return pairs[round((1 - CONFIDENCE) / 2 * (RESAMPLES + 1)) - 1]


def chance(logs: np.ndarray) -> np.ndarray:
    """Two-sided p of Wilcoxon's signed-rank test over the last axis (1945; for pairs what Mann and Whitney's is for samples).

    By permutation, so that ties and zeros, which peaks have, need no approximation. `scipy.stats.wilcoxon` gives the same p up
    to 12 rounds, in a thousand times the time where there are ties, and beyond 13 approximates them.
    """
    from scipy.stats import rankdata

    ranks = rankdata(np.abs(logs), axis=-1) * np.sign(logs)
    swapped = np.abs(ranks @ swaps(logs.shape[-1]).T)
    return (swapped >= np.abs(ranks.sum(axis=-1, keepdims=True)) - 1e-9).mean(axis=-1)


@cache
def swaps(rounds: int) -> np.ndarray:
    """Signs, a row for each way of swapping the arms of rounds: all of them, or of many a random part with that of no swap."""
    if rounds <= EXACT:
        return 1.0 - 2 * (np.arange(2**rounds)[:, None] >> np.arange(rounds) & 1)
    drawn = np.random.default_rng(0).choice((-1.0, 1.0), (2**EXACT, rounds))
    drawn[0] = 1
    return drawn


def decide(low: np.ndarray, high: np.ndarray, p: np.ndarray, quantity: Quantity) -> np.ndarray:
    """Verdicts from intervals of log ratios, the tests beside them, and the quantity's minimum effect."""
    limit, seen = np.log1p(quantity.minimum), p <= 1 - CONFIDENCE + 1e-9
    cases = [(low > limit) & seen, (high < -limit) & seen, (-limit <= low) & (high <= limit)]
    return np.select(cases, [quantity.more, quantity.less, "no difference"], "undecided")
