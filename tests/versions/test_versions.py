"""Versions of a framework: measured in turn, judged by blocks and never by two points."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pandas as pd
import pytest

import framebench
from framebench.analysis import figures
from framebench.analysis.blocks import Blocks
from framebench.analysis.reports import verdicts
from framebench.analysis.results import Results
from framebench.analysis.statistics import NONE, PEAK, TIME, UNDECIDED
from framebench.devices.plans.store import write as write_prediction
from framebench.publish.site.machine import list_machines
from framebench.publish.site.machine_pages import write_versions
from framebench.publish.site.source import SourceFolder
from framebench.records.record import Record
from framebench.versions import judge, table
from framebench.versions.accepted import (
    ACCEPTED,
    AcceptedRegression,
    MalformedEntry,
    read_accepted,
    split_regressions,
)
from framebench.versions.figure import draw_changes
from framebench.versions.judge import IMPROVEMENT, INCOMPARABLE, REGRESSION, STATUS, TOO_FEW
from tests.callbacks import ignore
from tests.devices.fake_predictions import make_compiled, make_planned
from tests.explain.explanations import make_explanation
from tests.fake_records import change_provenance
from tests.processes import framebench as command
from tests.processes import read_json
from tests.version_records import (
    NEW,
    OLD,
    Change,
    break_record,
    make_equal_blocks,
    make_version_blocks,
    plant_regressions,
    scale_peaks,
    scale_times,
    select_originals,
    write_records,
)

MIB = 2**20
ORIGINAL = select_originals(1)[0]
# two of the cases, in which regressions are planted
SLOW, LARGE = sorted({record.case for record in make_equal_blocks()})[1:3]
PLANTED = plant_regressions(make_equal_blocks(), SLOW, LARGE)
REGRESSIONS = {(SLOW, TIME.name), (LARGE, PEAK.name)}
COMPARE = ("versions", "compare", OLD, NEW)


def list_verdicts(records: list[Record], base: str = OLD, change: str = NEW) -> dict[str, str]:
    """Return the verdicts on records of one case by quantity."""
    rows = judge.compare_versions(records, base, change)
    return {row.quantity: row.verdict for row in rows}


def read_intervals(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the interval of each quantity, of rows of one case."""
    return {row["quantity"]: (row["low"], row["high"]) for row in rows}


def compare(results: Path, *arguments: str, code: int | None = None) -> CompletedProcess[str]:
    """Run `framebench versions compare` on the two versions of a results folder."""
    return command(*COMPARE, *arguments, results=results, code=code)


def find_verdicts(rows: list[judge.QuantityComparison], verdict: str) -> set[tuple[str, str]]:
    return {(row.case, row.quantity) for row in rows if row.verdict == verdict}


def set_fields(**fields: Any) -> Change:
    return lambda record, number: record.model_copy(update=fields)


def double_times(record: Record, number: int) -> Record:
    return scale_times(record, 2)


def test_exactly_the_planted_changes_are_found():
    rows = judge.compare_versions(PLANTED, OLD, NEW)
    swapped = judge.compare_versions(PLANTED, NEW, OLD)
    assert find_verdicts(rows, REGRESSION) == REGRESSIONS
    assert find_verdicts(rows, IMPROVEMENT) == set()
    assert find_verdicts(swapped, REGRESSION) == set()
    assert find_verdicts(swapped, IMPROVEMENT) == REGRESSIONS


def double_times_in_other_blocks(record: Record, number: int) -> Record:
    """Return a record with doubled times, in a block in which the other version is not."""
    record = double_times(record, number)
    turns = record.turns_taken.model_copy(update={"block": f"apart {number}"})
    return record.model_copy(update={"turns": turns})


