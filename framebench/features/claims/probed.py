"""Effects from what probes found (`framebench/features/claims/measure.py` says what each measures)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

from framebench.analysis.statistics import over_blocks
from framebench.features.claims.measures import Nothing
from framebench.features.claims.rule import Effect

Found = dict[str, list[float]]
PAGE = 4096.0  # bytes: memory grows by no less, and a ratio of nothing is none


def of_rounds(ratios: list[float]) -> Effect:
    """Mean of the logarithms over rounds, each of a fresh process, with Student's interval. Raises Nothing."""
    if min(ratios) <= 0:
        raise Nothing(f"{min(ratios):g} is no ratio")
    found = over_blocks([math.log(ratio) for ratio in ratios])
    if found.low is None or found.high is None:
        return Effect(found.value, -math.inf, math.inf)
    return Effect(found.value, found.low, found.high)


def quotients(change: list[float], base: list[float]) -> Effect:
    return of_rounds([c / b for c, b in zip(change, base, strict=True)])


def resident_memory(found: Found) -> Effect:
    """Bytes by which resident memory grew: memory-mapped / list."""
    return quotients(found["mapped_resident"], found["listed_resident"])


def private_memory(found: Found) -> Effect:
    """The same for memory that belongs to the process alone, which the kernel cannot take back."""
    return quotients([max(grown, PAGE) for grown in found["mapped_private"]], found["listed_private"])


def batches_read(found: Found) -> Effect:
    """Of a data set twice as large as the memory that the process may have: batches read, memory-mapped / kept in a list."""
    return quotients(found["mapped_batches"], found["listed_batches"])


def overhead(found: Found) -> Effect:
    """By how much the monitored step is slower, at most: a step that is faster has no overhead."""
    return Effect(*(max(0.0, x - 1) for x in of_rounds(found["watched_over_alone"])))


def seen(found: Found) -> Effect:
    """The most that the thread saw / the kernel's high-water mark, over the steps."""
    return of_rounds(found["seen_over_peak"])


def collected_every_2(found: Found) -> Effect:
    """Bytes that the process grew to: collected every second step / never. Raises Nothing where nothing was collected."""
    return against_never("gc_every_2", found)


def collected_every_1(found: Found) -> Effect:
    """The same, collected after every step."""
    return against_never("gc_every_1", found)


def collected_by_python(found: Found) -> Effect:
    """The same, when Python's collector runs as it likes; in so few steps it need not run at all."""
    return quotients(found["fp32_bytes"], found["gc_off_bytes"])


def against_never(strategy: str, found: Found) -> Effect:
    if max(found["gc_off_collections"]) or not min(found[f"{strategy}_collections"]):
        raise Nothing("the collector ran where it was off, or did not where it was called")
    return quotients(found[f"{strategy}_bytes"], found["gc_off_bytes"])


def batch_norm(found: Found) -> Effect:
    """Bytes that a step of a small 3-D network adds: with nn.BatchNorm3d / without."""
    return quotients(found["batch_norm"], found["plain"])


def counted(values: list[float]) -> Effect:
    return Effect(values[-1], min(values), max(values))


def lost(found: Found) -> Effect:
    """Samples that never arrived. Raises Nothing if memory did not run out: then nothing was shown."""
    if not min(found["recoveries"]):
        raise Nothing("memory did not run out within the limit, so nothing had to be halved")
    return counted(found["lost"])


def halvings(found: Found) -> Effect:
    """How often memory ran out and the batch was halved."""
    return counted(found["recoveries"])


def over(change: str, base: str) -> Callable[[Found], Effect]:
    """The ratio of two of a probe's numbers."""

    def ratio(found: Found) -> Effect:
        return quotients(found[change], found[base])

    return ratio


def saved(change: str, base: str) -> Callable[[Found], Effect]:
    """What the one saves of the other, as a share."""

    def share_saved(found: Found) -> Effect:
        ratio = quotients(found[change], found[base])
        return Effect(1 - ratio.value, 1 - ratio.high, 1 - ratio.low)

    return share_saved


def of_all(name: str) -> Callable[[Found], Effect]:
    """The median of one of a probe's numbers, from the smallest to the largest that a fresh process found."""

    def median(found: Found) -> Effect:
        return Effect(statistics.median(found[name]), min(found[name]), max(found[name]))

    return median


def off_from(right: float, name: str) -> Callable[[Found], Effect]:
    """The relative error of a number."""

    def error(found: Found) -> Effect:
        errors = [abs(value / right - 1) for value in found[name]]
        return Effect(statistics.median(errors), min(errors), max(errors))

    return error
