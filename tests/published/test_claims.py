"""The numbers behind every published verdict are those of the committed files, read without the
ledger.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from framebench.analysis.results import Results
from framebench.claims.claim import Measurement
from framebench.claims.ledger import Entry, make_ledger
from framebench.claims.lines import Line, applies
from framebench.claims.measures import is_ratio
from framebench.claims.registry import REGISTRY
from framebench.claims.samples import PEAK
from tests.processes import ROOT
from tests.record_files import load_fields

MACHINES = sorted(path.name for path in (ROOT / "results" / "records").iterdir())
PINNED = {"torch": "torch-2.13.0", "jax": "jax-0.10.2", "jittor": "jittor-1.3.11.0"}
INSTRUMENTS = ("allocator.in_use", "compiler.plan", "host.rss")


@cache
def load_entries(machine: str) -> list[Entry]:
    return make_ledger(Results(ROOT / "results"), machine)


def list_measurements(machine: str) -> list[tuple[Entry, Line, Measurement]]:
    """Return what the machine's ledger says of each measurement that applies to a CPU."""
    measurements = []
    for entry, claim in zip(load_entries(machine), REGISTRY.claims, strict=True):
        own_lines = [line for line in entry.lines if not line.on_other_gpu]
        applying = [one for one in claim.measurements if applies(one, "cpu")]
        for line, measurement in zip(own_lines, applying, strict=True):
            measurements.append((entry, line, measurement))
    return measurements


@cache
def load_release(machine: str, release: str) -> list[dict[str, Any]]:
    """Return the records of a machine with a release, from old to new; empty if it has none."""
    file = ROOT / "results" / "records" / machine / f"{release}.jsonl"
    if not file.exists():
        return []
    return sorted(load_fields(file), key=lambda fields: fields["provenance"]["measured_at"])


@cache
def load_records(machine: str, case: str, protocol: int) -> list[dict[str, Any]]:
    """Return a case's ok records of the pinned release and one protocol, under no limit.

    They are those of the commit that measured last.
    """
    records = []
    for record in load_release(machine, PINNED[case.split("/")[1]]):
        origin = record["provenance"]
        is_free = origin.get("memory_limit") is None and origin["protocol"] == protocol
        if record["case"] == case and record["status"] == "ok" and is_free:
            records.append(record)
    last = records[-1]["provenance"]["commit"]
    return [record for record in records if record["provenance"]["commit"] == last]


def read_peaks(machine: str, case: str, protocol: int) -> tuple[str, list[int]]:
    """Return the instrument, and the peaks of all steps by it."""
    records = [r for r in load_records(machine, case, protocol) if r["peak_samples"]]
    available = [name for name in INSTRUMENTS if name in records[-1]["peaks"]]
    instrument = available[0]
    peaks = []
    for record in records:
        for step in record["peak_samples"]:
            if instrument in step:
                peaks.append(step[instrument])
    return instrument, peaks


def widen_peaks(peaks: list[int], instrument: str) -> tuple[float, float]:
    """Return the ends of what the peaks may have been, by the resolution of the instrument."""
    if instrument != "host.rss":
        return min(peaks), max(peaks)
    return min(peaks) * 0.995 - 2**17, max(peaks) * 1.005 + 2**17


@pytest.mark.parametrize("machine", MACHINES)
def test_peaks_agree_with_the_record_files(machine: str) -> None:
    checked = 0
    measured = 0
    for entry, line, measurement in list_measurements(machine):
        measure = measurement.measure
        if line.value is None:
            continue
        measured += not line.planned and not measure.probe
        if not is_ratio(measure) or measure.quantity is not PEAK:
            continue
        base_case, change_case = measure.list_cases("cpu")
        base_instrument, base = read_peaks(machine, base_case.id, entry.protocol)
        instrument, change = read_peaks(machine, change_case.id, entry.protocol)
        assert base_instrument == instrument, line.id
        base_low, base_high = widen_peaks(base, instrument)
        low, high = widen_peaks(change, instrument)
        assert line.value == pytest.approx(max(change) / max(base)), line.id
        assert line.low == pytest.approx(low / base_high), line.id
        assert line.high == pytest.approx(high / base_low), line.id
        checked += 1
    assert checked >= 0.3 * measured