@pytest.mark.parametrize(
    ("blocks", "change", "verdict"),
    [
        (5, double_times, REGRESSION),
        (1, double_times, TOO_FEW),
        (5, double_times_in_other_blocks, TOO_FEW),
    ],
)
def test_times_are_judged_only_if_enough_blocks_have_both_versions(blocks, change, verdict):
    found = list_verdicts(make_version_blocks(ORIGINAL, blocks, change))
    assert found[TIME.name] == verdict
    assert found[PEAK.name] == NONE, "peaks repeat, so they need no blocks"


def test_p_is_corrected_for_the_number_of_tests_on_a_page():
    """Of one case a p of 3 % is significant. Of twenty the smallest is often as small by chance."""
    compared = judge.compare_versions(make_equal_blocks(), OLD, NEW)
    tested = [row for row in compared if row.p is not None]
    timed = [row for row in tested if row.quantity == TIME.name]
    least_on_the_page = min(row.p for row in timed)

    blocks = Blocks(make_equal_blocks())
    p_of_one_test = []
    for row in timed:
        comparison = verdicts.compare_times(*row.records, blocks)
        if comparison:
            p_of_one_test.append(comparison.p)

    # the smallest p of all is multiplied by the number of tests (Holm)
    corrected = min(1, min(p_of_one_test) * len(tested))
    assert least_on_the_page == pytest.approx(corrected, rel=0.5)


def break_third(record: Record, number: int) -> Record:
    return break_record(record, number) if number == 2 else record


@pytest.mark.parametrize(
    ("blocks", "change", "base", "compared", "verdict", "other_quantities"),
    [
        (5, break_record, OLD, NEW, REGRESSION, 0),
        (5, break_record, NEW, OLD, IMPROVEMENT, 0),
        # three processes may all fail by chance: p is 10 %
        (3, break_record, OLD, NEW, UNDECIDED, 0),
        # one block is broken; the others are enough to compare the other quantities
        (5, break_third, OLD, NEW, UNDECIDED, 3),
    ],
)
def test_a_status_that_changed_is_judged_by_its_blocks(
    blocks, change, base, compared, verdict, other_quantities
):
    """The new version is the one whose records are broken."""
    records = make_version_blocks(ORIGINAL, blocks, change)
    first, *others = judge.compare_versions(records, base, compared)
    assert (first.quantity, first.verdict) == (STATUS, verdict)
    assert "memory ran out" in first.reason
    assert len(others) == other_quantities


def test_a_version_with_more_instructions_does_other_work():
    count = len(ORIGINAL.step_s)
    counted = ORIGINAL.model_copy(update={"instructions": [10**9] * count})
    add_a_tenth = set_fields(instructions=[11 * 10**8] * count)
    equal = make_version_blocks(counted, count=2)
    more = make_version_blocks(counted, count=2, change=add_a_tenth)
    assert list_verdicts(equal)["instructions"] == "same work"
    assert list_verdicts(more)["instructions"] == "other work"


def test_peaks_of_two_instruments_are_not_compared():
    found = list_verdicts(
        make_version_blocks(ORIGINAL, change=set_fields(peaks={"allocator.in_use": 1}))
    )
    assert found[PEAK.name] == INCOMPARABLE
    assert found[TIME.name] != INCOMPARABLE


@pytest.mark.parametrize(
    ("lacking", "quantity"),
    [
        ({"peaks": {}}, PEAK.name),
        ({"step_s": [], "turns": None}, TIME.name),
        ({"first_step_s": None}, judge.FIRST_STEP.name),
    ],
)
def test_a_quantity_that_records_lack_is_not_judged(lacking, quantity):
    found = list_verdicts(make_version_blocks(ORIGINAL, change=set_fields(**lacking)))
    assert found[quantity] == TOO_FEW
    assert set(found.values()) > {TOO_FEW}, "other quantities are judged"


