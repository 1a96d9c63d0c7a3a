"""Simulated releases: a change of a known size is found, and equal releases raise no alarm.

`tests/asv/test_history.py` asks the same of asv's own page.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from framebench.analysis.statistics import PEAK, TIME
from framebench.records.record import Record
from framebench.suite.selectors import parse
from framebench.versions import bisect, judge
from framebench.versions.bisection_record import ReleaseResult
from framebench.versions.measure import BLOCKS
from tests.version_records import NEW, OLD, changed, larger, originals, rounds

RELEASES = ["0.8.0", "0.8.1", "0.9.0", "0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.2"]
RISES = (1.02, 1.05, 1.3)
# standard deviation of a peak's logarithm between equal processes, by the kernel's counter
PEAK_NOISE = 0.001
SIMULATED = 200


def with_host_peak(record: Record, noise: float) -> Record:
    """Return a record whose peak the kernel's counter read, which is not exact."""
    peak = record.peaks[record.peak_instrument or ""]
    return record.model_copy(update={"peaks": {"host.rss": round(peak * np.exp(noise))}})


def measure_releases(record: Record, changed_at: int, rise: float) -> list[Record]:
    """Return a record of each of RELEASES, whose peaks are larger from one of them on."""
    noises = np.random.default_rng(changed_at).normal(0, PEAK_NOISE, len(RELEASES))
    records = []
    for number, version in enumerate(RELEASES):
        of_release = changed(record, versions={"jax": version}, session=version)
        noisy = with_host_peak(of_release, noises[number])
        records.append(larger(noisy, rise) if number >= changed_at else noisy)
    return records


@pytest.mark.parametrize("rise", RISES)
@pytest.mark.parametrize("changed_at", range(1, len(RELEASES)))
def test_a_rise_of_a_peak_is_found_at_its_release(changed_at: int, rise: float) -> None:
    records = []
    for original in originals():
        records += measure_releases(original, changed_at, rise)

    regressions: Counter[tuple[str, str]] = Counter()
    for rows in judge.compare_successive(records):
        for row in rows:
            if row.verdict == judge.REGRESSION:
                regressions[row.change, row.quantity] += 1

    assert regressions == {(f"jax=={RELEASES[changed_at]}", PEAK.name): len(originals())}


@pytest.mark.parametrize("rise", RISES)
@pytest.mark.parametrize("changed_at", range(1, len(RELEASES)))
def test_bisection_names_the_release_of_a_rise(changed_at: int, rise: float) -> None:
    noise = np.random.default_rng(changed_at)

    def measure(release: str) -> ReleaseResult:
        mib = 100.0 * (rise if RELEASES.index(release) >= changed_at else 1.0)
        values = mib * np.exp(noise.normal(0, PEAK_NOISE, bisect.PROCESSES))
        return ReleaseResult(release=release, values=tuple(values), instrument="host.rss")

    case = parse("unet3d/jax/train/fp32/b4/cpu")
    found = bisect.bisect_releases(case, "peak", PEAK.minimum, RELEASES, measure)

    assert (found.outcome, found.first) == ("found", RELEASES[changed_at])


def measure_equal_releases(record: Record, seed: int) -> list[Record]:
    """Return blocks of two releases that differ by noise; peaks are read in the first block."""
    noises = np.random.default_rng(seed).normal(0, PEAK_NOISE, 2)
    base, change, *later = rounds(record, BLOCKS, seed=seed)
    with_peaks = [with_host_peak(base, noises[0]), with_host_peak(change, noises[1])]
    return with_peaks + [other.model_copy(update={"peaks": {}}) for other in later]


def test_two_hundred_equal_releases_raise_at_most_one_alarm() -> None:
    """Each release is a page of several cases, whose processes differ by noise alone."""
    cases = originals()
    alarms: Counter[str] = Counter()
    for release in range(SIMULATED):
        records = []
        for number, original in enumerate(cases):
            records += measure_equal_releases(original, release * len(cases) + number)
        rows = judge.compare_versions(records, OLD, NEW)
        alarms.update({row.quantity for row in rows if row.verdict == judge.REGRESSION})

    assert alarms[PEAK.name] <= 1
    assert alarms[TIME.name] <= 1
