"""The table of planted bugs says which were seen, in what, and how clearly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from studies.planted_bugs import mutants
from tests.mutants.outcomes import Campaign, Row, read


def line(
    bug: str,
    status: str,
    margin: float | None = None,
    equivalent: str = "",
    framework: str = "torch",
    size: str = "tiny",
) -> Row:
    case = f"transformer/{framework}/train/fp32/b4/{size}"
    about = {
        "bug": bug,
        "case": case,
        "precision": "fp32",
        "equivalent": equivalent,
        "reason": "why" if status == "wrong" else "",
    }
    return Row(**about, status=status, by="loss_0", margin=margin, seconds=1.0, key="")


LINES = [
    line("", "ok", 0.25),
    line("", "ok", 0.5, framework="jax"),
    line("eps", "wrong", 1234.5),
    line("mask", "wrong", 3.0),
    line("NaN", "wrong"),
    line("constant", "ok", 0.25, equivalent="it cancels"),
    line("hole", "ok", 0.9),
    line("gelu", "wrong", 17.0, framework="jax"),
]
ABOUT = {
    "measured_at": "2026-11-22T10:00:00+00:00",
    "commit": None,
    "dirty": True,
    "machine": "vm",
    "protocol": 3,
}
FOUND = Campaign.model_validate(ABOUT | {"cases": 8, "bugs": LINES})


def test_each_frameworks_bugs_are_counted_by_what_came_of_them() -> None:
    table = mutants.counts(FOUND)
    assert table.rows == (
        ("JAX", "fp32", "1", "1", "0", "0", "0", "17"),
        ("PyTorch", "fp32", "5", "3", "1", "0", "1", "3"),
        ("all", "", "6", "4", "1", "0", "1", "3"),
    )
    assert (
        "2 cases without any bug: 2 pass, the largest error 0.5 of its tolerance" in table.caption
    )
    assert "no commit with uncommitted changes" in table.caption


def test_each_bug_has_its_row() -> None:
    torch, jax, jittor = mutants.listed(FOUND)
    assert torch.rows == (
        ("eps", "transformer/torch/train/fp32", "wrong", "loss_0", "1,234"),
        ("mask", "transformer/torch/train/fp32", "wrong", "loss_0", "3"),
        ("NaN", "transformer/torch/train/fp32", "wrong", "loss_0", "-"),
        ("constant", "transformer/torch/train/fp32", "ok (equivalent)", "", "-"),
        ("hole", "transformer/torch/train/fp32", "ok", "", "-"),
    )
    assert torch.notes == ("constant: equivalent, since it cancels",)
    assert (len(jax.rows), len(jittor.rows)) == (1, 0)


def test_the_tables_are_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mutants.json"
    assert mutants.comparisons(file) == []
    file.write_text(FOUND.model_dump_json())
    assert [table.title for table in mutants.comparisons(file)][:2] == [
        "Bugs that were planted in the source",
        "Bugs planted in PyTorch",
    ]


@pytest.mark.parametrize("change", [{"margin": float("nan")}, {"status": None}, {"colour": "red"}])
def test_a_file_of_another_form_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "mutants.json"
    rows = [json.loads(LINES[0].model_dump_json()) | change]
    file.write_text(json.dumps(ABOUT | {"cases": 1, "bugs": rows}))
    with pytest.raises(ValidationError, match=next(iter(change))):
        read(file)
