"""Tables are made from records alone, keep every row, and cannot be broken by what a record
contains.
"""

from __future__ import annotations

import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from framebench.analysis import tables
from framebench.analysis.flops import count_step_flops
from framebench.analysis.rendering import MIB, Table
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


COMPILED = (
    made("fp32", 200, 1.0),
    made("compile", 220, 1.0),
    made("compile_step", 210, 1.0),
    made("memory_budget", 190, 1.0),
    made("checkpoint", 100, 1.5),
    made("amp_bf16+checkpoint+compile", 90, 1.0),
)


def get_eager_ratios(*records: Record) -> pd.Series:
    """Return the peak over that of the same without the compiler, by strategy."""
    return frame(*records).set_index("strategy")["eager_ratio"]


def test_what_is_compiled_is_compared_with_the_same_without_the_compiler() -> None:
    ratios = get_eager_ratios(*COMPILED, made("amp_bf16+checkpoint", 60, 1.5))
    assert ratios["compile"] == 1.1
    assert ratios["compile_step"] == 1.05
    assert ratios["memory_budget"] == 0.95
    assert ratios["amp_bf16+checkpoint+compile"] == 1.5


def test_what_is_not_compiled_or_has_no_eager_peak_has_no_eager_ratio() -> None:
    ratios = get_eager_ratios(*COMPILED)
    assert ratios[["fp32", "checkpoint", "amp_bf16+checkpoint+compile"]].isna().all()


def test_peaks_of_two_instruments_have_no_ratio() -> None:
    table = frame(
        made("fp32", 200, 1.0), made("checkpoint", 100, 1.5, instrument="allocator.in_use")
    )
    assert table.set_index("strategy")["peak_ratio"].isna().to_dict() == {
        "fp32": False,
        "checkpoint": True,
    }


def test_numbers_of_two_protocols_share_no_table() -> None:
    newer = provenance(versions={"torch": "1"}, protocol=VERSION + 1)
    later = made("checkpoint", 100, 1.5).model_copy(update={"provenance": newer})
    table = frame(made("fp32", 200, 1.0), later)
    assert list(table["strategy"]) == ["checkpoint"]
    assert table[["peak_ratio", "time_ratio", "torch_ratio"]].isna().all(axis=None)


CHECKPOINT = Case("transformer", "torch", "train", "checkpoint", 4, "tiny")
JAX = Case("transformer", "jax", "train", "fp32", 4, "tiny")
TIMES = [
    (CASE, [[1.0, 1.1, 1.2], [1.2, 1.2, 1.2], [1.0, 1.0, 1.0]]),
    (CHECKPOINT, [[1.5, 1.65, 1.8], [1.81, 1.81, 1.81], [1.49, 1.5, 1.51]]),
    (JAX, [[2.0, 2.2, 2.4], [2.4, 2.4, 2.4], [2.01, 2.01, 2.01]]),
]


@pytest.fixture(scope="module")
def timed() -> pd.DataFrame:
    """Return the rows of TIMES by case."""
    return frame(*blocks(TIMES, peaks=[100, 50, 300], instructions=10**9)).set_index("case")


def test_a_row_has_the_ratio_of_its_blocks(timed: pd.DataFrame) -> None:
    row = timed.loc[CHECKPOINT.id]
    assert row["time_ratio"] == pytest.approx(1.5, rel=0.01)
    assert row["time_ratio_low"] < 1.5 < row["time_ratio_high"]
    assert row["time_ratio_p"] < 0.001


def test_a_row_summarizes_its_blocks(timed: pd.DataFrame) -> None:
    row = timed.loc[CHECKPOINT.id]
    assert (row["blocks"], row["samples"], row["instructions_per_step"]) == (3, 9, 1e9)
    assert (row["peak_ratio"], row["peak_bytes"], row["cold_peak_bytes"]) == (0.5, 50, 100)
    assert (row["step_time_s"], row["step_low_s"], row["step_high_s"]) == (1.65, 1.5, 1.81)


def test_a_baseline_has_a_ratio_to_that_of_pytorch(timed: pd.DataFrame) -> None:
    row = timed.loc[JAX.id]
    assert row["time_ratio"] == 1
    assert row["torch_ratio"] == pytest.approx(2.0, rel=0.01)


def test_a_row_has_its_rate_over_that_of_the_reference_matmul(timed: pd.DataFrame) -> None:
    work = count_step_flops(CASE)
    assert work is not None
    reference_rate = 1e9 / 0.05
    assert timed.loc[CASE.id]["reference_share"] == pytest.approx(work / 1.1 / reference_rate)


def test_times_that_share_no_block_have_no_ratio() -> None:
    (table,) = tables.make_strategy_tables(
        frame(made("fp32", 200, 1.0), made("checkpoint", 100, 1.5))
    )
    ratio = list(tables.SHOWN).index("relative")
    assert [(row[3], row[ratio]) for row in table.rows] == [("1.00", "1.00"), ("0.50", "-")]


def test_the_newest_record_without_times_leaves_those_of_earlier_blocks() -> None:
    records = [r.model_copy(update={"shares": {"wait": 0.25}}) for r in blocks(TIMES[:2])]
    last = records[-1]
    origin = last.provenance
    later = origin.model_copy(update={"measured_at": origin.measured_at.replace(year=2027)})
    untimed = last.model_copy(
        update={"step_s": [], "shares": {}, "turns": None, "provenance": later}
    )

    row = frame(*records, untimed).set_index("case").loc[last.case]

    assert (row["blocks"], row["wait_share"]) == (3, 0.25)


