"""What others measured: that each row is read as it is, and is either a program or has a reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from framebench.devices import catalog
from studies.published_peaks import programs, rules
from studies.published_peaks.rows import XMEM, Row, beside_the_pool, read

MIB = 2**20


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read()


def xmem(**changes: object) -> Row:
    """A row of xMem's."""
    told = {
        "source": XMEM,
        "link": "a file",
        "card": "NVIDIA GeForce RTX 3060 12 GB",
        "framework": "PyTorch",
        "framework_version": "2.6.0",
        "model": "openai-community/gpt2",
        "batch": "35",
        "sequence": "<=128 (dynamic)",
        "optimizer": "AdamW lr 1e-3",
        "precision": "fp32",
        "strategy": "eager",
        "quantity": "nvml_process",
        "bytes": 1000 * MIB,
        "estimates": {"xMem": 900.0 * MIB},
        "note": "zero_grad_mode=null; re-run capped at the xMem estimate: 1029701632 B",
    }
    return Row(**(told | changes))  # type: ignore[arg-type]


def test_rows_are_many_and_no_two_have_one_key(rows: list[Row]) -> None:
    assert len(rows) == len({row.key for row in rows}) > 150
    assert all(row.bytes > 0 for row in rows)


def test_no_folder_has_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path) == []


def test_every_row_is_a_program_or_has_a_reason(rows: list[Row]) -> None:
    written = {
        row.key: programs.program(row)
        for row in rows
        if row.source in programs.WRITTEN and "nf4" not in row.precision
    }
    assert len(written) > 85
    assert all(catalog.find(found.device) for found in written.values())
    assert all(
        rules.family(row) and rules.trust(row) in ("high", "good")
        for row in rows
        if row.key in written
    )
    for row in rows:
        if row.key not in written:
            with pytest.raises(programs.Unwritten, match=r"\w+ \w+"):
                programs.program(row)


def test_what_is_said_of_sources_that_have_no_row_is_nothing(rows: list[Row]) -> None:
    assert {row.source for row in rows} == {*programs.UNWRITTEN, *programs.WRITTEN}
    assert rules.TRUST.keys() <= {row.source for row in rows}


def test_what_lies_beside_the_pool_is_what_most_pairs_of_runs_differ_by(rows: list[Row]) -> None:
    assert beside_the_pool(rows) == {
        "NVIDIA GeForce RTX 3060 12 GB": 18 * MIB,
        "NVIDIA GeForce RTX 4060 8 GB": 14 * MIB,
    }
    assert beside_the_pool([xmem()]) == {"NVIDIA GeForce RTX 3060 12 GB": 18 * MIB}


def test_images_have_no_say_in_it() -> None:
    """Their first sample came when some of the weights were there."""
    assert beside_the_pool([xmem(sequence="")]) == {}


@pytest.mark.parametrize(
    ("mode", "position"),
    [("null", "start"), ("0", "start"), ("1", "before backward"), ("2", "end")],
)
def test_where_gradients_are_dropped(mode: str, position: str) -> None:
    assert programs.program(xmem(note=f"zero_grad_mode={mode};")).zero_grad == position


@pytest.mark.parametrize(("mode", "takes"), [("null", False), ("0", True), ("2", True)])
def test_programs_that_record_no_position_leave_cublas_no_workspace(mode: str, takes: bool) -> None:
    """CUBLAS_WORKSPACE_CONFIG=:0:0, in the authors' programs before the last."""
    assert programs.program(xmem(note=f"zero_grad_mode={mode};")).blas_takes == takes


def test_a_row_of_text_is_cut_where_its_authors_cut() -> None:
    found = programs.program(xmem())
    assert (found.loop, found.model, found.length, found.batch, found.optimizer) == (
        "text",
        "gpt2",
        128,
        35,
        "AdamW",
    )


def test_a_lower_bound_is_no_estimate() -> None:
    assert xmem(note="DNNMem stopped at the card limit: lower bound").lower_bounds == {"DNNMem"}
    assert xmem().lower_bounds == set()


def test_a_source_that_nobody_looked_at_is_not_written() -> None:
    with pytest.raises(programs.Unwritten):
        programs.program(replace(xmem(), source="hearsay"))