@pytest.mark.parametrize(
    ("cold", "verdict", "reason"), [(3, REGRESSION, None), (2, TOO_FEW, judge.FEW_FIRST_STEPS)]
)
def test_first_steps_are_judged_if_three_blocks_compile_anew(cold, verdict, reason):
    """In later blocks everything is compiled already, so their records have no first step."""
    records = []
    for place, record in enumerate(make_version_blocks(ORIGINAL)):
        block, variant = divmod(place, 2)
        seconds = None
        if block < cold:
            seconds = (10 + block) * (1 + variant)  # the newer version takes twice as long
        records.append(record.model_copy(update={"first_step_s": seconds}))

    rows = {row.quantity: row for row in judge.compare_versions(records, OLD, NEW)}

    row = rows[judge.FIRST_STEP.name]
    assert (row.verdict, row.reason, row.blocks) == (verdict, reason, cold)


@pytest.mark.parametrize(
    ("base", "change", "hint"),
    [
        ("jax", NEW, "framework==version"),
        ("tensorflow==2", NEW, "torch, jax, jittor"),
        ("jax==0.1", NEW, f"(machine {ORIGINAL.provenance.machine}); there are: {NEW}, {OLD}"),
        ("jax==0.1", NEW, "run --framework jax --version 0.1 --version 0.10.2"),
        (OLD, "torch==2.13.0", "not two versions of one framework"),
        (OLD, OLD, "not two versions"),
    ],
)
def test_versions_that_cannot_be_compared_are_refused_with_a_hint(base, change, hint):
    with pytest.raises(judge.UnknownVersion) as raised:
        judge.compare_versions(make_version_blocks(ORIGINAL), base, change)
    assert hint in str(raised.value)


def test_a_named_case_has_the_intervals_that_it_has_among_all_cases(results):
    """Its variance is shrunk to that of all cases, and not only of those that are named."""
    write_records(PLANTED, results)
    all_rows = read_json(*COMPARE, results=results)
    named_rows = read_json(*COMPARE, SLOW, results=results)
    assert {row["case"] for row in named_rows} == {SLOW}
    rows_of_the_case = [row for row in all_rows if row["case"] == SLOW]
    assert read_intervals(named_rows) == read_intervals(rows_of_the_case)


def test_a_regression_suggests_predictions_for_a_gpu_if_both_versions_have_them(results):
    write_records(make_version_blocks(ORIGINAL, change=enlarge_peaks), results)
    assert "--device" not in compare(results).stderr
    for release in (OLD, NEW):
        planned = make_compiled("fp32", 100, release.partition("==")[2])
        write_prediction(results, planned, ignore)
    command_line = f"framebench versions compare {OLD} {NEW} --device {planned.device}"
    assert f"{command_line} --results {results}\n" in compare(results).stderr


def test_compare_lists_regressions_and_suggests_bisection(results):
    write_records(PLANTED, results)
    printed = compare(results, "--json", code=1)
    rows = json.loads(printed.stdout)
    found = {(row["case"], row["quantity"]) for row in rows if row["verdict"] == REGRESSION}
    assert found == REGRESSIONS
    assert f"regression: {LARGE}, peak memory +5.0%" in printed.stderr
    count = f"{len(REGRESSIONS)} regressions: "
    assert f"exit code 1: requirements/versions/accepted.toml has no entry for {count}" in (
        printed.stderr
    )


@pytest.mark.parametrize("options", ["", " --threshold 2%"])
def test_a_suggested_bisection_repeats_the_options(options, results):
    write_records(PLANTED, results)
    printed = compare(results, *options.split())
    bisection = f"versions bisect --framework jax 0.9.2 0.10.2 {LARGE}{options}"
    assert f"{bisection} --results {results}\n" in printed.stderr


@pytest.mark.parametrize(("threshold", "code"), [("4%", 1), ("30%", 0)])
def test_compare_takes_a_threshold_in_per_cent(threshold, code, results):
    """The planted changes are of 20 % and of 5 %."""
    write_records(PLANTED, results)
    done = compare(results, "--threshold", threshold)
    assert done.returncode == code
    assert (LARGE in done.stderr) == (code == 1)


