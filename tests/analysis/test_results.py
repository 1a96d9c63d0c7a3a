"""What `framebench.load()` gives, and which machine is meant where none is named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pandas as pd
import pytest

import framebench
from framebench.analysis import frames
from framebench.analysis.results import NoRecords, Results
from framebench.records import provenance as origin
from framebench.records import store
from framebench.records.lines import Line
from framebench.records.record import Record
from framebench.suite.case import Case
from tests.fake_records import make_crash_without_version, make_measured, provenance, record
from tests.pages import needs_sphinx
from tests.processes import framebench as run_framebench
from tests.record_files import add_records, append_lines
from tests.sample_records import MACHINE, OTHER, RESULTS


def write_cases(
    results: Path, machine: str, count: int, size: str = "tiny", cpu: str = "any"
) -> None:
    """Write so many cases of a machine into a results folder."""
    origins = {"machine": machine, "hardware": {"cpu": cpu, "device": "cpu"}}
    for batch in range(1, count + 1):
        measured = make_measured("fp32", 100, batch=batch, size=size, origin=origins)
        add_records(results, measured)


@pytest.mark.parametrize("versions", ["one", "all"])
def test_the_table_has_the_columns_and_dtypes_that_are_documented(versions):
    table = framebench.load(RESULTS, versions=versions)
    assert list(table.columns) == [column.name for column in frames.COLUMNS]
    for column in frames.COLUMNS:
        assert table[column.name].dtype == column.dtype
        assert column.meaning
    assert table["machine"].nunique() == 1


def test_releases_are_in_the_order_of_releases(tmp_path):
    """Sorted as text, 0.10.2 would come before 0.9.2, and a plot would show a rise as a fall."""
    for version in ("0.10.2", "0.9.2"):
        measured = make_measured("fp32", 100, origin={"versions": {"torch": version}})
        add_records(tmp_path, measured)

    versions = framebench.load(tmp_path, versions="all")["framework_version"]

    assert versions.tolist() == ["0.9.2", "0.10.2"]
    assert versions.max() == "0.10.2"


def test_by_default_a_case_has_one_row_of_one_version():
    machines = Results(RESULTS).machines
    assert machines
    for machine in machines:
        table = framebench.load(RESULTS, machine)
        assert len(table)
        assert not table["case"].duplicated().any()
        assert (table.groupby("framework")["framework_version"].nunique() == 1).all()
        assert len(framebench.load(RESULTS, machine, versions="all")) >= len(table)


def test_the_rows_of_all_machines_are_those_of_each():
    every = framebench.load(RESULTS, "all")

    machines = framebench.machines(RESULTS)
    assert len(machines) > 1
    assert set(every["machine"]) == set(machines)
    for machine in machines:
        rows = every[every["machine"] == machine].reset_index(drop=True)
        own = framebench.load(RESULTS, machine)
        pd.testing.assert_frame_equal(rows, own, check_dtype=False, check_categorical=False)
    for column in frames.COLUMNS:
        assert every[column.name].dtype == column.dtype


def test_usable_rows_are_verified_and_proven():
    table = pd.concat(framebench.load(RESULTS, machine) for machine in (MACHINE, OTHER))
    usable = table[table["usable"]]
    assert 0 < len(usable) < len(table)
    assert usable[["verified", "effect_proven"]].all(axis=None)
    assert (usable["status"] == "ok").all()
    assert usable["peak_bytes"].notna().all()


def test_this_machine_comes_first_then_one_with_this_processor(results, monkeypatch, capsys):
    """The machine that is chosen by default is printed if there is another one."""
    monkeypatch.setattr(origin, "read_machine_name", Mock(return_value="here"))
    write_cases(results, "most", 3, size="cpu")
    assert set(framebench.load(results)["machine"]) == {"most"}
    assert capsys.readouterr().err == ""

    write_cases(results, "alike", 2, size="cpu", cpu=origin.describe_hardware()["cpu"])
    assert set(framebench.load(results)["machine"]) == {"alike"}
    text = "framebench.load(): machine alike, with this processor; others: most\n"
    assert capsys.readouterr().err == text

    write_cases(results, "here", 1, size="cpu")
    assert set(framebench.load(results)["machine"]) == {"here"}
    text = "framebench.load(): machine here, this one; others: most, alike\n"
    assert capsys.readouterr().err == text

    assert set(framebench.load(results, machine="most")["machine"]) == {"most"}
    assert capsys.readouterr().err == ""


@pytest.fixture
def two_machines(results) -> Path:
    """Return a folder in which the machine with fewer records has this processor."""
    write_cases(results, "most", 3, size="cpu")
    write_cases(results, "alike", 2, size="cpu", cpu=origin.describe_hardware()["cpu"])
    return results


@pytest.mark.parametrize("command", ["answer", "claims"])
def test_every_command_names_the_same_machine(command, two_machines):
    done = run_framebench(command, results=two_machines)
    assert "machine alike, with this processor" in done.stderr


def test_a_trial_does_not_take_the_place_of_published_records(results, monkeypatch):
    """As after the tutorial's `framebench run .../tiny`, unless the machine was named."""
    monkeypatch.setattr(origin, "read_machine_name", Mock(return_value="here"))
    write_cases(results, "here", 1)
    assert framebench.load(results)["machine"].unique() == ["here"]
    write_cases(results, "published", 1, size="cpu")
    assert framebench.load(results)["machine"].unique() == ["published"]
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "here")
    assert framebench.load(results)["machine"].unique() == ["here"]


