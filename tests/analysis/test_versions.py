"""Versions of a framework: measured in turn, judged by rounds and never by two points."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asv.config import Config
from typer.testing import CliRunner

from analysis.reports import versions
from analysis.reports.report import of_records
from analysis.reports.versions import FEW, IMPROVEMENT, INCOMPARABLE, NONE, REGRESSION, STATUS, UNDECIDED, UnknownVersion
from analysis.selection import of_one_version, select_records
from analysis.statistics import FEWEST, PEAK, TIME, Quantity
from framebench.cli import versions as command
from framebench.cli.__main__ import app
from framebench.measure import environments
from framebench.measure import versions as measuring
from framebench.measure.environments import SetupError
from framebench.records import pins, store
from framebench.records.record import Record
from framebench.suite.case import UnknownCase
from framebench.suite.strategy import FRAMEWORKS
from tests.processes import ROOT, framebench
from tests.rounds import (
    NEW,
    OLD,
    Change,
    at,
    broken,
    changed,
    committed,
    equal_rounds,
    larger,
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
    return {row.quantity: row.verdict for row in versions.rows_of(found, OLD, NEW, **options)}


def regressions(rows: list[versions.Row]) -> set[tuple[str, str]]:
    return {(row.case, row.quantity) for row in rows if row.verdict == REGRESSION}


def test_exactly_what_was_planted_is_found(equal: list[Record], results: Path) -> None:
    slow, large = sorted({r.case for r in equal})[1:3]
    before = versions.rows_of(equal, OLD, NEW)
    assert regressions(before) == set()
    write(plant(equal, slow, large), results)
    rows = versions.rows_of(store.read_all(results), OLD, NEW)
    assert regressions(rows) == {(slow, TIME.name), (large, PEAK.name)}
    assert not [r for r in rows if r.verdict == IMPROVEMENT], "throughput fell, and nothing takes that for good"
    done = framebench("versions", "compare", OLD, NEW, "--json", "--results", str(results))
    assert done.returncode == 1
    assert {(r["case"], r["quantity"]) for r in json.loads(done.stdout) if r["verdict"] == REGRESSION} == regressions(rows)
    assert f"regression: {slow}, step time +2" in done.stderr
    assert f"regression: {large}, peak memory +5.0%" in done.stderr


def test_what_is_planted_into_the_committed_records_is_found(results: Path) -> None:
    """The versions as they were measured; what they really differ in is found too, and stays."""
    found = committed()
    machines = [machine for machine, _ in versions.history(found)]
    if not machines:
        pytest.skip("no committed records of two JAX versions measured in turn")
    found = [r for r in found if r.provenance.machine == machines[0]]
    before = versions.rows_of(found, OLD, NEW)
    equal_peaks = sorted(r.case for r in before if (r.quantity, r.verdict) == (PEAK.name, NONE))
    # times scatter: of those not told apart, the ones that are not faster by so much that a fifth more is lost in it
    unlike = {r.case for r in before if r.quantity == TIME.name and (r.verdict not in (NONE, UNDECIDED) or (r.low or 0) < 0.95)}
    pairs = [(slow, large) for slow in sorted({r.case for r in before} - unlike) for large in equal_peaks if slow != large]
    if not pairs:
        pytest.skip("every case differs between the versions already, or is undecided")
    slow, large = pairs[0]
    after = versions.rows_of(plant(found, slow, large), OLD, NEW)
    assert regressions(after) - regressions(before) == {(slow, TIME.name), (large, PEAK.name)}
    assert regressions(before) <= regressions(after)


def test_swapped_versions_turn_regressions_into_improvements(equal: list[Record]) -> None:
    slow, large = sorted({r.case for r in equal})[:2]
    planted = plant(equal, slow, large)
    forth, back = versions.rows_of(planted, OLD, NEW), versions.rows_of(planted, NEW, OLD)
    assert {(r.case, r.quantity) for r in back if r.verdict == IMPROVEMENT} == regressions(forth)
    assert regressions(back) == set()
    for one, other in zip(forth, back):
        assert one.ratio
        assert other.ratio == pytest.approx(1 / one.ratio)


def test_two_points_decide_nothing(results: Path) -> None:
    """However far they lie apart; nor do five of each, nor seven of each that were not measured in turn."""
    (original,) = originals(1)
    twice: Change = lambda r, number: larger(times(r, 2), 2)  # noqa: E731
    for count in (1, FEWEST - 1):
        found = rounds(original, count, twice)
        assert set(verdicts_of(found).values()) == {FEW}
        (peak, *_) = versions.rows_of(found, OLD, NEW)
        assert peak.ratio == 2
        assert peak.low is None
        assert f"{count} and {count} processes" in (peak.reason or "")
    apart = [r if number % 2 else at(r, "0.9.2", r.provenance.measured_at, "other")
             for number, r in enumerate(rounds(original, change=twice))]  # fmt: skip
    assert set(verdicts_of(apart).values()) == {FEW}
    done = framebench("versions", "compare", OLD, NEW, "--results", str(write(found, results)))
    assert done.returncode == 3, "nothing could be judged, which must not pass for fine"
    assert "framebench versions run" in done.stderr
    assert set(verdicts_of(rounds(original, FEWEST, twice)).values()) == {REGRESSION, NONE}  # the first step was left alone


def test_a_threshold_is_the_least_that_matters(equal: list[Record], results: Path) -> None:
    slow, large = sorted({r.case for r in equal})[:2]
    planted = plant(equal, slow, large)
    assert regressions(versions.rows_of(planted, OLD, NEW, threshold=0.04)) == {(slow, TIME.name), (large, PEAK.name)}
    assert regressions(versions.rows_of(planted, OLD, NEW, threshold=0.3)) == set()
    write(planted, results)
    said = [framebench("versions", "compare", OLD, NEW, "--threshold", t, "--results", str(results)) for t in ("30%", "many")]
    assert (said[0].returncode, said[1].returncode) == (0, 2)
    assert "write for instance 5%" in said[1].stderr


def test_a_case_that_stops_working_is_a_regression() -> None:
    (original,) = originals(1)
    assert verdicts_of(rounds(original, change=broken)) == {STATUS: REGRESSION}
    assert {r.verdict for r in versions.rows_of(rounds(original, change=broken), NEW, OLD)} == {IMPROVEMENT}
    assert verdicts_of(rounds(original, 3, change=broken)) == {STATUS: FEW}
    once = verdicts_of(rounds(original, change=lambda r, number: broken(r, number) if number == 2 else r))
    assert once[STATUS] == UNDECIDED
    assert once[PEAK.name] == NONE, "the other six rounds are enough"
    both = [broken(r, 0) for r in rounds(original)]
    assert verdicts_of(both) == {STATUS: NONE}
    (row,) = versions.rows_of(rounds(original, change=broken), OLD, NEW)
    assert row.reason == "failed in 0 of 7 and 7 of 7 processes: oom: memory ran out"


def test_peaks_of_two_instruments_are_not_compared() -> None:
    (original,) = originals(1)
    found = rounds(original, change=lambda r, number: r.model_copy(update={"peaks": {"allocator.in_use": 1}}))
    assert verdicts_of(found)[PEAK.name] == INCOMPARABLE
    assert verdicts_of(found)[TIME.name] != INCOMPARABLE


@pytest.mark.parametrize(
    ("lacking", "quantity"), [({"peaks": {}}, PEAK), ({"step_s": []}, TIME), ({"first_step_s": None}, versions.FIRST)]
)
def test_what_a_record_lacks_is_not_judged(lacking: dict[str, Any], quantity: Quantity) -> None:
    """Rounds without the number count for nothing, and the other quantities stand."""
    (original,) = originals(1)
    some = rounds(original, change=lambda r, number: r.model_copy(update=lacking if number < 5 else {}))
    (row,) = [r for r in versions.rows_of(some, OLD, NEW) if r.quantity == quantity.name]
    assert (row.verdict, row.rounds) == (FEW, measuring.BLOCKS - 5)
    none = verdicts_of(rounds(original, change=lambda r, number: r.model_copy(update=lacking)))
    assert none.pop(quantity.name) == FEW
    assert FEW not in none.values()


def test_rounds_of_other_code_play_no_part() -> None:
    """Else a repair of ours, with the newer version measured after it, would look like one of theirs."""
    (original,) = originals(1)
    before = rounds(original, change=lambda r, number: times(r, 2), session="before")
    old = [changed(r, commit="0" * 40) for r in before]
    later = [at(r, str(r.framework_version), r.provenance.measured_at + timedelta(days=1)) for r in rounds(original)]
    assert regressions(versions.rows_of([*old, *later], OLD, NEW)) == set()
    assert {r.rounds for r in versions.rows_of([*old, *later], OLD, NEW)} == {measuring.BLOCKS}


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
        versions.rows_of(found, base, change)
    assert named in str(raised.value)


def test_the_table_says_what_was_held_constant(equal: list[Record]) -> None:
    newer = [changed(r, versions={"jax": "0.10.2+cpu", "flax": "9"}) if r.framework_version == "0.10.2" else r for r in equal]
    shown = versions.table(versions.rows_of(newer, OLD, NEW))
    machine = equal[0].provenance.machine
    assert shown.key == f"{machine}: jax 0.10.2 against 0.9.2"
    assert "also different: flax" in shown.caption
    assert "jax's build, none and cpu" in shown.caption
    assert str(equal[0].provenance.commit)[:10] in shown.caption
    assert len(shown.rows) == 3 * len({r.case for r in equal})
    evil = [r.model_copy(update={"status": "crashed", "reason": "<script>|x"}) for r in rounds(originals(1)[0])]
    assert "<script>" not in versions.table(versions.rows_of(evil, OLD, NEW)).markdown()
    moved = [changed(r, machine="other") for r in equal]
    both = versions.table(versions.rows_of([*equal, *moved], OLD, NEW))
    assert both.head[0] == "machine"
    assert both.machine == ""


def test_other_tables_show_the_pinned_version_alone(equal: list[Record]) -> None:
    chosen, pinned = select_records(equal), pins.pinned_version("jax")
    assert {r.framework_version for r in chosen} == {"0.9.2", "0.10.2"}
    assert {r.framework_version for r in of_one_version(chosen)} == {pinned}
    older = [r for r in chosen if r.framework_version == "0.9.2"]
    assert len(of_one_version(older)) == len(older), "where the pinned one was not measured, what was"
    assert "0.9.2" not in "".join(c.caption for c in of_records(equal) if " against " not in c.title)
    (shown,) = versions.comparisons(equal)
    assert shown.title == "jax 0.10.2 against 0.9.2"


def test_the_matrix() -> None:
    assert measuring.matrix("jax") == ["0.9.2", "0.10.2"], "oldest first, by version and not by letter"
    assert measuring.matrix("jax", ["0.10.2", "0.9.2"]) == ["0.9.2", "0.10.2"]
    with pytest.raises(SetupError, match=r"one version to measure, 2.13.0.*requirements/versions/torch-VERSION.txt"):
        measuring.matrix("torch", ["2.13.0"])
    with pytest.raises(SetupError, match=r"no pinned requirements for jax 0\.1; there are"):
        measuring.matrix("jax", ["0.1", "0.9.2"])


def test_asv_and_the_pins_have_the_same_versions() -> None:
    said = [e["req"] for e in Config.load(str(ROOT / "asv.versions.json")).include]
    pinned = [{f: v} for f in FRAMEWORKS for v in pins.pinned_versions(f)]
    assert sorted(map(str, said)) == sorted(map(str, pinned))
    for file in (pins.REQUIREMENTS / "versions").glob("*.txt"):
        lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
        assert all("==" in line and "://" not in line and not line.startswith("-") for line in lines), file
        assert file.stem in {f"{f}-{v}" for f in FRAMEWORKS for v in pins.pinned_versions(f)}
    plain, matrix = (Config.load(str(ROOT / name)).__dict__ for name in ("asv.conf.json", "asv.versions.json"))
    assert {k: v for k, v in plain.items() if k != "include"} == {k: v for k, v in matrix.items() if k != "include"}


def test_a_version_has_an_environment_of_its_own() -> None:
    one, other = (environments.describe("jax", v) for v in ("0.9.2", "0.10.2"))
    assert one.python != other.python
    assert (one.name, other.name) == ("jax-0.9.2", "jax-0.10.2")
    assert environments.describe("jax") == environments.describe("jax", pins.pinned_version("jax"))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_standing_selection_has_the_canary(framework: str) -> None:
    found = [c.id for c in measuring.selection(framework)]
    assert f"unet3d/{framework}/train/amp_bf16/b4/cpu" in found
    assert {c.workload for c in measuring.selection(framework)} == {"resnet50", "unet3d", "transformer"}
    assert len(found) == len(measuring.STANDING), "one batch each"
    assert len(measuring.selection(framework, profile="quick")) > 3 * len(found)
    with pytest.raises(UnknownCase, match=f"none of the .* cases named is one of {framework}"):
        measuring.selection(framework, ["resnet50/" + next(f for f in FRAMEWORKS if f != framework)])


@pytest.mark.parametrize(
    ("statuses", "code"), [(["ok", "unsupported", "oom"], 0), (["ok", "timeout"], 1), (["crashed", "wrong"], 1)]
)
def test_what_broke_fails_the_command(statuses: list[str], code: int, monkeypatch: pytest.MonkeyPatch, results: Path) -> None:
    """As in `framebench run`; the session is finished all the same."""
    monkeypatch.setattr(command.environments, "ensure", lambda *_: None)
    monkeypatch.setattr(command.environments, "warm", lambda *_: None)
    monkeypatch.setattr(command.versions, "measure", lambda *_: statuses)
    done = CliRunner().invoke(app, ["versions", "run", "--framework", "jax", "--results", str(results)])
    assert done.exit_code == code, done.output
    assert ("of 2 measurements failed" in done.stderr) == bool(code)
    assert not list(results.glob(".session*"))