def test_compare_refuses_a_threshold_that_is_no_percentage(results):
    done = compare(write_records(PLANTED, results), "--threshold", "many", code=2)
    assert "write for instance 5%" in done.stderr


def test_compare_ends_with_code_3_and_suggests_a_run_if_nothing_could_be_judged(results):
    write_records(make_version_blocks(ORIGINAL, count=1, change=set_fields(peaks={})), results)
    done = compare(results, code=3)
    run = "framebench versions run --framework jax --version 0.9.2 --version 0.10.2"
    assert f"{run} --results {results}\n" in done.stderr


def test_the_table_names_other_packages_that_differ():
    records = []
    for record in make_equal_blocks():
        if record.framework_version == "0.10.2":
            record = change_provenance(record, versions={"jax": "0.10.2+cpu", "flax": "9"})
        records.append(record)
    caption = table.make_table(judge.compare_versions(records, OLD, NEW)).caption
    assert "also different: flax" in caption
    assert "jax's build, none and cpu" in caption


def test_regressions_come_first_and_rows_without_a_verdict_are_only_counted():
    rows = judge.compare_versions(PLANTED, OLD, NEW)
    folded = [row for row in rows if row.verdict in table.FOLDED]

    shown = table.make_table(rows)

    slow, large, next_row = shown.rows[:3]
    assert slow[:2] == (SLOW, "step ms")
    assert large[:2] == (LARGE, "peak MiB")
    assert next_row[-1] == NONE, "the two regressions are followed by other verdicts"
    assert folded
    assert len(shown.rows) == len(rows) - len(folded)
    assert any(note.startswith("undecided, not shown: ") for note in shown.notes)


def test_undecided_peaks_are_counted_in_the_answer_and_named_below_the_table():
    rows = judge.compare_versions(PLANTED, OLD, NEW)
    peaks = [row for row in rows if row.quantity == PEAK.name and row.ratio is not None]
    first, *others = peaks
    undecided = first._replace(verdict=UNDECIDED, ratio=1.003, low=0.994, high=1.011)

    answer = table.describe_changes([undecided, *others])
    notes = table.make_table([undecided, *others]).notes

    assert f"of {len(peaks)} cases" in answer
    assert "undecided in 1" in answer
    assert f"Undecided ratios of peaks: {first.case} 1.003 (0.994 to 1.011)" in " ".join(notes)


def list_causes(results: Path) -> list[str]:
    """Return the causes, found by `framebench explain`, that the page of releases lists."""
    (machine,) = list_machines(PLANTED, Results(results))
    write_versions(SourceFolder(results / "source"), machine)
    html = "".join(file.read_text() for file in (results / "source").rglob("*.html"))
    return re.findall("<li>([^<]*framebench explain[^<]*)</li>", html)


def test_a_larger_peak_has_its_cause_where_both_versions_are_explained(results):
    explained = results / "explained"
    explained.mkdir(parents=True)
    old = make_explanation(
        {}, ("", "temporary", 9 * MIB), ("", "saved", 40 * MIB), version="0.9.2", case=LARGE
    )
    new = make_explanation(
        {}, ("", "temporary", 6 * MIB), ("", "saved", 50 * MIB), version="0.10.2+cpu", case=LARGE
    )
    (explained / "old.json").write_text(old.model_dump_json())
    assert list_causes(results) == []
    (explained / "new.json").write_text(new.model_dump_json())
    cause = "saved +10.0 MiB, temporary -3.0 MiB"
    assert list_causes(results) == [f"{LARGE}, peak memory, by framebench explain: {cause}"]


