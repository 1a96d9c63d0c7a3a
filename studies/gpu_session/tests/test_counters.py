"""The table of what a GPU's records count."""

from __future__ import annotations

from framebench.suite.selectors import parse
from studies.gpu_session import counters
from tests.fake_records import provenance, record

H200 = {"cpu": "x", "device": "NVIDIA H200"}
NVML = {"before": {"name": "NVIDIA H200"}, "after": {}}


def test_the_table_of_a_gpu_shows_what_was_counted() -> None:
    on_card = record(
        parse("resnet50/torch/train/tf32/b64/full"),
        step_s=[0.05],
        device_step_s=[0.048],
        synced_step_s=[0.06],
        energy_j_per_step=30.0,
        peaks={"allocator.in_use": 2**30, "allocator.reserved": 3 * 2**29, "device.process": 2**31},
        allocator={"context_bytes": 2**29, "alloc_retries": 0},
        provenance=provenance(hardware=H200, gpu=NVML),
    )
    on_cpu = record(step_s=[1.0])
    (row,) = counters.table([on_card, on_cpu]).rows
    shown = dict(zip(counters.HEAD, row))
    assert [
        shown[k] for k in ("in use", "cold", "reserved", "process", "context", "split", "retries")
    ] == [
        "1,024.0",
        "-",
        "1,536.0",
        "2,048.0",
        "512.0",
        "-",
        "0",
    ]
    assert [shown[k] for k in ("step ms", "synced ms", "device ms", "J/step")] == [
        "50.00",
        "60.00",
        "48.00",
        "30.00",
    ]
    assert shown["MFU"] == f"{64 * 3 * 8.178e9 / 0.05 / 494.5e12:.1%}"


def test_why_a_process_is_missing_stands_in_the_notes() -> None:
    hidden = record(
        step_s=[1.0],
        provenance=provenance(gpu=NVML | {"device.process": "NVML lists <no> processes here"}),
    )
    assert "NVML lists &lt;no> processes here" in counters.table([hidden]).markdown()
