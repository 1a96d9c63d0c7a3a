"""Errors as tables, from predictions made by hand."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from framebench.features.devices.judge import judged, measured, programs, table
from framebench.features.devices.judge.judged import Judged
from framebench.features.devices.judge.table import Held
from framebench.features.devices.plans.version import PLANNER_VERSION
from tests.features.devices.judge.test_rows import MIB, xmem
from tests.processes import ROOT


def prediction(**changes: Any) -> Judged:
    row = xmem()
    told: dict[str, Any] = {
        "row": row.key, "source": row.source, "model": row.model, "program": asdict(programs.program(row)),
        "allocated_bytes": 900 * MIB, "reserved_bytes": 1002 * MIB, "code": "0",
        "predicted_at": datetime(2026, 11, 26, tzinfo=UTC), "commit": None, "wall_s": 1.0,
    }  # fmt: skip
    return Judged(**(told | changes))


def beside(row: measured.Row, predicted: int | None, why_not: str | None = None, otherwise_bytes: int | None = None) -> Held:
    return Held(row, programs.program(row), predicted, why_not, otherwise_bytes=otherwise_bytes)


def test_a_prediction_is_held_in_the_quantity_of_its_row() -> None:
    assert prediction().predicted_bytes(beside=18 * MIB) == 1020 * MIB
    for quantity, expected in (("allocated", 900), ("reserved", 1002)):
        one = prediction(program=asdict(programs.program(xmem())) | {"quantity": quantity})
        assert one.predicted_bytes(beside=18 * MIB) == expected * MIB


def test_an_error_has_a_sign() -> None:
    held = beside(xmem(), 1020 * MIB)
    assert held.error() == pytest.approx(0.02)
    assert held.error("xMem") == pytest.approx(-0.1)
    assert held.error("LLMem") is None


def test_a_row_without_prediction_counts_as_wholly_wrong() -> None:
    assert beside(xmem(), None, "does not fit").error() == 1.0


def test_a_lower_bound_is_left_out_of_its_estimators_errors() -> None:
    held = beside(xmem(note="xMem stopped at the card limit: lower bound"), 1020 * MIB)
    assert held.error("xMem") is None


@pytest.mark.parametrize(
    ("errors", "expected"),
    [([0.1], 0.1), ([-0.3, 0.1], 0.3), ([i / 100 for i in range(1, 11)], 0.09), ([0.0] * 9 + [1.0], 0.0)],
)
def test_nine_of_ten_errors_are_not_larger(errors: list[float], expected: float) -> None:
    assert table.ninth(errors) == pytest.approx(expected)


def test_every_row_is_in_the_table_whatever_its_error() -> None:
    held = [beside(xmem(), 5 * MIB), beside(xmem(batch="36"), None, "no shapes"), beside(xmem(batch="37"), 1000 * MIB)]
    shown = table.row_by_row(held)
    assert [row[7] for row in shown.rows] == ["-99.5%", "failed", "+0.0%"]
    assert len(shown.notes) == 1
    (family,) = table.by_family(held).rows
    assert family[:4] == ("GPT-2, DistilGPT2, Cerebras 111M", "good", "3", "99.5%")
    assert table.in_all(held).rows[0][1] == "3"


def test_rows_are_shown_with_and_without_workspaces_of_cublas() -> None:
    """Whichever of the two counts elsewhere, each column is of the same setting in every line."""
    without = beside(xmem(), 1001 * MIB, otherwise_bytes=1020 * MIB)
    with_ = beside(xmem(note="zero_grad_mode=0;"), 1010 * MIB, otherwise_bytes=990 * MIB)
    shown = table.of_blas([without, with_, beside(xmem(sequence=""), 5 * MIB)])
    assert [row[3:] for row in shown.rows] == [
        ("1", "1.0%", "0 of 1", "1.0%", "0 of 1"), ("1", "2.0%", "0 of 1", "0.1%", "1 of 1"),
    ]  # fmt: skip
    assert [row[2] for row in shown.rows] == ["with", "without"]


def test_either_setting_has_beside_it_what_libraries_hold(tmp_path: Path) -> None:
    judged.write(tmp_path, prediction(blas_otherwise_bytes=900 * MIB), row := xmem())
    (held,) = table._held(tmp_path, [row])
    assert (held.predicted_bytes, held.otherwise_bytes) == ((1002 + 18) * MIB, (900 + 18) * MIB)


def test_how_many_rows_are_equal_is_what_the_document_says() -> None:
    shown = next(one for one in table.of_folder(ROOT / "results") if one.title == "cuBLAS's workspaces in these rows")
    (equal,) = {row[-1] for row in shown.rows if row[:2] == ("text", "not recorded")}
    exact, rows = equal.split(" of ")
    text = " ".join((ROOT / "docs/devices.md").read_text().split())
    assert f"Without workspaces {exact} of these {rows} rows are what the card took" in text
    held = [one for one in table._held(ROOT / "results", measured.read(ROOT / "results")) if one.row.sequence]
    recorded = [one for one in held if one.row.source == measured.XMEM and one.program.blas_takes]
    higher = sum(one.row.bytes - (one.predicted_bytes or 0) == 16 * MIB for one in recorded)
    assert f"Of the {len(recorded)} rows of text that record it, {higher} are 16 MiB higher than predicted." in text


def test_how_close_predictions_are_is_what_readme_says() -> None:
    (said,) = (one for one in table.of_folder(ROOT / "results") if one.title == "Predictions against real cards")
    told = dict(zip(said.head, said.rows[0], strict=False))
    held = list(table._held(ROOT / "results", measured.read(ROOT / "results")))
    whole = table.with_workspaces(held)
    ninth = table.ninth([one.error() or 0.0 for one in whole])
    assert table.allowance(ROOT / "results") == ninth, "what advise allows for is the larger"
    other = f"{ninth:.1%}".replace("%", " %")
    document = " ".join((ROOT / "docs/devices.md").read_text().split())
    assert f"With workspaces in every row, nine of ten rows are within {other}" in document
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"Of {told['rows']} peaks that others measured on cards, nine of ten predictions are within {other}, and" in text


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    row = xmem()
    assert judged.read(tmp_path, row) is None
    judged.write(tmp_path, prediction(), row)
    assert judged.read(tmp_path, row) == prediction()


def test_a_row_is_predicted_anew_when_the_code_changed(tmp_path: Path) -> None:
    rows = [(row := xmem(), programs.program(row))]
    assert list(judged.pending(tmp_path, rows, again=False)) == rows
    judged.write(tmp_path, prediction(), row)
    assert list(judged.pending(tmp_path, rows, again=False)) == rows
    judged.write(tmp_path, prediction(code=str(PLANNER_VERSION)), row)
    assert list(judged.pending(tmp_path, rows, again=False)) == []
    assert list(judged.pending(tmp_path, rows, again=True)) == rows


def test_a_failure_has_no_peak() -> None:
    with pytest.raises(ValueError, match="failed is no shapes"):
        prediction(failed="no shapes")