def test_the_figure_colours_decided_cells_only():
    rows = judge.compare_versions(PLANTED, OLD, NEW)
    drawn = draw_changes(pd.DataFrame(rows))

    axes = drawn.axes[0]
    first_label, second_label, *_ = axes.get_yticklabels()
    assert (first_label.get_text(), second_label.get_text()) == (SLOW, LARGE)
    coloured = np.count_nonzero(axes.collections[0].get_array().compressed())
    assert coloured == len(REGRESSIONS)
    texts = [text.get_text() for text in axes.texts]
    assert texts.count("undecided") == len(find_verdicts(rows, UNDECIDED))
    finding, _ = figures.page.read_finding_and_source(drawn)
    assert "worse peak memory in 1 of 6 cases, by at most 5%" in finding


@pytest.fixture
def folder_of_two_machines(results) -> Path:
    """Return results of a machine with two releases and of one with a single release.

    `one-release` has more records, so it is the first of the machines.
    """
    of_new_release = [record for record in PLANTED if record.framework_version == "0.10.2"]
    records = [change_provenance(record, machine="one-release") for record in of_new_release]
    return write_records([*records * 3, *PLANTED], results)


def test_verdicts_on_too_few_blocks_make_no_figure():
    rows = judge.compare_versions(PLANTED, OLD, NEW)
    without_verdict = [row._replace(verdict=TOO_FEW) for row in rows]
    assert draw_changes(pd.DataFrame(without_verdict)) is None


def test_verdicts_on_releases_are_a_data_frame(results):
    df = framebench.releases(write_records(PLANTED, results))
    worse = df[df["verdict"] == REGRESSION]
    assert set(zip(worse["case"], worse["quantity"])) == REGRESSIONS
    assert set(zip(df["base"], df["change"])) == {(OLD, NEW)}
    for row in df.itertuples():
        parts = [row.workload, row.framework, row.scenario, row.strategy, f"b{row.batch}", row.size]
        assert "/".join(parts) == row.case


def test_by_default_releases_are_of_the_first_machine_with_two(folder_of_two_machines, capsys):
    assert framebench.machines(folder_of_two_machines)[0] == "one-release"
    df = framebench.releases(folder_of_two_machines)
    assert set(df["machine"]) == {ORIGINAL.provenance.machine}
    # where the processor is that machine's, the line says so
    printed = capsys.readouterr().err
    assert f"machine {ORIGINAL.provenance.machine}" in printed
    assert "; others: one-release" in printed
    # the other machine has nothing to compare
    of_all_machines = framebench.releases(folder_of_two_machines, machine="all")
    pd.testing.assert_frame_equal(of_all_machines, df)


def test_the_newer_release_before_the_older_is_refused(results):
    done = command("versions", "compare", NEW, OLD, results=results, code=2)
    assert done.stderr.endswith(f"the older release comes first, {OLD} {NEW}\n")


def test_named_cases_without_records_of_both_are_refused_with_counts_and_a_command(results):
    write_records(make_version_blocks(ORIGINAL), results)
    done = compare(results, "unet3d/*/eval", code=2)
    assert "no case of 'unet3d/*/eval' has records of both" in done.stderr
    assert f"{OLD}: 1 case, {NEW}: 1 case" in done.stderr
    assert f"--version 0.10.2 'unet3d/*/eval' --results {results}\n" in done.stderr


def test_named_cases_of_another_framework_are_refused_with_those_of_the_releases(results):
    write_records(make_version_blocks(ORIGINAL), results)
    done = compare(results, "unet3d/torch/*/fp32", code=2)
    assert "the cases of 'unet3d/torch/*/fp32' are PyTorch's; those of JAX: " in done.stderr
    assert f"compare {OLD} {NEW} 'unet3d/jax/*/fp32' --results {results}\n" in done.stderr


def test_compare_chooses_a_machine_that_measured_the_named_case(results):
    """`other` has more records of both releases, but none of the named case."""
    named, *others = select_originals(3)
    records = make_version_blocks(named)
    for original in others:
        for record in make_version_blocks(original):
            records.append(change_provenance(record, machine="other"))
    write_records(records, results)
    done = compare(results, named.case)
    assert f"on {named.provenance.machine}: " in done.stderr


