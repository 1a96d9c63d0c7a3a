"""Versions of a framework: measured in turn, judged by blocks and never by two points."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import framebench
from framebench.analysis import figures
from framebench.analysis.blocks import Blocks
from framebench.analysis.reports import verdicts
from framebench.analysis.results import Results
from framebench.analysis.selection import select_one_version
from framebench.analysis.statistics import PEAK, TIME, Quantity
from framebench.explain import table as explained
from framebench.explain.record import Explanation
from framebench.publish import figures as published
from framebench.publish.site.machine import list_machines
from framebench.publish.tables import make_tables
from framebench.records import pins, store
from framebench.records.record import Record
from framebench.versions import judge, table
from framebench.versions.figure import draw_changes
from framebench.versions.judge import (
    FEW,
    IMPROVEMENT,
    INCOMPARABLE,
    NONE,
    REGRESSION,
    STATUS,
    UNDECIDED,
    UnknownVersion,
)
from tests.processes import framebench as command
from tests.version_records import (
    NEW,
    OLD,
    Change,
    broken,
    changed,
    equal_rounds,
    originals,
    plant,
    rounds,
    times,
    write,
)


@pytest.fixture
def equal() -> list[Record]:
    return equal_rounds()


def verdicts_of(found: list[Record], **options: Any) -> dict[str, str]:
    """By quantity, of records of one case."""
    return {row.quantity: row.verdict for row in judge.compare_versions(found, OLD, NEW, **options)}


def regressions(rows: list[judge.QuantityComparison]) -> set[tuple[str, str]]:
    return {(row.case, row.quantity) for row in rows if row.verdict == REGRESSION}


def test_exactly_what_was_planted_is_found(equal: list[Record], results: Path) -> None:
    slow, large = sorted({r.case for r in equal})[1:3]
    before = judge.compare_versions(equal, OLD, NEW)
    assert regressions(before) == set()
    write(plant(equal, slow, large), results)
    rows = judge.compare_versions(store.read_all(results), OLD, NEW)
    assert regressions(rows) == {(slow, TIME.name), (large, PEAK.name)}
    assert not [r for r in rows if r.verdict == IMPROVEMENT], (
        "throughput fell, and nothing takes that for good"
    )
    done = command("versions", "compare", OLD, NEW, "--json", "--results", str(results))
    assert done.returncode == 1
    assert {
        (r["case"], r["quantity"]) for r in json.loads(done.stdout) if r["verdict"] == REGRESSION
    } == regressions(rows)
    assert re.search(f"regression: {slow}, step time .(1[5-9]|2[0-5])\\.", done.stderr)
    assert f"regression: {large}, peak memory +5.0%" in done.stderr
    shown = command("versions", "compare", OLD, NEW, "--results", str(results))
    assert "regression: " not in shown.stderr, "the table has them"
    assert f"versions bisect --framework jax 0.9.2 0.10.2 {large}" in shown.stderr


def test_swapped_versions_turn_regressions_into_improvements(equal: list[Record]) -> None:
    slow, large = sorted({r.case for r in equal})[:2]
    planted = plant(equal, slow, large)
    forth, back = (
        judge.compare_versions(planted, OLD, NEW),
        judge.compare_versions(planted, NEW, OLD),
    )
    assert {(r.case, r.quantity) for r in back if r.verdict == IMPROVEMENT} == regressions(forth)
    assert regressions(back) == set()
    for one, other in zip(forth, back):
        assert one.ratio
        assert other.ratio == pytest.approx(1 / one.ratio)


def test_two_points_decide_nothing_about_time(results: Path) -> None:
    """However far they lie apart; nor do many that share no block. Peaks repeat."""
    (original,) = originals(1)
    twice: Change = lambda r, number: times(r, 2)  # noqa: E731
    found = rounds(original, 1, twice)
    assert verdicts_of(found)[TIME.name] == FEW
    (row,) = [r for r in judge.compare_versions(found, OLD, NEW) if r.quantity == TIME.name]
    assert row.ratio is not None
    assert row.ratio > 1.5
    assert (row.low, row.reason) == (None, "fewer than 3 blocks have no interval")
    apart = [
        r.model_copy(
            update={"turns": r.turns_taken.model_copy(update={"block": f"apart {number}"})}
        )
        for number, r in enumerate(rounds(original, change=twice))
    ]
    assert verdicts_of(apart)[TIME.name] == FEW
    assert verdicts_of(apart)[PEAK.name] == NONE
    without = [r.model_copy(update={"peaks": {}}) for r in apart]
    done = command("versions", "compare", OLD, NEW, "--results", str(write(without, results)))
    assert done.returncode == 3, "nothing could be judged, which must not pass for fine"
    assert "framebench versions run" in done.stderr
    assert verdicts_of(rounds(original, 5, twice))[TIME.name] == REGRESSION


def test_many_tests_on_a_page_are_corrected_for() -> None:
    """A p of 3 % is worth telling of one case, and not of the most striking of twenty."""
    alone = [
        row for row in judge.compare_versions(equal_rounds(), OLD, NEW) if row.quantity == TIME.name
    ]
    by_hand = {
        row.case: verdicts.compare_times(*sides(row.case), Blocks(equal_rounds())) for row in alone
    }
    assert all((found.p or 0) <= (row.p or 0) for row in alone if (found := by_hand[row.case]))
    least = min(by_hand.values(), key=lambda found: found.p if found and found.p is not None else 1)
    assert least
    tested = [row for row in judge.compare_versions(equal_rounds(), OLD, NEW) if row.p is not None]
    assert min(row.p or 0 for row in alone) == pytest.approx(
        min(1, (least.p or 0) * len(tested)), rel=0.5
    )


def sides(case: str) -> tuple[list[Record], list[Record]]:
    own = [r for r in equal_rounds() if r.case == case]
    return [r for r in own if r.framework_version == "0.9.2"], [
        r for r in own if r.framework_version == "0.10.2"
    ]


def test_instructions_tell_other_work() -> None:
    (original,) = originals(1)
    counted = original.model_copy(update={"instructions": [10**9] * len(original.step_s)})

    def more(r: Record, number: int) -> Record:
        return r.model_copy(update={"instructions": [11 * 10**8] * len(r.step_s)})

    assert verdicts_of(rounds(counted, 2))["instructions"] == "same work"
    assert verdicts_of(rounds(counted, 2, more))["instructions"] == "other work"
    assert regressions(judge.compare_versions(rounds(counted, 2, more), OLD, NEW)) == set()


def test_a_threshold_is_the_least_that_matters(equal: list[Record], results: Path) -> None:
    slow, large = sorted({r.case for r in equal})[:2]
    planted = plant(equal, slow, large)
    assert regressions(judge.compare_versions(planted, OLD, NEW, threshold=0.04)) == {
        (slow, TIME.name),
        (large, PEAK.name),
    }
    assert regressions(judge.compare_versions(planted, OLD, NEW, threshold=0.3)) == set()
    write(planted, results)
    said = [
        command("versions", "compare", OLD, NEW, "--threshold", t, "--results", str(results))
        for t in ("30%", "many")
    ]
    assert (said[0].returncode, said[1].returncode) == (0, 2)
    assert "write for instance 5%" in said[1].stderr


def test_a_case_that_stops_working_is_a_regression() -> None:
    (original,) = originals(1)
    assert verdicts_of(rounds(original, change=broken)) == {STATUS: REGRESSION}
    assert {
        r.verdict for r in judge.compare_versions(rounds(original, change=broken), NEW, OLD)
    } == {IMPROVEMENT}
    assert verdicts_of(rounds(original, 3, change=broken)) == {STATUS: UNDECIDED}, (
        "one in ten, if chance breaks half of them"
    )
    once = verdicts_of(
        rounds(original, change=lambda r, number: broken(r, number) if number == 2 else r)
    )
    assert once[STATUS] == UNDECIDED
    assert once[PEAK.name] == NONE, "the other blocks are enough"
    both = [broken(r, 0) for r in rounds(original)]
    assert verdicts_of(both) == {STATUS: NONE}
    (row,) = judge.compare_versions(rounds(original, change=broken), OLD, NEW)
    assert row.reason == (
        "failed in 0 of 5 processes of the base and 5 of 5 of the change: oom: memory ran out"
    )


def test_peaks_of_two_instruments_are_not_compared() -> None:
    (original,) = originals(1)
    found = rounds(
        original, change=lambda r, number: r.model_copy(update={"peaks": {"allocator.in_use": 1}})
    )
    assert verdicts_of(found)[PEAK.name] == INCOMPARABLE
    assert verdicts_of(found)[TIME.name] != INCOMPARABLE


@pytest.mark.parametrize(
    ("lacking", "quantity"),
    [
        ({"peaks": {}}, PEAK),
        ({"step_s": [], "turns": None}, TIME),
        ({"first_step_s": None}, judge.FIRST),
    ],
)
def test_what_a_record_lacks_is_not_judged(lacking: dict[str, Any], quantity: Quantity) -> None:
    """The other quantities stand, but that without a block there is no first step of one either."""
    (original,) = originals(1)
    none = verdicts_of(rounds(original, change=lambda r, number: r.model_copy(update=lacking)))
    assert none.pop(quantity.name) == FEW
    assert FEW not in none.values() or quantity is TIME


def test_records_of_an_older_protocol_play_no_part() -> None:
    (original,) = originals(1)
    before = rounds(original, change=lambda r, number: times(r, 2), session="before")
    old = [changed(r, protocol=1) for r in before]
    assert regressions(judge.compare_versions([*old, *rounds(original)], OLD, NEW)) == set()
    assert regressions(judge.compare_versions(old, OLD, NEW)) == {(original.case, TIME.name)}, (
        "unless there are no others"
    )


@pytest.mark.parametrize(
    ("base", "change", "named"),
    [
        ("jax", NEW, "framework==version"),
        ("tensorflow==2", NEW, "torch, jax, jittor"),
        ("jax==0.1", NEW, f"there are: {NEW}, {OLD}"),
        (OLD, "torch==2.13.0", "not two versions of one framework"),
        (OLD, OLD, "not two versions"),
    ],
)
def test_unknown_versions_are_answered(base: str, change: str, named: str) -> None:
    found = rounds(originals(1)[0])
    with pytest.raises(UnknownVersion) as raised:
        judge.compare_versions(found, base, change)
    assert named in str(raised.value)


def test_the_table_says_what_was_held_constant(equal: list[Record]) -> None:
    newer = [
        changed(r, versions={"jax": "0.10.2+cpu", "flax": "9"})
        if r.framework_version == "0.10.2"
        else r
        for r in equal
    ]
    shown = table.make_table(judge.compare_versions(newer, OLD, NEW))
    machine = equal[0].provenance.machine
    assert shown.key == f"{machine}: jax 0.10.2 against 0.9.2"
    assert "also different: flax" in shown.caption
    assert "jax's build, none and cpu" in shown.caption
    assert str(equal[0].provenance.commit)[:10] in shown.caption
    evil = [
        r.model_copy(update={"status": "crashed", "reason": "<script>|x"})
        for r in rounds(originals(1)[0])
    ]
    assert "<script>" not in table.make_table(judge.compare_versions(evil, OLD, NEW)).markdown()
    moved = [changed(r, machine="other") for r in equal]
    both = table.make_table(judge.compare_versions([*equal, *moved], OLD, NEW))
    assert both.head[0] == "machine"
    assert both.machine == ""


def test_regressions_come_first_and_what_is_undecided_is_counted_below(equal: list[Record]) -> None:
    slow, large = sorted({r.case for r in equal})[1:3]
    rows = judge.compare_versions(plant(equal, slow, large), OLD, NEW)
    shown = table.make_table(rows)
    assert [row[:2] for row in shown.rows[:2]] == [(slow, TIME.name), (large, PEAK.name)], (
        "the largest ahead"
    )
    assert [row[-1] for row in shown.rows[:3]] == [REGRESSION, REGRESSION, NONE]
    decided = [row for row in rows if row.verdict not in (UNDECIDED, FEW)]
    assert 2 < len(decided) < len(rows) == 3 * len({r.case for r in equal}), (
        "peak, step time, first step"
    )
    assert len(shown.rows) == len(decided)
    (note,) = [note for note in shown.notes if note.startswith("undecided, not shown: ")]
    assert sum(map(int, re.findall(r" of (\d+)", note))) == len(rows) - len(decided)


def test_base_and_change_are_of_the_blocks_that_the_ratio_is_of() -> None:
    """A block that one version alone was in, and a machine that drifts, moved the values apart from
    their ratio.
    """
    found = rounds(originals(1)[0], 3, lambda r, number: times(r, 1.07))
    drifting = [times(r, 3.0 ** (i // 2)) for i, r in enumerate(found)]
    alone = times(rounds(originals(1)[0], 1, session="alone")[0], 100)
    for row in judge.compare_versions([*drifting, alone], OLD, NEW):
        if row.quantity in (TIME.name, judge.FIRST.name):
            assert row.base_value
            assert row.change_value
            assert row.ratio == pytest.approx(row.change_value / row.base_value)


def explained_in(version: str, **kinds: int) -> Explanation:
    """An account of one step of the planted case."""
    size = sum(kinds.values()) * 2**20
    holders = [
        {"kind": k, "layer": "", "phase": "", "bytes": b * 2**20, "tensors": 1}
        for k, b in kinds.items()
    ]
    peak = {"event": 0, "bytes": size, "phase": "forward"}
    return Explanation.model_validate(
        {
            "case": originals(1)[0].case,
            "how": "",
            "measured": {},
            "versions": {"jax": version},
            "device": "cpu",
            "timeline": [(0, size, "forward")],
            "peak": peak,
            "holders": holders,
        }
    )


def told(known: list[Explanation]) -> table.Cause:
    return lambda case, base, change: explained.describe_cause(case, base, change, known)


def test_a_larger_peak_has_its_cause_where_both_versions_are_explained(equal: list[Record]) -> None:
    case = originals(1)[0].case
    rows = judge.compare_versions(plant(equal, "", case), OLD, NEW)
    both = [
        explained_in("0.9.2", temporary=9, saved=40, input=5),
        explained_in("0.10.2+cpu", temporary=6, saved=50, input=5),
    ]
    said = f"{case}, peak memory, by framebench explain: saved +10.0 MiB, temporary -3.0 MiB"
    assert said in table.make_table(rows, told(both)).notes
    for known in (both[:1], both[1:], []):
        assert not [note for note in table.make_table(rows, told(known)).notes if "explain" in note]
    assert not [
        note
        for note in table.make_table(judge.compare_versions(equal, OLD, NEW), told(both)).notes
        if "explain" in note
    ]


def test_the_site_has_the_cause_too(equal: list[Record], results: Path) -> None:
    (results / "explained").mkdir(parents=True)
    for one in (explained_in("0.9.2", saved=40), explained_in("0.10.2+cpu", saved=50)):
        (results / "explained" / f"{one.versions['jax']}.json").write_text(one.model_dump_json())
    (machine,) = list_machines(plant(equal, "", originals(1)[0].case), Results(results))
    (table,) = machine.version_tables
    assert "saved +10.0 MiB" in " ".join(table.notes)


def test_the_picture_colours_what_is_decided_alone(equal: list[Record]) -> None:
    slow, large = sorted({r.case for r in equal})[1:3]
    rows = judge.compare_versions(plant(equal, slow, large), OLD, NEW)
    drawn = draw_changes(pd.DataFrame(rows))
    assert drawn
    axes = drawn.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()][:2] == [slow, large]
    texts = [text.get_text() for text in axes.texts]
    assert texts.count("undecided") == len([r for r in rows if r.verdict == UNDECIDED])
    assert len(texts) == len(rows)
    values = axes.collections[0].get_array()
    assert sorted(x for x in values.compressed() if x) == pytest.approx(
        sorted(math.log2(r.ratio) for r in rows if r.verdict == REGRESSION and r.ratio)
    )
    assert (
        "worse peak memory in 1 of 6 cases, by at most 5%"
        in figures.page.read_finding_and_source(drawn)[0]
    )
    calm = draw_changes(
        pd.DataFrame([r._replace(verdict=NONE) if r.verdict == REGRESSION else r for r in rows])
    )
    assert calm
    assert (
        ": no regression found (6 of peak memory" in figures.page.read_finding_and_source(calm)[0]
    )
    none = pd.DataFrame([r._replace(verdict=FEW) for r in rows])
    assert draw_changes(none) is None


def test_the_front_page_says_how_much_changed_and_what_most(equal: list[Record]) -> None:
    slow, large = sorted({r.case for r in equal})[1:3]
    rows = judge.compare_versions(plant(equal, slow, large), OLD, NEW)
    said = table.describe_changes(rows)
    timed = sum(r.verdict in (REGRESSION, NONE) and r.quantity == "step time" for r in rows)
    assert said.startswith("JAX 0.10.2 against 0.9.2, on ")
    assert "peak memory is worse in 1 of 6 cases, better in 0" in said
    assert f"step time is worse in 1 of {timed} cases, better in 0" in said
    both = re.search(
        rf"1\.05 x the peak memory of {re.escape(large)} "
        r"\(([\d.,]+) to ([\d.,]+) MiB by compiler\.plan\)",
        said,
    )
    assert both
    assert float(both[1].replace(",", "")) < float(both[2].replace(",", "")), "base, then change"
    assert f"x the step time of {slow}" in said
    calm = table.describe_changes(judge.compare_versions(equal, OLD, NEW))
    assert "peak memory is worse in 0 of 6 cases, better in 0" in calm
    assert "Largest" not in calm


def test_documents_have_the_versions_that_another_machine_measured(
    equal: list[Record], results: Path, tmp_path: Path
) -> None:
    one = [changed(r, machine="one") for r in equal if r.framework_version == "0.10.2"]
    write([*one, *(changed(r, machine="two") for r in equal)], results)
    folder = Results(results)
    assert not any(
        name.startswith("versions") for name in published.draw_all(folder.table("one"), folder)
    ), "its own alone"
    (drawn,) = (
        path
        for path in published.save(folder.table("one"), tmp_path, folder)
        if path.stem.startswith("versions")
    )
    assert drawn.name == "versions-jax-0.10.2.svg"
    assert "Machine two" in drawn.read_text()


def test_other_tables_show_the_pinned_version_alone(equal: list[Record], results: Path) -> None:
    pinned = pins.find_pinned_version("jax")
    assert {r.framework_version for r in equal} == {"0.9.2", "0.10.2"}
    assert {r.framework_version for r in select_one_version(equal)} == {pinned}
    older = [r for r in equal if r.framework_version == "0.9.2"]
    assert len(select_one_version(older)) == len(older), (
        "where the pinned one was not measured, what was"
    )
    assert "0.9.2" not in "".join(
        c.caption for c in make_tables(equal, Results(results)) if " against " not in c.title
    )
    (shown,) = table.make_tables(equal)
    assert shown.title == "jax 0.10.2 against 0.9.2"


def test_verdicts_on_releases_are_a_data_frame(equal: list[Record], results: Path) -> None:
    slow, large = sorted({r.case for r in equal})[1:3]
    write(plant(equal, slow, large), results)
    df = framebench.releases(results)
    worse = df[df["verdict"] == REGRESSION]
    assert set(zip(worse["case"], worse["quantity"])) == {(slow, TIME.name), (large, PEAK.name)}
    assert set(df["base"]) == {OLD}
    assert set(df["change"]) == {NEW}


def test_first_steps_are_judged_where_three_blocks_compile_anew() -> None:
    """Later blocks find everything compiled, and say nothing of a first step."""
    (original,) = originals(1)

    def first_step(record: Record, number: int, cold: int, factor: float) -> Record:
        seconds = 10 * factor * (1 + number / 100) if number < cold else None
        return record.model_copy(update={"first_step_s": seconds})

    def compare(cold: int) -> judge.QuantityComparison:
        records = rounds(original, 5, lambda record, number: first_step(record, number, cold, 2))
        base = [first_step(record, number, cold, 1) for number, record in enumerate(records[::2])]
        rows = judge.compare_versions([*base, *records[1::2]], OLD, NEW)
        (row,) = [row for row in rows if row.quantity == judge.FIRST.name]
        return row

    assert (compare(3).verdict, compare(3).blocks) == (REGRESSION, 3)
    assert (compare(2).verdict, compare(2).reason) == (FEW, judge.FEW_FIRST_STEPS)
