"""Predictions of steps whose results were wrong on a GPU."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from framebench.devices.found_wrong import describe_wrong, find_wrong_on_gpus
from framebench.suite.selectors import parse
from tests import fake_records
from tests.record_files import add_records

WRONG = "unet3d/torch/train/amp_bf16/b2/full"
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def add_record(results: Path, case: str, status: str, device: str = "gpu", hours: int = 0) -> None:
    """Add a record of a case on machine m, as many hours after noon."""
    origin = fake_records.provenance(
        hardware={"cpu": "x", "device": device}, measured_at=NOON + timedelta(hours=hours)
    )
    verification = {} if status == "wrong" else fake_records.RIGHT
    record = fake_records.record(parse(case), status=status, provenance=origin, **verification)
    add_records(results, record)


def is_found_wrong(results: Path, case: str) -> bool:
    return bool(describe_wrong(parse(case), find_wrong_on_gpus(results)))


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (WRONG, True),
        ("unet3d/torch/train/amp_bf16/b4/full", True),
        ("unet3d/torch/train/amp_bf16+checkpoint/b2/full", True),
        ("unet3d/torch/train/fp32/b2/full", False),
        ("unet3d/jax/train/amp_bf16/b2/full", False),
        ("unet3d/torch/eval/amp_bf16/b2/full", False),
        ("unet3d/torch/train/amp_bf16/b4/cpu", False),
    ],
)
def test_a_wrong_strategy_is_wrong_in_combinations_too(tmp_path, case, expected):
    add_record(tmp_path, WRONG, "wrong")
    assert is_found_wrong(tmp_path, case) == expected


def test_a_wrong_baseline_says_nothing_of_other_strategies(tmp_path):
    add_record(tmp_path, "unet3d/torch/train/fp32/b2/full", "wrong")
    assert is_found_wrong(tmp_path, "unet3d/torch/train/fp32/b4/full")
    assert not is_found_wrong(tmp_path, "unet3d/torch/train/checkpoint/b2/full")


def test_the_newest_result_counts(tmp_path):
    add_record(tmp_path, WRONG, "ok", hours=1)
    add_record(tmp_path, WRONG, "wrong")
    assert not is_found_wrong(tmp_path, WRONG)
    add_record(tmp_path, WRONG, "wrong", hours=2)
    assert is_found_wrong(tmp_path, WRONG)


def test_a_result_of_a_cpu_says_nothing_of_gpus(tmp_path):
    add_record(tmp_path, WRONG, "wrong", device="cpu")
    assert not is_found_wrong(tmp_path, WRONG)
