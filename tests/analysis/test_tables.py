"""Tables are made from records alone, keep every row, and cannot be broken by what a record
contains.
"""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from framebench.analysis import tables
from framebench.analysis.comparison import MIB, Comparison
from framebench.analysis.flops import count_step_flops
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION
from tests.fake_records import CASE, blocks, frame, made, provenance, record


def test_ratios_refer_to_the_baseline_of_the_same_framework_and_batch() -> None:
    table = frame(
        made("fp32", 200, 1.0),
        made("checkpoint", 100, 1.5),
        made("fp32", 50, 1.0, "jax"),
        made("fp32", 400, 9.0, batch=8),
    )
    ratio = table.set_index("case")["peak_ratio"]
    assert ratio["transformer/torch/train/checkpoint/b4/tiny"] == 0.5
    assert ratio["transformer/jax/train/fp32/b4/tiny"] == 1.0


def test_what_is_compiled_is_compared_with_the_same_without_the_compiler() -> None:
    found = (
        made("fp32", 200, 1.0),
        made("compile", 220, 1.0),
        made("compile_step", 210, 1.0),
        made("memory_budget", 190, 1.0),
        made("checkpoint", 100, 1.5),
        made("amp_bf16+checkpoint+compile", 90, 1.0),
    )
    ratio = frame(*found).set_index("strategy")["eager_ratio"]
    assert list(ratio[["compile", "compile_step", "memory_budget"]]) == [1.1, 1.05, 0.95], (
        "over the baseline"
    )
    assert ratio[["fp32", "checkpoint"]].isna().all(), "not compiled"
    assert pd.isna(ratio["amp_bf16+checkpoint+compile"]), (
        "the same without the compiler was not measured"
    )
    ratio = frame(*found, made("amp_bf16+checkpoint", 60, 1.5)).set_index("strategy")["eager_ratio"]
    assert ratio["amp_bf16+checkpoint+compile"] == 1.5


def test_peaks_of_two_instruments_have_no_ratio() -> None:
    table = frame(
        made("fp32", 200, 1.0), made("checkpoint", 100, 1.5, instrument="allocator.in_use")
    )
    assert pd.isna(table.set_index("strategy").loc["checkpoint"]["peak_ratio"])


def test_numbers_of_two_protocols_share_no_table() -> None:
    base, later = made("fp32", 200, 1.0), made("checkpoint", 100, 1.5)
    newer = provenance(versions={"torch": "1"}, protocol=VERSION + 1)
    later = later.model_copy(update={"provenance": newer})
    assert list(frame(base, later)["strategy"]) == ["checkpoint"]
    assert frame(base, later)[["peak_ratio", "time_ratio", "torch_ratio"]].isna().all(axis=None)


CHECKPOINT = Case("transformer", "torch", "train", "checkpoint", 4, "tiny")
JAX = Case("transformer", "jax", "train", "fp32", 4, "tiny")
TIMES = [
    (CASE, [[1.0, 1.1, 1.2], [1.2, 1.2, 1.2], [1.0, 1.0, 1.0]]),
    (CHECKPOINT, [[1.5, 1.65, 1.8], [1.81, 1.81, 1.81], [1.49, 1.5, 1.51]]),
    (JAX, [[2.0, 2.2, 2.4], [2.4, 2.4, 2.4], [2.01, 2.01, 2.01]]),
]


def test_a_row_has_the_ratios_of_its_blocks() -> None:
    table = frame(*blocks(TIMES, peaks=[100, 50, 300], instructions=10**9)).set_index("case")
    row, jax = table.loc[CHECKPOINT.id], table.loc[JAX.id]
    assert row["time_ratio"] == pytest.approx(1.5, rel=0.01)
    assert row["time_ratio_low"] < 1.5 < row["time_ratio_high"]
    assert row["time_ratio_p"] < 0.001
    assert (row["blocks"], row["samples"], row["instructions_per_step"]) == (3, 9, 1e9)
    assert (row["peak_ratio"], row["peak_bytes"], row["cold_peak_bytes"]) == (0.5, 50, 100)
    assert (row["step_time_s"], row["step_low_s"], row["step_high_s"]) == (1.65, 1.5, 1.81)
    assert jax["time_ratio"] == 1, "of its own framework"
    assert jax["torch_ratio"] == pytest.approx(2.0, rel=0.01)
    flops = count_step_flops(CASE) or 0
    assert table.loc[CASE.id]["reference_share"] == pytest.approx(flops / 1.1 / (1e9 / 0.05))


