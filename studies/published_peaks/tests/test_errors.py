"""Errors as tables, from predictions made by hand."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from studies.published_peaks import errors as table
from studies.published_peaks import judged, programs, rows
from studies.published_peaks.errors import Held
from studies.published_peaks.judged import Judged
from studies.published_peaks.tests.test_rows import MIB, xmem


def prediction(**changes: Any) -> Judged:
    row = xmem()
    told: dict[str, Any] = {
        "row": row.key,
        "source": row.source,
        "model": row.model,
        "program": asdict(programs.program(row)),
        "allocated_bytes": 900 * MIB,
        "reserved_bytes": 1002 * MIB,
        "predicted_at": datetime(2026, 11, 26, tzinfo=UTC),
        "commit": None,
        "wall_s": 1.0,
    }
    return Judged(**(told | changes))


def beside(
    row: rows.Row,
    predicted: int | None,
    why_not: str | None = None,
    otherwise_bytes: int | None = None,
) -> Held:
    return Held(row, programs.program(row), predicted, why_not, otherwise_bytes=otherwise_bytes)


def test_a_prediction_is_held_in_the_quantity_of_its_row() -> None:
    assert prediction().predicted_bytes(beside=18 * MIB) == 1020 * MIB
    for quantity, expected in (("allocated", 900), ("reserved", 1002)):
        one = prediction(program=asdict(programs.program(xmem())) | {"quantity": quantity})
        assert one.predicted_bytes(beside=18 * MIB) == expected * MIB


def test_a_new_prediction_is_said_in_the_numbers_of_the_table() -> None:
    row = xmem()
    held = table.compare_row(row, programs.program(row), prediction(), {row.card: 18 * MIB})
    said = table.describe_row(held)
    (cells,) = pd.DataFrame(table.row_by_row([held]).data).itertuples(index=False)
    for cell in ("1,000", "1,020", "+2.0%"):  # measured, predicted, error
        assert cell in cells
        assert cell in said
    failed = beside(row, None, "does not fit")
    assert table.describe_row(failed) == "failed: does not fit"


def test_a_prediction_is_written_as_it_is_read(tmp_path: Path) -> None:
    """Files of before have a fingerprint of the sources, and no later file has."""
    row, made = xmem(), prediction()
    judged.write(tmp_path, made, row)
    assert judged.read(tmp_path, row) == made
    assert "code" not in json.loads(judged.file(tmp_path, row).read_text())


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
    [
        ([0.1], 0.1),
        ([-0.3, 0.1], 0.3),
        ([i / 100 for i in range(1, 11)], 0.09),
        ([0.0] * 9 + [1.0], 0.0),
    ],
)
def test_nine_of_ten_errors_are_not_larger(errors: list[float], expected: float) -> None:
    assert table.ninth(errors) == pytest.approx(expected)


def test_every_row_is_in_the_table_whatever_its_error() -> None:
    held = [
        beside(xmem(), 5 * MIB),
        beside(xmem(batch="36"), None, "no shapes"),
        beside(xmem(batch="37"), 1000 * MIB),
    ]
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
        ("1", "1.0%", "0 of 1", "1.0%", "0 of 1"),
        ("1", "2.0%", "0 of 1", "0.1%", "1 of 1"),
    ]
    assert [row[2] for row in shown.rows] == ["with", "without"]


def test_either_setting_has_beside_it_what_libraries_hold(tmp_path: Path) -> None:
    judged.write(tmp_path, prediction(blas_otherwise_bytes=900 * MIB), row := xmem())
    (held,) = table.compare_rows(tmp_path, [row])
    assert (held.predicted_bytes, held.otherwise_bytes) == ((1002 + 18) * MIB, (900 + 18) * MIB)


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    row = xmem()
    assert judged.read(tmp_path, row) is None
    judged.write(tmp_path, prediction(), row)
    assert judged.read(tmp_path, row) == prediction()


def test_a_row_is_predicted_once_unless_again(tmp_path: Path) -> None:
    row = xmem()
    chosen = [(row, programs.program(row))]
    assert list(judged.pending(tmp_path, chosen, again=False)) == chosen
    judged.write(tmp_path, prediction(), row)
    assert list(judged.pending(tmp_path, chosen, again=False)) == []
    assert list(judged.pending(tmp_path, chosen, again=True)) == chosen


def test_a_failure_has_no_peak() -> None:
    with pytest.raises(ValueError, match="failed is no shapes"):
        prediction(failed="no shapes")
