"""Effects from what probes found (`framebench/claims/measure.py` says what each measures)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

from framebench.analysis.statistics import compare_blocks
from framebench.claims.measures import Nothing
from framebench.claims.rule import Effect
from framebench.claims.samples import mean

Found = dict[str, list[float]]
PAGE = 4096.0  # bytes: memory grows by no less, and a ratio of nothing is none


def _of_rounds(ratios: list[float]) -> Effect:
    """Mean of the logarithms over rounds, each of a fresh process, with Student's interval. Raises Nothing."""
    if min(ratios) <= 0:
        raise Nothing(f"{min(ratios):g} is no ratio")
    mean_ratio = compare_blocks([math.log(ratio) for ratio in ratios])
    if mean_ratio.low is None or mean_ratio.high is None:
        return Effect(mean_ratio.value, -math.inf, math.inf)
    return Effect(mean_ratio.value, mean_ratio.low, mean_ratio.high)


def _quotients(change: list[float], base: list[float]) -> Effect:
    return _of_rounds([c / b for c, b in zip(change, base, strict=True)])


def resident_memory(readings: Found) -> Effect:
    """Bytes by which resident memory grew: memory-mapped / list."""
    return _quotients(readings["mapped_resident"], readings["listed_resident"])


def left_memory(readings: Found) -> Effect:
    """The same, when the kernel was asked to take back what it can."""
    return _quotients([max(left, PAGE) for left in readings["mapped_left"]], readings["listed_left"])


def private_memory(readings: Found) -> Effect:
    """The same for memory that belongs to the process alone, which the kernel cannot take back."""
    return _quotients([max(grown, PAGE) for grown in readings["mapped_private"]], readings["listed_private"])


def overhead(readings: Found) -> Effect:
    """By how much the monitored step is slower; below zero where it was faster."""
    return Effect(*(x - 1 for x in _of_rounds(readings["watched_over_alone"])))


def seen(readings: Found) -> Effect:
    """The most that the thread saw / the kernel's high-water mark, over the steps."""
    return _of_rounds(readings["seen_over_peak"])


def collected_every_2(readings: Found) -> Effect:
    """Bytes that the process grew to: collected every second step / never. Raises Nothing where nothing was collected."""
    return _against_never("gc_every_2", readings)


def collected_by_python(readings: Found) -> Effect:
    """The same, when Python's collector runs as it likes; in so few steps it need not run at all."""
    return _quotients(readings["fp32_bytes"], readings["gc_off_bytes"])


def _against_never(strategy: str, readings: Found) -> Effect:
    if max(readings["gc_off_collections"]) or not min(readings[f"{strategy}_collections"]):
        raise Nothing("the collector ran where it was off, or did not where it was called")
    return _quotients(readings[f"{strategy}_bytes"], readings["gc_off_bytes"])


def counted(values: list[float]) -> Effect:
    return Effect(values[-1], min(values), max(values))


def lost(readings: Found) -> Effect:
    """Samples that never arrived. Raises Nothing if memory did not run out: then nothing was shown."""
    if not min(readings["recoveries"]):
        raise Nothing("memory did not run out within the limit, so nothing had to be halved")
    return counted(readings["lost"])


def halvings(readings: Found) -> Effect:
    """How often memory ran out and the batch was halved."""
    return counted(readings["recoveries"])


def over(change: str, base: str) -> Callable[[Found], Effect]:
    """The ratio of two of a probe's numbers."""

    def ratio(readings: Found) -> Effect:
        return _quotients(readings[change], readings[base])

    return ratio


def saved(change: str, base: str) -> Callable[[Found], Effect]:
    """What the one saves of the other, as a share."""

    def share_saved(readings: Found) -> Effect:
        ratio = _quotients(readings[change], readings[base])
        return Effect(1 - ratio.value, 1 - ratio.high, 1 - ratio.low)

    return share_saved


def of_all(name: str) -> Callable[[Found], Effect]:
    """The median of a count, from the smallest to the largest that a fresh process found."""

    def median(readings: Found) -> Effect:
        return Effect(statistics.median(readings[name]), min(readings[name]), max(readings[name]))

    return median


def _mean(values: list[float]) -> Effect:
    """Of amounts, which may be nothing or less: their mean over fresh processes, with Student's interval."""
    estimated = mean(values)
    return Effect(estimated.value, estimated.low, estimated.high)


def amount(name: str, less: str = "") -> Callable[[Found], Effect]:
    """The mean of one of a probe's numbers, or of what it has more than another of the same process."""

    def average(readings: Found) -> Effect:
        others = readings[less] if less else [0.0] * len(readings[name])
        return _mean([value - other for value, other in zip(readings[name], others, strict=True)])

    return average


def off_from(right: float, name: str) -> Callable[[Found], Effect]:
    """The relative error of a number."""

    def error(readings: Found) -> Effect:
        return _mean([abs(value / right - 1) for value in readings[name]])

    return error


def ran(readings: Found) -> Effect:
    """1: a listing that came to its end has printed numbers."""
    return Effect(*[float(bool(readings))] * 3)


def difference(change: str, base: str) -> Callable[[Found], Effect]:
    """Of two counts, of which one may be none."""

    def less(readings: Found) -> Effect:
        differences = [c - b for c, b in zip(readings[change], readings[base], strict=True)]
        return Effect(statistics.median(differences), min(differences), max(differences))

    return less


def counts_over(change: str, base: str) -> Callable[[Found], Effect]:
    """The ratio of two counts, which one process tells exactly."""

    def ratio(readings: Found) -> Effect:
        if not min(readings[base]):
            raise Nothing(f"{base} is nothing, and a ratio of it none")
        ratios = [c / b for c, b in zip(readings[change], readings[base], strict=True)]
        return Effect(statistics.median(ratios), min(ratios), max(ratios))

    return ratio
