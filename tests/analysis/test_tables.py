"""Tables are made from records alone, keep every row, and cannot be broken by what a record
contains.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framebench.analysis import tables
from framebench.analysis.flops import count_step_flops
from framebench.analysis.frames import make_rows
from framebench.analysis.rendering import MIB, Table
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.result import StrategyEffect, Verification
from tests.fake_records import CASE, change_provenance, make_blocks, make_frame, make_measured


def test_ratios_refer_to_the_baseline_of_the_same_framework_and_batch():
    table = make_frame(
        make_measured("fp32", 200),
        make_measured("checkpoint", 100, step=1.5),
        make_measured("fp32", 50, framework="jax"),
        make_measured("fp32", 400, step=9.0, batch=8),
        make_measured("checkpoint", 100, step=1.5, batch=8, instrument="allocator.in_use"),
    )
    ratio = table.set_index("case")["peak_ratio"]
    assert ratio["transformer/torch/train/checkpoint/b4/tiny"] == 0.5
    assert ratio["transformer/jax/train/fp32/b4/tiny"] == 1.0
    # peaks of two instruments have none
    assert pd.isna(ratio["transformer/torch/train/checkpoint/b8/tiny"])


@pytest.mark.parametrize(
    ("ratio", "size"),
    [
        ("peak_ratio", "peak_bytes"),
        ("shared_ratio", "shared_bytes"),
        ("relative_peak", "step_bytes"),
        ("needs_ratio", "needs_bytes"),
    ],
)
def test_a_ratio_divides_the_bytes_of_its_own_column(ratio, size):
    base_peaks = {"allocator.in_use": 200 * MIB, "host.rss": 300 * MIB}
    peaks = {"allocator.in_use": 50 * MIB, "host.rss": 100 * MIB}
    table = make_frame(
        make_measured("fp32", 1, peaks=base_peaks),
        make_measured("checkpoint", 1, peaks=peaks),
    ).set_index("strategy")

    quotient = table.loc["checkpoint", size] / table.loc["fp32", size]
    assert table.loc["checkpoint", ratio] == pytest.approx(quotient)


def test_compiled_strategies_are_compared_with_their_eager_ones():
    peaks = {
        "fp32": 200,
        "compile": 220,
        "compile_step": 210,
        "checkpoint": 100,
        "amp_bf16+checkpoint": 60,
        "amp_bf16+checkpoint+compile": 90,
        "amp_bf16+compile": 90,
    }
    table = make_frame(*(make_measured(strategy, peak) for strategy, peak in peaks.items()))
    ratios = table.set_index("strategy")["eager_ratio"]
    assert ratios.dropna().to_dict() == {
        "compile": 1.1,
        "compile_step": 1.05,
        "amp_bf16+checkpoint+compile": 1.5,
    }


CHECKPOINT = Case.from_id("transformer/torch/train/checkpoint/b4/tiny")
JAX = Case.from_id("transformer/jax/train/fp32/b4/tiny")
TIMES = [
    (CASE, [[1.0, 1.1, 1.2], [1.2, 1.2, 1.2], [1.0, 1.0, 1.0]]),
    (CHECKPOINT, [[1.5, 1.65, 1.8], [1.81, 1.81, 1.81], [1.49, 1.5, 1.51]]),
    (JAX, [[2.0, 2.2, 2.4], [2.4, 2.4, 2.4], [2.01, 2.01, 2.01]]),
]


@pytest.fixture(scope="module")
def timed() -> pd.DataFrame:
    """Return the rows of TIMES by case."""
    return make_frame(*make_blocks(TIMES, peaks=[100, 50, 300], instructions=10**9)).set_index(
        "case"
    )


def test_a_row_summarizes_its_blocks(timed):
    row = timed.loc[CHECKPOINT.id]
    assert row["time_ratio_low"] < 1.5 < row["time_ratio_high"]
    assert row["time_ratio_p"] < 0.001
    assert (row["blocks"], row["samples"], row["instructions_per_step"]) == (3, 9, 1e9)
    assert (row["peak_ratio"], row["peak_bytes"], row["cold_peak_bytes"]) == (0.5, 50, 100)
    assert (row["step_time_s"], row["step_low_s"], row["step_high_s"]) == (1.65, 1.5, 1.81)
    work = row["throughput"] * row["step_time_s"]  # of one step
    assert row["throughput_low"] == pytest.approx(work / row["step_high_s"])
    assert row["throughput_high"] == pytest.approx(work / row["step_low_s"])


def test_a_single_block_has_no_range():
    single = [(case, blocks[:1]) for case, blocks in TIMES]
    df = make_frame(*make_blocks(single, peaks=[100, 50, 300]))
    assert df["step_time_s"].notna().all()
    assert df["throughput"].notna().all()
    ends = df[["step_low_s", "step_high_s", "throughput_low", "throughput_high"]]
    assert ends.isna().all(axis=None)


OTHER_PEAKS: dict[str, dict[str, Any]] = {
    "another instrument": {"peaks": {"allocator.in_use": 900}},
    "another release": {"origin": {"versions": {"torch": "2"}}},
    "another machine": {"origin": {"machine": "n"}},
    "another device": {"origin": {"hardware": {"cpu": "x", "device": "a GPU"}}},
    "more threads": {"origin": {"threads": 2}},
    "an older protocol": {"origin": {"protocol": 1}},
    "a limit of memory": {"origin": {"memory_limit": 2**30}},
    "something planted": {"origin": {"planted": {"leak": 1.0}}},
    "a failure": {"status": "oom", "reason": "memory ran out"},
    "a wrong result": {"verification": Verification(passed=False, relative_error={"loss": 1.0})},
    "no visible effect": {"effect": StrategyEffect(proven=False, evidence={})},
    "another batch": {"batch": 8},
    "another size": {"size": "cpu"},
}


def make_session(name: str, peak: int, **changes: Any) -> Record:
    """Return a record of the baseline by a session; of several, later names are later sessions."""
    origin = {"session": name, "measured_at": f"2026-01-0{ord(name) - ord('a') + 1}T00:00:00Z"}
    origin |= changes.pop("origin", {})
    return make_measured("fp32", peak, origin=origin, **changes)


def test_a_row_has_the_lowest_and_highest_peak_of_its_sessions():
    (row,) = make_rows([make_session("a", 110), make_session("b", 90), make_session("c", 100)])
    assert row.step_bytes == 100
    assert (row.peak_sessions, row.step_low_bytes, row.step_high_bytes) == (3, 90, 110)


@pytest.mark.parametrize("other", OTHER_PEAKS.values(), ids=OTHER_PEAKS)
def test_peaks_that_cannot_be_compared_do_not_widen_a_range(other):
    sessions = [make_session("b", 90), make_session("c", 100)]
    rows = make_rows([make_session("a", 900, **other), *sessions])
    (row,) = [row for row in rows if row.step_bytes == 100]
    assert (row.peak_sessions, row.step_low_bytes, row.step_high_bytes) == (2, 90, 100)


def test_several_peaks_of_one_session_have_no_range():
    """A session that was resumed may have measured a case twice."""
    (row,) = make_rows([make_session("a", 90), make_session("a", 100)])
    assert (row.peak_sessions, row.step_low_bytes, row.step_high_bytes) == (1, None, None)


@pytest.mark.parametrize("name", ["a failure", "a wrong result", "no visible effect"])
def test_a_row_that_is_not_usable_has_no_sessions(name):
    sessions = [make_session("a", 90), make_session("b", 100)]
    (row,) = make_rows([*sessions, make_session("c", 900, **OTHER_PEAKS[name])])
    assert not row.usable
    assert (row.peak_sessions, row.step_low_bytes, row.step_high_bytes) == (0, None, None)


def test_a_baseline_has_a_ratio_to_that_of_pytorch(timed):
    row = timed.loc[JAX.id]
    assert row["time_ratio"] == 1
    assert row["torch_ratio"] == pytest.approx(2.0, rel=0.01)


def test_a_row_has_its_rate_over_that_of_the_reference_matmul(timed):
    work = count_step_flops(CASE)
    reference_rate = 1e9 / 0.05
    assert timed.loc[CASE.id]["reference_share"] == pytest.approx(work / 1.1 / reference_rate)


def test_a_table_names_the_commits_of_all_its_records():
    """A row's blocks may be of several commits, and its newest record of one."""
    first, *others = make_blocks([(CASE, [[1.0, 1.1, 1.2]] * 2)])
    rows = make_frame(change_provenance(first, commit="d" * 40), *others)
    assert rows["blocks"].tolist() == [2]
    assert rows["commit"].tolist() == ["c" * 40]
    assert f"at {'c' * 10}, {'d' * 10}." in tables.describe_conditions(rows)


