"""The door of the analysis: what `framebench.load()` gives, and which machine is meant where none
is named.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import framebench
from framebench.analysis import frames
from framebench.analysis.results import NoRecords, Results, UnknownMachine
from framebench.cli.__main__ import app
from framebench.records import provenance as origin
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.protocol import VERSION
from tests.fake_records import died, made, provenance
from tests.processes import ROOT
from tests.sample_records import MACHINE, OTHER, RESULTS


def planted(results: Path, machine: str, count: int, protocol: int = VERSION) -> Path:
    """So many cases of a machine, in a results folder."""
    for batch in range(1, count + 1):
        origin = provenance(machine=machine, versions={"torch": "1"}, protocol=protocol)
        r = made("fp32", 100, 1.0, batch=batch).model_copy(update={"provenance": origin})
        store.write(r, store.find_folder(results, machine, "torch-1", r.parsed))
    return results


def test_the_table_has_the_columns_and_dtypes_that_are_documented() -> None:
    for versions in ("one", "all"):
        table = framebench.load(RESULTS, versions=versions)
        assert {name: str(dtype) for name, dtype in table.dtypes.items()} == {
            c.name: c.dtype for c in frames.COLUMNS
        }
        assert table["machine"].nunique() == 1
    assert all(c.meaning for c in frames.COLUMNS)


def test_releases_are_in_the_order_of_releases(tmp_path: Path) -> None:
    """As text 0.10.2 would be before 0.9.2, and a plot would draw a rise as a fall."""
    for version in ("0.10.2", "0.9.2"):
        origin = provenance(machine="m", versions={"torch": version})
        record = made("fp32", 100, 1.0).model_copy(update={"provenance": origin})
        store.write(record, store.find_folder(tmp_path, "m", f"torch-{version}", record.parsed))

    versions = framebench.load(tmp_path, versions="all")["framework_version"]

    assert versions.tolist() == ["0.9.2", "0.10.2"]
    assert versions.max() == "0.10.2"
    assert versions.cat.categories.tolist() == ["0.9.2", "0.10.2"]


def test_relative_numbers_refer_to_the_baseline_of_the_same_batch() -> None:
    table = framebench.load(RESULTS, MACHINE)
    timed = table[table["relative_throughput"].notna()]
    assert len(timed) > 10
    assert timed["relative_throughput"].tolist() == pytest.approx(
        (1 / timed["time_ratio"]).tolist()
    )
    baselines = table[table["baseline"] & table["step_bytes"].notna()]
    peaks = {
        (row.framework, row.workload, row.scenario, row.size, row.batch): row.step_bytes
        for row in baselines.itertuples()
    }
    compared = table[table["relative_peak"].notna()]
    assert len(compared) > 20
    for row in compared.itertuples():
        base = peaks[row.framework, row.workload, row.scenario, row.size, row.batch]
        assert row.relative_peak == pytest.approx(row.step_bytes / base)


def test_by_default_a_case_has_one_row_of_one_version() -> None:
    for machine in Results(RESULTS).machines:
        table = framebench.load(RESULTS, machine)
        assert not table["case"].duplicated().any()
        assert (table.groupby("framework")["framework_version"].nunique() == 1).all()
        assert len(framebench.load(RESULTS, machine, versions="all")) >= len(table)


def test_usable_rows_are_verified_and_proven() -> None:
    table = pd.concat(framebench.load(RESULTS, machine) for machine in (MACHINE, OTHER))
    usable = table[table["usable"]]
    assert 0 < len(usable) < len(table)
    assert usable["verified"].all()
    assert usable["effect_proven"].all()
    assert (usable["status"] == "ok").all()
    assert usable["peak_bytes"].notna().all()
    base = table[table["usable"] & table["baseline"]]
    assert (base["peak_ratio"] == 1).all()
    assert base["same_mathematics"].all()


def test_the_machine_is_this_one_if_it_has_records_or_else_the_one_with_most(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(planted(results, "few", 1), "most", 2)
    assert Results(results).machine() == "most"
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "few")
    assert Results(results).machine() == "few"
    assert Results(results).machine("most") == "most"
    assert set(framebench.load(results)["machine"]) == {"few"}


def test_documents_are_of_the_machines_whose_records_are_committed(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was measured here since changes no tracked file."""
    planted(planted(results, "published", 1), "here", 2)
    monkeypatch.setattr(
        origin, "query_git", lambda *_: "results/records/published/torch-1/a/b.json"
    )
    kept = Results.committed(results)
    assert kept.machines == ["published"] == sorted({r.provenance.machine for r in kept.records})
    monkeypatch.setattr(origin, "query_git", lambda *_: None)
    assert Results.committed(results).machines == ["here", "published"]