def test_times_that_share_no_block_have_no_ratio() -> None:
    (comparison,) = tables.make_strategy_tables(
        frame(made("fp32", 200, 1.0), made("checkpoint", 100, 1.5))
    )
    column = list(tables.SHOWN).index("relative")
    assert [(row[3], row[column]) for row in comparison.rows] == [("1.00", "1.00"), ("0.50", "-")]


def test_the_newest_record_without_times_leaves_those_of_earlier_blocks() -> None:
    timed = [r.model_copy(update={"shares": {"wait": 0.25}}) for r in blocks(TIMES[:2])]
    (row,) = [r for r in timed if r.parsed == CHECKPOINT][-1:]
    later = row.provenance.model_copy(
        update={"measured_at": row.provenance.measured_at.replace(year=2027)}
    )
    untimed = row.model_copy(
        update={"step_s": [], "shares": {}, "turns": None, "provenance": later}
    )
    found = frame(*timed, untimed).set_index("case").loc[CHECKPOINT.id]
    assert (found["blocks"], found["wait_share"]) == (3, 0.25)


def test_what_only_tests_a_claim_has_tables_of_its_own() -> None:
    table = frame(
        made("fp32", 2**30, 1.0), made("checkpoint", 2**29, 1.0), made("depth_4", 2**28, 1.0)
    )
    (main,), (arms,) = (
        tables.make_strategy_tables(tables.select_in_use(table)),
        tables.make_claim_tables(table),
    )
    assert [row[1] for row in main.rows] == ["fp32", "checkpoint"]
    assert [row[1:4] for row in arms.rows] == [
        ("fp32", "1,024.0", "1.00"),
        ("depth_4", "256.0", "0.25"),
    ]
    assert main.title != arms.title
    assert list(tables.make_claim_tables(tables.select_in_use(table))) == []


def test_rows_without_a_number_stay_with_their_reason() -> None:
    case = Case("transformer", "torch", "train", "rewrite", 4, "tiny")
    lost = record(
        case, status="oom", reason="memory ran out", provenance=provenance(versions={"torch": "1"})
    )
    (comparison,) = tables.make_strategy_tables(frame(made("fp32", 2**30, 1.0), lost))
    assert comparison.rows[0][2:6] == ("1,024.0", "1.00", "1.00", "64.0 tokens/s")
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


def on_card(framework: str, strategy: str, in_use: int, process: int | None) -> Record:
    """In MiB."""
    peaks = {"allocator.in_use": in_use * MIB} | (
        {"device.process": process * MIB} if process else {}
    )
    one = made(strategy, 1, 1.0, framework)
    return one.model_copy(
        update={"peaks": peaks, "provenance": provenance(hardware={"cpu": "x", "device": "a card"})}
    )


def test_on_a_card_frameworks_are_compared_by_nvml_and_strategies_by_the_own_counter() -> None:
    found = [
        on_card("torch", "fp32", 400, 1000),
        on_card("jax", "fp32", 400, 1600),
        on_card("jax", "checkpoint", 100, 1500),
    ]
    unseen = on_card("torch", "checkpoint", 200, None)
    (comparison,) = tables.make_strategy_tables(frame(*found, unseen))
    shown = {row[:2]: row[2:4] for row in comparison.rows}
    assert shown["torch", "fp32"] == ("1,000.0", "1.00")
    assert shown["jax", "fp32"] == ("1,600.0", "1.00")
    assert shown["jax", "checkpoint"] == ("1,500.0", "0.25"), "the pool hides what the step saves"
    assert shown["torch", "checkpoint"] == ("-", "0.50"), (
        "what NVML did not see has no number that compares frameworks"
    )
    assert comparison.head[2:4] == ("card MiB", "in use x base")
    assert comparison.caption.split(". ")[1] == (
        "MiB on the card by device.process, with the context and the framework's pool; in use by "
        "allocator.in_use"
    )


def test_a_product_on_the_host_is_no_reference_for_a_card() -> None:
    case = Case("resnet50", "torch", "train", "fp32", 8, "tiny")
    timed = blocks([(case, [[1.0] * 5])])[0].model_copy(update={"peaks": {"host.rss": MIB}})
    card = timed.model_copy(
        update={"provenance": provenance(hardware={"cpu": "x", "device": "a card"})}
    )
    assert frame(timed)["reference_share"].notna().all()
    assert frame(card)["reference_share"].isna().all()
    heads = [
        comparison.head
        for one in (timed, card)
        for comparison in tables.make_strategy_tables(frame(one))
    ]
    assert ["of reference" in head for head in heads] == [True, False]