def test_a_column_without_a_value_is_left_out():
    head = ("case", "name", "peak", "step")
    rows = [("a", "-", "1", "-"), ("b", "-", "-", "-")]
    table = Table.of_text("Title", "", head, rows)
    assert table.head == ("case", "name", "peak"), "the name says what a row is about"
    assert table.rows == (("a", "-", "1"), ("b", "-", "-"))
    assert Table.of_text("Title", "", head, []).head == head, "a table without rows"


def test_rows_without_a_number_stay_with_their_reason():
    lost = make_measured("rewrite", 0, status="oom", reason="memory ran out", peaks={}, step_s=[])
    (comparison,) = tables.make_strategy_tables(make_frame(make_measured("fp32", 2**30), lost))
    assert comparison.rows[0][2:7] == ("1,024.0", "1.00", "1,075.2", "1.00", "64.0 tokens/s")
    assert comparison.rows[1][:3] == ("torch", "rewrite", "oom")
    assert comparison.notes == ("torch rewrite: oom: memory ran out",)
    assert "memory ran out" in comparison.markdown()
    assert "threads" in comparison.caption


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_markdown_cells_cannot_break_out(text):
    table = Table.of_text("t", text, ("a", "b"), ((text, "x"),))
    lines = table.markdown().split("\n")
    assert lines[2] == "| a | b |"
    assert "<" not in lines[4]
    unescaped = lines[4].replace("\\\\", "").replace("\\|", "")
    assert unescaped.count("|") == 3


