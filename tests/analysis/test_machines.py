"""What each machine measured, counted from its records."""

from __future__ import annotations

import pytest

from framebench.analysis.frames import make_rows
from framebench.analysis.reports.machines import compare_machines, make_table
from framebench.analysis.results import Results
from tests.fake_records import make_crash_without_version, make_measured
from tests.record_files import add_records

MIB = 2**20


@pytest.mark.parametrize(("blocks", "curves"), [(2, "0"), (3, "1")])
def test_a_curve_of_throughput_has_intervals(tmp_path, blocks, curves):
    """Two of the batches are timed in three blocks, and the third in so many."""
    for batch, block_count in ((4, 3), (8, 3), (16, blocks)):
        for _ in range(block_count):
            add_records(tmp_path, make_measured("fp32", MIB, batch=batch))
    table = make_table(Results(tmp_path))
    (row,) = (dict(zip(table.head, cells)) for cells in table.rows)
    assert (row["timed"], row["peak at 3 batches"]) == ("3", "1")
    assert row["throughput at 3 batches"] == curves


def test_machines_stand_side_by_side_by_instrument_and_release():
    """A GPU's peak is no CPU's, and another release is another row; a crash has no number."""
    records = [make_measured("fp32", 10 * MIB, 0.1, batch=batch) for batch in (4, 16)]
    for machine, version, device, instrument in (
        ("old", "0.9", "cpu", "host.rss"),
        ("slow", "1", "cpu", "host.rss"),
        ("tall", "1", "H200", "allocator.in_use"),
    ):
        hardware = {"cpu": "x", "device": device}
        origin = {"machine": machine, "versions": {"torch": version}, "hardware": hardware}
        records.append(make_measured("fp32", 20 * MIB, 0.3, instrument=instrument, origin=origin))
    records.append(make_crash_without_version("checkpoint"))

    on_gpu, on_cpus, times = compare_machines(make_rows(records))

    case, larger = (f"transformer/torch/train/fp32/b{batch}/tiny" for batch in (4, 16))
    assert on_gpu.title == "Peaks by allocator.in_use, in MiB"
    assert on_gpu.head == ("case", "release", "tall")
    assert on_gpu.rows == ((case, "1", "20.0"),)
    assert on_cpus.title == "Peaks by host.rss, in MiB"
    assert on_cpus.head == ("case", "release", "m", "old", "slow")
    assert on_cpus.rows == (
        (case, "1", "10.0", "-", "20.0"),
        (case, "0.9", "-", "20.0", "-"),
        (larger, "1", "10.0", "-", "-"),
    )
    assert times.head == ("case", "release", "m", "old", "slow", "tall")
    assert times.rows == (
        (case, "1", "100.0", "-", "300.0", "300.0"),
        (case, "0.9", "-", "300.0", "-", "-"),
        (larger, "1", "100.0", "-", "-", "-"),
    )
