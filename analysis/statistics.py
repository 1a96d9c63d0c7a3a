"""Is one arm slower than the other, or does it need more memory? From rounds: one fresh process of each arm, back to back.

- The process is the unit. Steps of one process share its memory layout, its core and its minute, so that more steps do not
  stand in for more processes (Kalibera and Jones 2013, "Rigorous benchmarking in reasonable time"). Each gives one value.
- The round is the block. A machine that drifts changes both arms of a round alike; what counts is the ratio within a round.
- The ratio is the median over the rounds: about one round in ten strays by 10 % and more, and must not decide.
- Logarithms of ratios are compared, so that swapping the arms inverts every result.
- A difference is claimed if its interval lies beyond a minimum effect and a rank test finds it too (the bootstrap alone is too
  bold with few rounds); its absence, if the interval stays within the minimum effect. In between it is undecided.

How often this errs, and how many rounds it needs: docs/study.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 999
FEWEST = 6  # rounds that can show a difference: with fewer, even one that all of them see has p > 1 - CONFIDENCE
# standard deviation of the logarithm of step times over processes: two of them differ by 7 % in the median (docs/study.md)
BETWEEN_PROCESSES = 0.073
EXACT = 14  # rounds up to which the test goes through every way of swapping the arms


class Quantity(NamedTuple):
    """What is compared, and how much of a difference matters."""

    name: str
    unit: str
    minimum: float  # relative; smaller differences are none
    more: str
    less: str


TIME = Quantity("step time", "s", 0.03, "slower", "faster")
FASTEST = Quantity("fastest step", "s", 0.03, "slower", "faster")
CPU_TIME = Quantity("CPU time", "s", 0.03, "more CPU time", "less CPU time")
PEAK = Quantity("peak memory", "bytes", 0.01, "more memory", "less memory")


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
    ranks = stats.rankdata(np.abs(logs), axis=-1) * np.sign(logs)
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