@pytest.mark.parametrize(
    ("tracked", "machines"),
    [("results/records/published/torch-1.jsonl", ["published"]), (None, ["here", "published"])],
    ids=["git", "no git"],
)
def test_documents_are_of_the_machines_whose_records_are_committed(
    tracked, machines, results, monkeypatch
):
    """What was measured here since changes no tracked file."""
    write_cases(results, "published", 1)
    write_cases(results, "here", 2)
    monkeypatch.setattr(origin, "query_git", Mock(return_value=tracked))

    committed = Results.committed(results)

    assert committed.machines == machines
    assert {record.provenance.machine for record in committed.records} == set(machines)


def test_the_records_of_one_machine_are_read_without_those_of_others(results):
    write_cases(results, "m", 1)
    append_lines(store.find_file(results, "other", "torch-1"), "{")
    assert len(Results(results).get_records("m")) == 1
    with pytest.warns(store.RecordWarning, match="other/torch-1"):
        assert len(Results(results).records) == 1


@pytest.mark.parametrize("below", ["", "records", "records/here"])
def test_a_folder_without_records_is_named_with_a_hint(below, results):
    (results / below).mkdir(parents=True)
    command = r"measure first: framebench run --results .*results$"
    with pytest.raises(NoRecords, match=rf"no records under .*results; .*{command}"):
        framebench.load(results)


def test_a_case_without_numbers_has_a_row_with_its_reason(results):
    case = Case.from_id("transformer/torch/train/accumulate/b4/tiny")
    failed = record(case, status="oom", reason="memory", provenance=provenance(machine="m"))
    # a process that died before it named its version takes the place of an older record
    for written in (
        failed,
        make_measured("checkpoint", 100, 1.0),
        make_crash_without_version("checkpoint"),
    ):
        add_records(results, written)

    rows = framebench.load(results, "m").set_index("strategy")

    assert rows["status"].to_dict() == {"accumulate": "oom", "checkpoint": "crashed"}
    assert rows["peak_bytes"].isna().all()
    assert rows["reason"]["accumulate"] == "memory"


@pytest.mark.parametrize(
    "command",
    [
        ["report", "--machine", "all", "--docs", "DOC"],
        pytest.param(["report", "--machine", "all", "--html", "--to", "TO"], marks=needs_sphinx),
        ["report", "--figures", "all", "--to", "TO"],
        ["show", "--json"],
        ["claims", "B19", "--size", "tiny"],
        ["predict", "transformer/jax/train/fp32/b9/tiny"],
        ["advise", "transformer/////tiny", "--budget", "1GiB"],
    ],
    ids=lambda command: " ".join(command[:4]),
)
def test_a_command_parses_each_record_at_most_once(command, results, tmp_path, monkeypatch):
    """The commands are the steps of `make report`, and others that read records."""
    write_cases(results, "one", 2)
    write_cases(results, "two", 3)
    document = tmp_path / "page.md"
    document.write_text("<!-- table: one: transformer train, batch 1, size tiny -->\n<!-- end -->")
    parsed = Counter()
    parse = store.parse

    def count_and_parse(kind: type[Record], line: Line) -> Record:
        parsed[line.place] += 1
        return parse(kind, line)

    # the real first_records parses one record of each machine in advance
    of_unknown_processor = SimpleNamespace(cpu=None)
    first_records = {"one": of_unknown_processor, "two": of_unknown_processor}
    monkeypatch.setattr(Results, "first_records", first_records)
    monkeypatch.setattr(store, "parse", count_and_parse)
    paths = {"DOC": str(document), "TO": str(tmp_path / "to")}
    words = [paths.get(word, word) for word in command]
    done = run_framebench(*words, results=results)
    assert done.returncode in (0, 1), done.stderr
    assert set(parsed.values()) == {1}
    if "all" in command:
        # of published results, searches are read too, for the bytes that a process keeps
        published = str(origin.PUBLISHED)
        own_places = [place for place in parsed if not place.startswith(published)]
        assert len(own_places) == 2 + 3
