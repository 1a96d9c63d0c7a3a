"""What each machine measured, counted from its records."""

from __future__ import annotations

from framebench.analysis.frames import make_rows
from framebench.analysis.reports.machines import compare_machines
from tests.fake_records import make_crash_without_version, make_measured

MIB = 2**20


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
