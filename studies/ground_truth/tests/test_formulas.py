"""Published formulas against our counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.analysis import frames
from framebench.analysis.lower_bound import count_korthikanti_bytes
from framebench.records.record_base import parse_case
from framebench.suite.selectors import parse
from studies.ground_truth import formulas
from tests.fake_records import provenance, record
from tests.sample_records import read_sample

H200 = {"cpu": "x", "device": "NVIDIA H200"}


@pytest.mark.parametrize(("batch", "size"), [(1, "cpu"), (16, "cpu"), (8, "full"), (2, "full-1b")])
def test_our_lower_bound_is_the_published_formula_less_dropout(batch: int, size: str) -> None:
    """Two independent lists of tensors, to the byte, where the scores are stored."""
    case = parse_case(f"transformer/torch/train/attention_plain/b{batch}/{size}")
    assert formulas.counted_bytes(case) == count_korthikanti_bytes(case)
    fused = parse_case(f"transformer/torch/train/fp32/b{batch}/{size}")
    assert formulas.counted_bytes(fused) < count_korthikanti_bytes(fused)


def test_the_published_formula_by_hand() -> None:
    """GPT-3 as the paper has it: s 2048, b 1, h 12288, a 96:

    34 + 5 a s / h = 114 bytes per token and feature.
    """
    case = parse("transformer/torch/train/fp32/b4/cpu")
    c = case.config
    assert formulas.published_bytes(case) == c.layers * 4 * c.length * (
        34 * c.width + 5 * c.heads * c.length
    )


def test_sixteen_bytes_per_parameter() -> None:
    # the example of Rajbhandari et al. (2020), section 3.1
    assert formulas.mixed_precision_adam(7_500_000_000) == 120e9


def test_without_a_card_nothing_is_claimed() -> None:
    for found in ([], read_sample()):
        rows = formulas.speeds(frames.make_frame(found)).rows
        assert len(rows) == len(formulas.SPEEDS)
        assert {row[4] for row in rows} == {formulas.NOT_HERE}


def test_a_record_of_the_same_card_stands_beside(tmp_path: Path) -> None:
    ours = record(
        parse("resnet50/torch/train/tf32/b64/full"),
        step_s=[0.04],
        provenance=provenance(hardware=H200),
    )
    other = record(
        parse("resnet50/jax/train/tf32/b64/full"),
        step_s=[0.01],
        provenance=provenance(hardware=H200),
    )
    rows = {row[:3]: row for row in formulas.speeds(frames.make_frame([ours, other])).rows}
    assert rows[formulas.LAMBDA, "H200", "tf32"][4:6] == (
        "1,600 (tf32, batch 64)",
        f"{1600 / 2259:.2f}",
    )
    assert rows[formulas.NVIDIA, "A100", "tf32"][4] == formulas.NOT_HERE
