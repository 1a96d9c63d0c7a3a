"""Tables are made from records alone, keep every row, and cannot be broken by what a record contains."""

from __future__ import annotations

from html import escape

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from analysis import tables
from analysis.comparison import Comparison
from framebench.records.record import Record
from framebench.suite.case import Case
from tests.handmade import died, frame, made, provenance, record


def test_ratios_refer_to_the_baseline_of_the_same_framework_and_batch() -> None:
    table = frame(
        made("fp32", 200, 1.0), made("checkpoint", 100, 1.5), made("fp32", 50, 1.0, "jax"), made("fp32", 400, 9.0, batch=8)
    )
    ratio = table.set_index("case")["peak_ratio"]
    assert ratio["transformer/torch/train/checkpoint/b4/tiny"] == 0.5
    assert ratio["transformer/jax/train/fp32/b4/tiny"] == 1.0


def test_peaks_of_two_instruments_have_no_ratio() -> None:
    table = frame(made("fp32", 200, 1.0), made("checkpoint", 100, 1.5, instrument="allocator.in_use"))
    row = table.set_index("strategy").loc["checkpoint"]
    assert pd.isna(row["peak_ratio"])
    assert row["time_ratio"] == 1.5


def test_numbers_of_two_protocols_have_no_ratio() -> None:
    base, later = made("fp32", 200, 1.0), made("checkpoint", 100, 1.5)
    later = later.model_copy(update={"provenance": provenance(versions={"torch": "1"}, protocol=2)})
    row = frame(base, later).set_index("strategy").loc["checkpoint"]
    assert row[["peak_ratio", "time_ratio", "break_even_steps"]].isna().all()


@pytest.mark.parametrize(("minutes", "device", "ratio"), [(60, "cpu", 1.5), (61, "cpu", None), (61, "NVIDIA H200", 1.5)])
def test_times_on_a_processor_have_no_ratio_where_hours_lie_between(minutes: int, device: str, ratio: float | None) -> None:
    def at(minute: int, record: Record) -> Record:
        moment = f"2026-06-01T{minute // 60:02}:{minute % 60:02}:00Z"
        origin = provenance(measured_at=moment, versions={"torch": "1"}, hardware={"device": device})
        return record.model_copy(update={"provenance": origin})

    row = (
        frame(at(0, made("fp32", 200, 1.0)), at(minutes, made("checkpoint", 100, 1.5))).set_index("strategy").loc["checkpoint"]
    )
    assert row["peak_ratio"] == 0.5
    assert row["time_ratio"] == ratio or (ratio is None and pd.isna(row["time_ratio"]))


@pytest.mark.parametrize(
    ("first", "step", "steps"),
    [(3.0, 0.5, "4"), (3.0, 2.0, "never"), (3.0, 0.95, "-"), (3.0, 1.05, "-"), (0.5, 0.5, "-"), (1.05, 0.5, "-")],
)
def test_a_break_even_needs_more_than_processes_differ_by(first: float, step: float, steps: str) -> None:
    compiled = made("compile", 200, step).model_copy(update={"first_step_s": first})
    row = frame(made("fp32", 200, 1.0), compiled).set_index("strategy").loc["compile"]
    assert tables.steps(row["break_even_steps"]) == steps


def test_a_contended_record_without_another_says_so() -> None:
    origin = provenance(versions={"torch": "1"}, threads=1)
    alone = made("fp32", 300, 1.0).model_copy(update={"cpu_s_per_step": 0.5, "provenance": origin})
    waiting = alone.model_copy(update={"shares": {"wait": 0.5}})
    (said,), (silent,) = (tables.strategies(frame(one)) for one in (alone, waiting))
    assert said.notes == ("torch fp32: a step took 2.00 times its CPU time: others used the core, and its time is too long",)
    assert silent.notes == ()


def test_what_only_tests_a_claim_has_tables_of_its_own() -> None:
    table = frame(made("fp32", 2**30, 1.0), made("checkpoint", 2**29, 1.0), made("depth_4", 2**28, 1.0))
    (main,), (arms,) = tables.strategies(tables.used(table)), tables.claim_arms(table)
    assert [row[1] for row in main.rows] == ["fp32", "checkpoint"]
    assert [row[1:4] for row in arms.rows] == [("fp32", "1.000", "1.00"), ("depth_4", "0.250", "0.25")]
    assert main.title != arms.title
    assert list(tables.claim_arms(tables.used(table))) == []


def test_rows_without_a_number_stay_with_their_reason() -> None:
    case = Case("transformer", "torch", "train", "rewrite", 4, "tiny")
    lost = record(case, status="oom", reason="memory ran out", provenance=provenance(versions={"torch": "1"}))
    (comparison,) = tables.strategies(frame(made("fp32", 2**30, 1.0), lost))
    assert comparison.rows[0][2:5] == ("1.000", "1.00", "1,000.0")
    assert comparison.rows[1][:3] == ("torch", "rewrite", "oom")
    assert comparison.notes == ("torch rewrite: oom: memory ran out",)
    assert "memory ran out" in comparison.markdown()
    assert "threads" in comparison.caption


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_markdown_cells_cannot_break_out(text: str) -> None:
    table = Comparison.of_text("t", text, ("a", "b"), ((text, "x"),))
    lines = table.markdown().split("\n")
    assert lines[2] == "| a | b |"
    assert "<" not in lines[4]
    unescaped = lines[4].replace("\\\\", "").replace("\\|", "")
    assert unescaped.count("|") == 3


@pytest.mark.parametrize("text", ["[red]x", "[/]", "\x1b[31m", "a|b"])
def test_terminal_takes_any_text(text: str) -> None:
    console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
    Comparison.of_text("t", "c", ("a",), ((text,),)).terminal(console)
    assert text.replace("\x1b", "").strip("[]/") in console.export_text() or "\x1b" in text


def test_a_table_keeps_its_values_and_prints_them_by_column() -> None:
    (comparison,) = tables.strategies(frame(made("fp32", 2**30, 1.0), made("checkpoint", 2**29, 1.5)))
    assert comparison.data["peak_bytes"].tolist() == [2**30, 2**29]
    assert comparison.data["time_ratio"].tolist() == [1.0, 1.5]
    assert [row[2:4] for row in comparison.rows] == [("1.000", "1.00"), ("0.500", "0.50")]
    assert comparison.head[2:4] == ("peak GiB", "x base")


@settings(deadline=None)  # pandas compiles its template when it is first asked
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1))
def test_a_notebook_shows_the_same_cells_and_no_markup_of_theirs(text: str) -> None:
    shown = Comparison.of_text(text, "", ("a", "a"), ((text, "1"), ("x", "2")))
    page = shown._repr_html_()
    assert page == shown._repr_html_(), "the same bytes for the same table"
    assert escape(text) in page
    assert "<script" not in page.lower()


def test_rows_without_a_version_stand_beside_those_with_one() -> None:
    (comparison,) = tables.strategies(frame(made("fp32", 200, 1.0), died()))
    assert [row[1:3] for row in comparison.rows] == [("checkpoint", "crashed"), ("fp32", "0.000")]
