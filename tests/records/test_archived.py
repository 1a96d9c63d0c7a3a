"""A record of a case that this version does not have any more is read, and keeps its name."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import framebench
from framebench.analysis.results import Results
from framebench.cluster.checks import check
from framebench.publish.figures import list_figures
from framebench.records.record_base import parse_case
from tests.processes import framebench as command
from tests.record_files import copy_cases, list_files
from tests.sample_records import RESULTS

MACHINE = "xeon-2core"
GONE = [  # a strategy, a scenario, a workload, and a size that no version has
    "transformer/torch/train/folded/b4/cpu",
    "transformer/torch/dream/checkpoint/b4/cpu",
    "vgg/torch/train/checkpoint/b4/cpu",
    "transformer/torch/train/checkpoint/b4/pocket",
]


def make_archived_folder(tmp_path: Path, gone: str) -> Path:
    """Return a results folder whose records of checkpointing say that they are of another case."""
    changed = "transformer/torch/train/checkpoint/b4/cpu"
    strategies = ("fp32", "accumulate", "amp_bf16", "sgd")
    others = [f"transformer/torch/train/{strategy}/b4/cpu" for strategy in strategies]
    copy_cases(RESULTS, tmp_path, [*others, changed])
    for file in list_files(tmp_path):
        file.write_text(file.read_text().replace(changed, gone))
    return tmp_path


@pytest.mark.parametrize("gone", GONE)
def test_load_keeps_the_name_and_numbers_of_a_gone_case(gone, tmp_path):
    table = framebench.load(make_archived_folder(tmp_path, gone)).set_index("case")
    row = table.loc[gone]
    assert not parse_case(gone).is_known
    assert row["strategy"] == gone.split("/")[3]
    assert row["usable"]
    assert row["peak_bytes"] > 0
    assert row["step_time_s"] > 0
    assert not row["same_mathematics"]
    assert pd.isna(row["throughput"])


def test_a_strategy_that_is_gone_is_still_compared_with_its_baseline(tmp_path):
    table = framebench.load(make_archived_folder(tmp_path, GONE[0])).set_index("case")
    assert 0 < table.loc[GONE[0], "peak_ratio"] < 1
    assert table.loc[GONE[0], "time_ratio"] > 1


@pytest.mark.parametrize("gone", GONE)
def test_check_results_notes_a_gone_case_without_a_fault(gone, tmp_path):
    found = check(make_archived_folder(tmp_path, gone))
    assert not found.problems
    assert any("that this framebench does not have" in note for note in found.notes)


@pytest.mark.parametrize("gone", GONE)
def test_tables_and_figures_have_a_gone_case(gone, tmp_path):
    results = Results(make_archived_folder(tmp_path / "results", gone))
    tables = tmp_path / "tables"
    command("report", "--to", tables, results=results.root, code=0)
    assert gone.split("/")[3] in (tables / f"{MACHINE}.md").read_text()
    figures = [draw(rows) for _, draw, rows in list_figures(results.table(MACHINE), results)]
    assert any(figures)
    shown = command("show", "--json", results=results.root)
    assert gone in shown.stdout


@pytest.mark.parametrize(
    "text",
    [
        "a/torch/b/c/b4",
        "a/numpy/b/c/b4/d",
        "a/torch/b/c/b0/d",
        "a/torch/b/../b4/d",
        "a/torch/b/c/b4/d.",
        "a/torch/b/c/b4/d..e",
        "a/torch/b/<c>/b4/d",
    ],
)
def test_a_malformed_case_id_is_refused(text):
    with pytest.raises(ValueError, match="is no case"):
        parse_case(text)