GPU = {"cpu": "x", "device": "a GPU"}


def make_on_gpu(framework: str, strategy: str, in_use: int, process: int | None) -> Record:
    """Return a record with the peaks of the step and of the process in MiB."""
    peaks = {"allocator.in_use": in_use * MIB}
    if process is not None:
        peaks["device.process"] = process * MIB
    return make_measured(strategy, 1, framework=framework, peaks=peaks, origin={"hardware": GPU})


def test_gpu_peaks_are_of_the_process_and_ratios_of_the_framework():
    """The pool of a process hides what a step saves; NVML may not see a process.

    What such a case needs is then unknown.
    """
    records = (
        make_on_gpu("torch", "fp32", 400, 1000),
        make_on_gpu("torch", "checkpoint", 200, None),
        make_on_gpu("jax", "fp32", 400, 1600),
        make_on_gpu("jax", "checkpoint", 100, 1500),
    )
    (table,) = tables.make_strategy_tables(make_frame(*records))
    assert table.head[2:5] == ("GPU MiB", "in use x base", "needs MiB")
    assert {row[:2]: row[2:5] for row in table.rows} == {
        ("torch", "fp32"): ("1,000.0", "1.00", "1,050.0"),
        ("torch", "checkpoint"): ("-", "0.50", "-"),
        ("jax", "fp32"): ("1,600.0", "1.00", "1,680.0"),
        ("jax", "checkpoint"): ("1,500.0", "0.25", "1,575.0"),
    }
    assert "on the GPU by device.process" in table.caption
    assert "in use by allocator.in_use" in table.caption


@pytest.mark.parametrize(
    ("hardware", "has_share"), [({"cpu": "x", "device": "cpu"}, True), (GPU, False)]
)
def test_gpu_times_have_no_share_of_the_hosts_matmul(hardware, has_share):
    case = Case.from_id("resnet50/torch/train/fp32/b8/tiny")
    (timed,) = make_blocks([(case, [[1.0] * 5])], peaks=[MIB], hardware=hardware)

    rows = make_frame(timed)

    (table,) = tables.make_strategy_tables(rows)
    assert rows["reference_share"].notna().all() == has_share
    assert ("of reference" in table.head) == has_share


def test_needs_without_what_a_process_keeps_say_so():
    columns = {"framework": ["torch", "jax"], "needs_bytes": [105, 210], "kept_bytes": [None, 20]}
    columns |= {"kept_lender": [None, None], "least_needs_bytes": [105, 210]}
    assert "needs of torch: at least" in tables.describe_missing_kept(pd.DataFrame(columns))
    columns["kept_bytes"] = [0, 20]
    assert tables.describe_missing_kept(pd.DataFrame(columns)) == ""