def test_an_empty_folder_and_an_unknown_machine_end_in_a_sentence(results: Path) -> None:
    for machine in (None, "there"):
        with pytest.raises(
            NoRecords,
            match="results is no folder; name the folder that has records/ in it, or measure first",
        ):
            framebench.load(results, machine)
    with pytest.raises(NoRecords, match="is no folder"):
        framebench.load(__file__)
    results.mkdir()
    with pytest.raises(NoRecords, match=r"no records under .*results; .*measure first"):
        framebench.load(results)
    planted(results, "here", 1)
    with pytest.raises(NoRecords, match="no records under"):
        framebench.load(results / "records")
    with pytest.raises(UnknownMachine, match="machines: here"):
        framebench.load(results, "there")
    shutil.rmtree(results / "records" / "here")
    with pytest.raises(NoRecords):
        framebench.load(results)


def test_a_baseline_without_a_version_and_a_case_without_numbers_have_rows(results: Path) -> None:
    planted(results, "m", 1)
    died = made("checkpoint", 100, 1.0).model_copy(
        update={
            "status": "oom",
            "reason": "memory",
            "peaks": {},
            "step_s": [],
            "provenance": provenance(machine="m"),
        }
    )
    store.write(died, store.find_folder(results, "m", "torch-1", died.parsed))
    table = framebench.load(results, "m").set_index("strategy")
    assert not table.loc["checkpoint", "usable"]
    assert pd.isna(table.loc["checkpoint", "peak_bytes"])
    assert table.loc["checkpoint", "reason"] == "memory"


def test_a_case_has_one_row_also_where_its_newest_process_died_before_it_named_its_version(
    results: Path,
) -> None:
    for r in (made("checkpoint", 100, 1.0), died("checkpoint")):
        store.write(r, store.find_folder(results, "m", "torch", r.parsed))
    assert list(framebench.load(results, "m")["status"]) == ["crashed"]


def test_importing_analysis_imports_no_pandas() -> None:
    code = (
        "import sys, framebench.analysis; assert not {'pandas', 'numpy', 'pydantic'} & "
        "sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    "command",
    [
        ["report", "--machine", "all", "--docs", "DOC"],
        ["report", "--machine", "all", "--html", "--to", "TO"],
        ["report", "--figures", "all", "--to", "TO"],
        ["show", "--json"],
        ["claims", "B19", "--size", "tiny"],
        ["predict", "transformer/jax/train/fp32/b9/tiny"],
        ["advise", "transformer/////tiny", "--budget", "1GiB"],
    ],
    ids=lambda command: " ".join(command[:4]),
)
def test_a_command_parses_each_record_at_most_once(
    command: list[str], results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps of `make report`, and what else reads records."""
    planted(planted(results, "one", 2), "two", 3)
    document = tmp_path / "page.md"
    document.write_text("<!-- table: one: transformer train, batch 1, size tiny -->\n<!-- end -->")
    parsed: Counter[str] = Counter()
    read = store.read

    def counting(path: Path | str) -> Record:
        parsed[str(path)] += 1
        return read(path)

    monkeypatch.setattr(store, "read", counting)
    paths = {"DOC": str(document), "TO": str(tmp_path / "to")}
    done = CliRunner().invoke(
        app, [*(paths.get(word, word) for word in command), "--results", str(results)]
    )
    assert done.exit_code in (0, 1), done.output
    assert set(parsed.values()) == {1}
    if "all" in command:
        assert set(parsed) == {str(path) for path in results.rglob("records/**/*.json")}
