"""Published formulas against our counts, and the tables of what a GPU's records say."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.analysis import frames
from framebench.features.card import table as gpu
from framebench.features.ground_truth import table as ground_truth
from framebench.records.record import case_of
from framebench.suite.selectors import parse
from tests.handmade import provenance, record
from tests.material import records

H200 = {"cpu": "x", "device": "NVIDIA H200"}
NVML = {"before": {"name": "NVIDIA H200"}, "after": {}}


@pytest.mark.parametrize(("batch", "size"), [(1, "cpu"), (16, "cpu"), (8, "full"), (2, "full-1b")])
def test_our_lower_bound_is_the_published_formula_less_dropout(batch: int, size: str) -> None:
    """Two independent lists of tensors, to the byte, where the scores are stored."""
    case = case_of(f"transformer/torch/train/attention_plain/b{batch}/{size}")
    assert ground_truth.counted_bytes(case) == ground_truth.adjusted_bytes(case)
    fused = case_of(f"transformer/torch/train/fp32/b{batch}/{size}")
    assert ground_truth.counted_bytes(fused) < ground_truth.adjusted_bytes(fused)


def test_the_published_formula_by_hand() -> None:
    """GPT-3 as the paper has it: s 2048, b 1, h 12288, a 96: 34 + 5 a s / h = 114 bytes per token and feature."""
    case = parse("transformer/torch/train/fp32/b4/cpu")
    c = case.config
    assert ground_truth.published_bytes(case) == c.layers * 4 * c.length * (34 * c.width + 5 * c.heads * c.length)


def test_sixteen_bytes_per_parameter() -> None:
    assert ground_truth.mixed_precision_adam(7_500_000_000) == 120e9  # the example of Rajbhandari et al. (2020), section 3.1


def test_without_a_card_nothing_is_claimed() -> None:
    for found in ([], records()):
        rows = ground_truth.speeds(frames.frame(found)).rows
        assert len(rows) == len(ground_truth.SPEEDS)
        assert {row[4] for row in rows} == {ground_truth.NOT_HERE}


def test_a_record_of_the_same_card_stands_beside(tmp_path: Path) -> None:
    ours = record(parse("resnet50/torch/train/tf32/b64/full"), step_s=[0.04], provenance=provenance(hardware=H200))
    other = record(parse("resnet50/jax/train/tf32/b64/full"), step_s=[0.01], provenance=provenance(hardware=H200))
    rows = {row[:3]: row for row in ground_truth.speeds(frames.frame([ours, other])).rows}
    assert rows[ground_truth.LAMBDA, "H200", "tf32"][4:6] == ("1,600 (tf32, batch 64)", f"{1600 / 2259:.2f}")
    assert rows[ground_truth.NVIDIA, "A100", "tf32"][4] == ground_truth.NOT_HERE


def test_the_table_of_a_gpu_shows_what_was_counted() -> None:
    on_card = record(
        parse("resnet50/torch/train/tf32/b64/full"), step_s=[0.05], device_step_s=[0.048], synced_step_s=[0.06],
        energy_j_per_step=30.0,
        peaks={"allocator.in_use": 2**30, "allocator.reserved": 3 * 2**29, "device.process": 2**31},
        allocator={"context_bytes": 2**29, "alloc_retries": 0}, provenance=provenance(hardware=H200, gpu=NVML),
    )  # fmt: skip
    on_cpu = record(step_s=[1.0])
    (row,) = gpu.table([on_card, on_cpu]).rows
    shown = dict(zip(gpu.HEAD, row))
    assert [shown[k] for k in ("in use", "cold", "reserved", "process", "context", "split", "retries")] == [
        "1,024.0", "-", "1,536.0", "2,048.0", "512.0", "-", "0",
    ]  # fmt: skip
    assert [shown[k] for k in ("step ms", "synced ms", "device ms", "J/step")] == ["50.00", "60.00", "48.00", "30.00"]
    assert shown["MFU"] == f"{64 * 3 * 8.178e9 / 0.05 / 494.5e12:.1%}"


def test_why_a_process_is_missing_stands_in_the_notes() -> None:
    hidden = record(step_s=[1.0], provenance=provenance(gpu=NVML | {"device.process": "NVML lists <no> processes here"}))
    assert "NVML lists &lt;no> processes here" in gpu.table([hidden]).markdown()
