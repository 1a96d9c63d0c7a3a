"""Effects from what probes found (`framebench/measure/claim_probes.py` says what each measures)."""

from __future__ import annotations

import numpy as np
from scipy import stats

from analysis.claims.measures import Nothing
from analysis.claims.rule import Effect
from analysis.statistics import CONFIDENCE, RESAMPLES

Found = dict[str, list[float]]


def median_ratio(change: list[float], base: list[float]) -> Effect:
    """Median over the rounds of the ratio within each, with a bootstrap interval over the rounds (percentile method)."""
    pairs = np.array(change) / np.array(base)
    found = stats.bootstrap(
        (pairs,), np.median, confidence_level=CONFIDENCE, n_resamples=RESAMPLES, method="percentile", rng=0
    ).confidence_interval
    return Effect(float(np.median(pairs)), float(found.low), float(found.high))


def resident_memory(found: Found) -> Effect:
    """Bytes by which resident memory grew: memory-mapped / list."""
    return median_ratio(found["mapped_resident"], found["listed_resident"])


def private_memory(found: Found) -> Effect:
    """The same for memory that belongs to the process alone, which the kernel cannot take back."""
    return median_ratio(found["mapped_private"], found["listed_private"])


def overhead(found: Found) -> Effect:
    """By how much the monitored step is slower, at most: a step that is faster has no overhead."""
    ratio = median_ratio(found["watched_s"], found["alone_s"])
    return Effect(*(max(0.0, x - 1) for x in ratio))


def seen(found: Found) -> Effect:
    """The most that the thread saw / the kernel's high-water mark, over the steps."""
    return median_ratio(found["seen_bytes"], found["peak_bytes"])


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
