"""Simulated releases: a change of a known size is found, and equal releases raise no alarm.

`tests/asv/test_history.py` asks the same of asv's own page.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from framebench.analysis.statistics import PEAK, TIME
from framebench.records.record import Record
from framebench.versions import judge
from framebench.versions.measure import BLOCKS
from tests.fake_records import change_provenance
from tests.version_records import NEW, OLD, make_version_blocks, select_originals

RELEASES = ["0.8.0", "0.8.1", "0.9.0", "0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.2"]
# standard deviation of a peak's logarithm between equal processes, by the kernel's counter
PEAK_NOISE = 0.001
SIMULATED = 200


def set_host_peak(record: Record, factor: float) -> Record:
    """Return a record whose peak the kernel's counter read, which is not exact."""
    peak = record.peaks[record.peak_instrument]
    return record.model_copy(update={"peaks": {"host.rss": round(peak * factor)}})


@pytest.mark.parametrize("rise", [1.02, 1.05, 1.3])
@pytest.mark.parametrize("changed_at", range(1, len(RELEASES)))
def test_a_rise_of_a_peak_is_found_at_its_release(changed_at, rise):
    records = []
    for original in select_originals():
        noise = np.random.default_rng(changed_at)
        for number, version in enumerate(RELEASES):
            factor = np.exp(noise.normal(0, PEAK_NOISE)) * (rise if number >= changed_at else 1)
            record = change_provenance(original, versions={"jax": version}, session=version)
            records.append(set_host_peak(record, factor))

    regressions = Counter()
    for rows in judge.compare_successive(records):
        for row in rows:
            if row.verdict == judge.REGRESSION:
                regressions[row.change, row.quantity] += 1

    assert regressions == {(f"jax=={RELEASES[changed_at]}", PEAK.name): len(select_originals())}


def test_two_hundred_equal_releases_raise_at_most_one_alarm():
    """Each release is a page of several cases, whose processes differ by noise alone; peaks are
    read in the first block.
    """
    cases = select_originals()
    alarms = Counter()
    for release in range(SIMULATED):
        records = []
        for number, original in enumerate(cases):
            seed = release * len(cases) + number
            noise = np.random.default_rng(seed).normal(0, PEAK_NOISE, 2)
            base, change, *later = make_version_blocks(original, BLOCKS, seed=seed)
            records.append(set_host_peak(base, np.exp(noise[0])))
            records.append(set_host_peak(change, np.exp(noise[1])))
            for record in later:
                records.append(record.model_copy(update={"peaks": {}}))
        rows = judge.compare_versions(records, OLD, NEW)
        regressions = {row.quantity for row in rows if row.verdict == judge.REGRESSION}
        alarms.update(regressions)  # a release counts once for each quantity

    assert alarms[PEAK.name] <= 1
    assert alarms[TIME.name] <= 1