@pytest.fixture
def with_claims() -> pd.DataFrame:
    """Return rows of which `depth_4` only tests a claim."""
    return frame(
        made("fp32", 2**30, 1.0), made("checkpoint", 2**29, 1.0), made("depth_4", 2**28, 1.0)
    )


def test_strategies_only_for_claims_are_in_no_main_table(with_claims: pd.DataFrame) -> None:
    in_use = tables.select_in_use(with_claims)
    (main,) = tables.make_strategy_tables(in_use)
    assert [row[1] for row in main.rows] == ["fp32", "checkpoint"]
    assert list(tables.make_claim_tables(in_use)) == []


def test_strategies_only_for_claims_have_tables_of_their_own(with_claims: pd.DataFrame) -> None:
    (main,) = tables.make_strategy_tables(tables.select_in_use(with_claims))
    (table,) = tables.make_claim_tables(with_claims)
    assert [row[1:4] for row in table.rows] == [
        ("fp32", "1,024.0", "1.00"),
        ("depth_4", "256.0", "0.25"),
    ]
    assert table.title != main.title


def test_rows_without_a_number_stay_with_their_reason() -> None:
    case = Case("transformer", "torch", "train", "rewrite", 4, "tiny")
    lost = record(
        case, status="oom", reason="memory ran out", provenance=provenance(versions={"torch": "1"})
    )
    (comparison,) = tables.make_strategy_tables(frame(made("fp32", 2**30, 1.0), lost))
    assert comparison.rows[0][2:7] == ("1,024.0", "1.00", "1,075.2", "1.00", "64.0 tokens/s")
    assert comparison.rows[1][:3] == ("torch", "rewrite", "oom")
    assert comparison.notes == ("torch rewrite: oom: memory ran out",)
    assert "memory ran out" in comparison.markdown()
    assert "threads" in comparison.caption


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_markdown_cells_cannot_break_out(text: str) -> None:
    table = Table.of_text("t", text, ("a", "b"), ((text, "x"),))
    lines = table.markdown().split("\n")
    assert lines[2] == "| a | b |"
    assert "<" not in lines[4]
    unescaped = lines[4].replace("\\\\", "").replace("\\|", "")
    assert unescaped.count("|") == 3


@pytest.mark.parametrize("text", ["[red]x", "[/]", "a|b"])
def test_the_terminal_shows_text_from_records_as_it_is(text: str) -> None:
    console = Console(record=True, width=120, file=io.StringIO())
    Table.of_text("t", "c", ("a",), ((text,),)).terminal(console)
    assert text in console.export_text()


def test_the_terminal_takes_control_characters() -> None:
    console = Console(record=True, width=120, file=io.StringIO())
    Table.of_text("t", "c", ("a",), (("\x1b[31mx",),)).terminal(console)
    assert "x" in console.export_text()


GPU = {"cpu": "x", "device": "a GPU"}


def make_on_gpu(framework: str, strategy: str, in_use: int, process: int | None) -> Record:
    """Return a record with the peaks of the step and of the process in MiB."""
    peaks = {"allocator.in_use": in_use * MIB}
    if process is not None:
        peaks["device.process"] = process * MIB
    changes = {"peaks": peaks, "provenance": provenance(hardware=GPU)}
    return made(strategy, 1, 1.0, framework).model_copy(update=changes)


@pytest.fixture
def gpu_table() -> Table:
    """Return the table of a GPU where NVML did not see one process."""
    table = frame(
        make_on_gpu("torch", "fp32", 400, 1000),
        make_on_gpu("torch", "checkpoint", 200, None),
        make_on_gpu("jax", "fp32", 400, 1600),
        make_on_gpu("jax", "checkpoint", 100, 1500),
    )
    (comparison,) = tables.make_strategy_tables(table)
    return comparison


def test_on_a_gpu_peaks_are_the_process_s_and_ratios_the_framework_s(gpu_table: Table) -> None:
    """The pool of a process hides what a step saves."""
    assert gpu_table.head[2:4] == ("GPU MiB", "in use x base")
    assert {row[:2]: row[2:4] for row in gpu_table.rows} == {
        ("torch", "fp32"): ("1,000.0", "1.00"),
        ("torch", "checkpoint"): ("-", "0.50"),
        ("jax", "fp32"): ("1,600.0", "1.00"),
        ("jax", "checkpoint"): ("1,500.0", "0.25"),
    }


def test_the_caption_of_a_gpu_names_both_instruments(gpu_table: Table) -> None:
    assert "on the GPU by device.process" in gpu_table.caption
    assert "in use by allocator.in_use" in gpu_table.caption


@pytest.mark.parametrize(
    ("hardware", "has_share"), [({"cpu": "x", "device": "cpu"}, True), (GPU, False)]
)
def test_a_matmul_on_the_host_is_no_reference_for_a_gpu(
    hardware: dict[str, str], has_share: bool
) -> None:
    case = Case("resnet50", "torch", "train", "fp32", 8, "tiny")
    (timed,) = blocks([(case, [[1.0] * 5])], peaks=[MIB], hardware=hardware)

    rows = frame(timed)

    (table,) = tables.make_strategy_tables(rows)
    assert rows["reference_share"].notna().all() == has_share
    assert ("of reference" in table.head) == has_share