def test_a_machine_named_by_argument_or_variable_is_used_although_it_has_one_release(
    folder_of_two_machines, monkeypatch
):
    assert framebench.releases(folder_of_two_machines, machine="one-release").empty
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "one-release")
    assert framebench.releases(folder_of_two_machines).empty


@pytest.fixture
def releases_of_two_machines(results) -> Path:
    """Return results with the older release measured on `here`, and the newer on `there`."""
    records = []
    for record in make_version_blocks(ORIGINAL):
        machine = "here" if record.framework_version == "0.9.2" else "there"
        records.append(change_provenance(record, machine=machine))
    return write_records(records, results)


def test_releases_of_two_machines_are_refused_with_their_names(releases_of_two_machines):
    results = releases_of_two_machines
    done = compare(results, code=2)
    assert f"no machine has measured both: {OLD} by here, {NEW} by there" in done.stderr
    assert f"--version 0.9.2 --version 0.10.2 --results {results}\n" in done.stderr
    assert "--device" not in done.stderr


def test_releases_of_two_machines_are_compared_by_predictions_if_both_have_them(
    releases_of_two_machines,
):
    results = releases_of_two_machines
    for release in (OLD, NEW):
        planned = make_planned(framework_version=release.partition("==")[2])
        write_prediction(results, planned, ignore)
    suggested = f"framebench versions compare {OLD} {NEW} {planned.case} --device {planned.device}"
    assert f"{suggested} --results {results}; to measure them: " in compare(results).stderr


ENTRY = AcceptedRegression(
    release=NEW, cases=ORIGINAL.case, quantity=PEAK.name, at_most=1.10, reason="reported upstream"
)


@pytest.mark.parametrize(
    ("difference", "is_known"),
    [
        ({}, True),
        ({"cases": "*/jax/*"}, True),
        ({"release": "jax==0.10.1"}, False),
        ({"cases": "other/*"}, False),
        ({"quantity": TIME.name}, False),
        ({"at_most": 1.04}, False),  # peaks are 5 % larger
    ],
)
def test_a_regression_is_known_if_an_entry_covers_it_and_else_new(difference, is_known):
    records = make_version_blocks(ORIGINAL, change=enlarge_peaks)
    rows = judge.compare_versions(records, OLD, NEW)
    new, known = split_regressions(rows, [ENTRY.model_copy(update=difference)])
    if is_known:
        assert new == []
        assert [reason for _, reason in known] == ["reported upstream"]
    else:
        assert len(new) == 1
        assert known == []


def enlarge_peaks(record: Record, number: int) -> Record:
    return scale_peaks(record, 1.05)


WHOLE_ENTRY = """[[accepted]]
release = "jax==1"
cases = "*"
quantity = "peak memory"
at_most = 1.1
reason = "reported upstream"
"""


def test_accepted_regressions_are_read(tmp_path):
    file = tmp_path / "accepted.toml"
    assert read_accepted(file) == []
    file.write_text(WHOLE_ENTRY)
    (entry,) = read_accepted(file)
    assert tomllib.loads(WHOLE_ENTRY)["accepted"] == [entry.model_dump(exclude_none=True)]
    assert len(read_accepted(ACCEPTED)) == ACCEPTED.read_text().count("\n[[accepted]]\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[accepted]\n", "accepted.toml: "),
        ('[[accepted]]\nrelease = "jax==1"\n', "accepted.0.cases: Field required"),
        (WHOLE_ENTRY.replace("jax==1", "jax 1"), "accepted.0.release: .*framework==version"),
        (WHOLE_ENTRY.replace("peak memory", "peak"), "accepted.0.quantity: .*step time, first"),
    ],
)
def test_a_malformed_entry_is_named(text, problem, tmp_path):
    file = tmp_path / "accepted.toml"
    file.write_text(text)
    with pytest.raises(MalformedEntry, match=problem):
        read_accepted(file)
