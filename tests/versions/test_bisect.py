"""Bisection over releases: what is named, what is stepped over, and what is measured once."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from framebench.devices.plans.store import find_file
from framebench.engine import releases
from framebench.engine.environments import SetupError
from framebench.records import provenance
from framebench.suite.selectors import parse
from framebench.versions import bisect, bisection_table
from framebench.versions.bisection_record import FLOOR, Bisection, ReleaseResult
from framebench.versions.planned import PlanBench
from tests.callbacks import ignore
from tests.fake_records import change_provenance, make_measured
from tests.processes import framebench

RELEASES = [f"1.{number}" for number in range(12)]
JAX = ["0.9.0", "0.9.2", "0.10.0", "0.10.2"]
CASE = "unet3d/jax/train/fp32/b4/tiny"


Values = tuple[float, ...]  # of two processes
OLD, NEW = (100.0, 100.0), (130.0, 130.0)
NOISY: Values = (100.0, 125.0)
FAILED: Values = ()  # it cannot be measured


def bisect_values(values: list[Values]) -> Bisection:
    """Bisect with the values that each of the twelve releases gives."""

    def measure(release: str) -> ReleaseResult:
        found = values[RELEASES.index(release)]
        reason = None if found else "no such wheel"
        return ReleaseResult(release=release, values=found, instrument="host.rss", reason=reason)

    return bisect.bisect_releases(parse(CASE), 0.01, RELEASES, measure)


@pytest.mark.parametrize("where", range(1, 12))
@pytest.mark.parametrize("after", [129.0, 70.0])
def test_the_first_release_that_changed_is_named_in_few_measurements(where, after):
    bisection = bisect_values([OLD] * where + [(after, after)] * (12 - where))

    assert bisection.outcome == "found"
    assert bisection.first == RELEASES[where]
    assert bisection.last_unchanged == RELEASES[where - 1]
    change = after / OLD[0] - 1
    assert f"{change:+.1%} against {RELEASES[where - 1]}" in bisection.answer

    tried = [result.release for result in bisection.tried]
    assert len(tried) == len(set(tried)), "each release once"
    assert len(tried) <= 6  # both ends, then log2 of the 12 releases, rounded up


@pytest.mark.parametrize("release_count", range(1, 13))
def test_the_most_releases_that_are_announced_are_measured_where_it_takes_longest(release_count):
    names = RELEASES[:release_count]
    tried_counts = []
    for where in range(1, release_count + 1):  # the last: nothing changes

        def measure(release: str, where: int = where) -> ReleaseResult:
            values = OLD if RELEASES.index(release) < where else NEW
            return ReleaseResult(release=release, values=values, instrument="host.rss")

        bisection = bisect.bisect_releases(parse(CASE), 0.01, names, measure)
        tried_counts.append(len(bisection.tried))

    assert max(tried_counts) == bisect.count_most_releases(release_count)


def test_a_change_below_the_threshold_is_not_reported():
    bisection = bisect_values([(100.0 + release / 100,) for release in range(12)])
    assert (bisection.outcome, bisection.first) == ("no change", None)
    assert [result.release for result in bisection.tried] == ["1.0", "1.11"]
    assert "+0.11%" in bisection.answer


def test_a_change_within_the_noise_of_a_release_names_none():
    bisection = bisect_values([OLD] * 11 + [(100.0, 110.0)])
    assert (bisection.outcome, bisection.first) == ("undecided", None)
    assert "differ by 10.00%" in bisection.answer


@pytest.mark.parametrize(
    ("values", "first", "between"),
    [
        ([OLD] * 6 + [FAILED] * 2 + [NEW] * 4, "1.8", ("1.6", "1.7")),
        ([OLD] * 5 + [NOISY] + [NEW] * 6, "1.6", ("1.5",)),
    ],
    ids=["not measured", "too noisy"],
)
def test_releases_stepped_over_before_the_change_are_named_with_it(values, first, between):
    bisection = bisect_values(values)
    assert (bisection.outcome, bisection.first, bisection.between) == (
        "one of several",
        first,
        between,
    )
    assert f"{', '.join(between)} or {first}" in bisection.answer


def test_releases_that_fail_away_from_the_change_are_skipped():
    before = [FAILED, FAILED, OLD, OLD, OLD, FAILED, OLD, OLD]
    bisection = bisect_values([*before, NEW, NEW, NEW, FAILED])
    assert (bisection.outcome, bisection.first, bisection.last_unchanged) == ("found", "1.8", "1.7")
    text = bisection_table.make_table(bisection).markdown()
    assert "| stepped over | no such wheel |" in text
    assert "+30.0%" in text


def test_bisection_ignores_a_change_in_the_other_direction():
    """A small drop before the rise is not taken for it.

    So it is with JAX for a small U-Net: 0.10.1 needs less than 0.9.2, and 0.10.2 more than both.
    """
    bisection = bisect_values([(100.0,)] * 3 + [(97.7,)] * 6 + [(136.0,)] * 3)
    assert (bisection.first, bisection.last_unchanged) == ("1.9", "1.8")
    assert "+39.2% against 1.8" in bisection.answer


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([FAILED] * 12, "none of the 12"),
        ([FAILED] * 4 + [OLD] + [FAILED] * 7, "only 1.4 of the 12"),
    ],
    ids=["none", "one"],
)
def test_too_few_releases_that_run_give_no_answer(values, message):
    bisection = bisect_values(values)
    assert bisection.outcome == "not measured"
    assert message in bisection.answer
    assert len(bisection.tried) == 12


def test_noise_has_a_floor_and_instruments_are_not_mixed():
    one = ReleaseResult(release="1", values=(1000.0,), instrument="a")
    near = ReleaseResult(release="2", values=(1000.9,), instrument="a")
    other = ReleaseResult(release="3", values=(2000.0,), instrument="b")
    assert near.has_changed(one, FLOOR) is False
    assert other.has_changed(one, 0.01) is None


def make_bench(folder: Path) -> bisect.ReleaseBench:
    return bisect.ReleaseBench(parse(CASE), "s", folder, ignore)


def test_a_resumed_search_measures_no_release_again(tmp_path, monkeypatch):
    """The first search dies in its third release, and the second begins there."""
    measured = []
    record = make_measured("fp32", peak=100, framework="jax", instrument="compiler.plan")

    def fill(self, variant, run):
        release = variant.environment.version
        measured.append(release)
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured_here = change_provenance(
            record, session=run.id, machine=provenance.read_machine_name()
        )
        peaks = {"compiler.plan": 130 if release >= "1.3" else 100}
        for _ in range(2):
            changes = {"case": CASE, "peaks": peaks}
            run.write(measured_here.model_copy(update=changes), variant)

    monkeypatch.setattr(bisect.ReleaseBench, "measure_processes", fill)
    names = RELEASES[:5]
    with pytest.raises(KeyboardInterrupt):
        bisect.bisect_releases(parse(CASE), 0.01, names, make_bench(tmp_path).measure)
    bisection = bisect.bisect_releases(parse(CASE), 0.01, names, make_bench(tmp_path).measure)
    assert (bisection.outcome, bisection.first) == ("found", "1.3")
    assert measured == ["1.0", "1.4", "1.2", "1.2", "1.3"]


def test_a_release_that_cannot_be_installed_has_its_reason(tmp_path, monkeypatch):
    refusal = SetupError("pip ended with exit code 1; the end of log:\nERROR: No distribution")
    monkeypatch.setattr(bisect.ReleaseBench, "measure_processes", Mock(side_effect=refusal))
    reason = make_bench(tmp_path).measure("1.0").reason
    assert reason == "cannot be installed: ERROR: No distribution"


def test_a_failed_process_makes_a_release_without_values():
    fine = make_measured("fp32", 100)
    failed = fine.model_copy(update={"status": "crashed", "reason": "AttributeError"})
    assert bisect.make_result("1", [fine, fine]).values == (100.0, 100.0)
    assert bisect.make_result("1", [fine, failed]).reason == "crashed: AttributeError"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tensorflow", "0.9.2", "0.10.2", CASE], "frameworks: torch, jax, jittor"),
        (["jax", "0.10.2", "0.9.2", CASE], "the older release comes first"),
        (["jax", "0.9.7", "0.10.2", CASE], "the nearest: 0.9.2, 0.10.0"),
        (["jax", "0.9.0", "newest", CASE], "the nearest: 0.10.0, 0.10.2"),
        (["torch", "0.9.0", "0.9.2", CASE], "a case of jax, not of torch"),
        (["jax", "0.9.0", "0.9.2", CASE, "--threshold", "0.01%"], "at least 0.1%"),
        (["torch", "0.9.0", "0.9.2", "transformer/torch/train/ddp/b4x2/tiny"], "a single process"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(arguments, message, tmp_path, monkeypatch):
    monkeypatch.setattr(releases, "list_releases", Mock(return_value=JAX))
    where = "--results", tmp_path
    done = framebench("versions", "bisect", "--framework", *arguments, *where, code=2)
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("newest", "code"), [(130.0, 0), (100.0, 1)])
def test_the_command_answers_by_json_and_exit_code(newest, code, tmp_path, monkeypatch):
    def measure(self, release):
        value = newest if release == "0.10.2" else 100.0
        return ReleaseResult(release=release, values=(value, value), instrument="host.rss")

    monkeypatch.setattr(releases, "list_releases", Mock(return_value=JAX))
    monkeypatch.setattr(bisect.ReleaseBench, "measure", measure)
    arguments = "--framework", "jax", "0.9.0", "0.10.2", CASE, "--results", tmp_path
    done = framebench("versions", "bisect", *arguments, "--json", code=code)
    found = Bisection.model_validate_json(done.stdout)
    assert found.first == ("0.10.2" if code == 0 else None)


def test_a_release_that_is_planned_need_not_be_in_the_index(tmp_path, monkeypatch):
    """It may be for a newer Python only."""
    values = {"0.10.2": 100.0, "0.11.2": 130.0}

    def read_plan(self, release):
        return ReleaseResult(release=release, values=(values[release],), instrument="plan")

    monkeypatch.setattr(releases, "list_releases", Mock(return_value=JAX))
    monkeypatch.setattr(PlanBench, "measure", read_plan)
    file = find_file(tmp_path, "h100-80gb", "jax", "0.11.2")
    file.parent.mkdir(parents=True)
    file.touch()
    arguments = "--framework", "jax", "0.10.2", "0.11.2", CASE, "--results", tmp_path
    done = framebench("versions", "bisect", *arguments, "--device", "h100-80gb", "--json", code=0)
    assert Bisection.model_validate_json(done.stdout).first == "0.11.2"
    assert "pip lists no 0.11.2 for this Python" in done.stderr
    done = framebench("versions", "bisect", *arguments, code=2)
    assert "pip finds no release '0.11.2' of jax" in done.stderr


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_an_environment_stays_only_if_kept_and_complete(
    keep, is_interrupted, tmp_path, monkeypatch
):
    def build(made, where, say, also):
        where.mkdir(parents=True)
        if is_interrupted:
            raise KeyboardInterrupt
        (where / ".complete").touch()

    monkeypatch.setenv("FRAMEBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(releases, "build", build)
    monkeypatch.setattr(releases.environments, "check_tools", ignore)
    try:
        with releases.make_environment("jax", "0.1.0", keep, ignore) as environment:
            assert releases.environments.is_built(environment)
    except KeyboardInterrupt:
        assert is_interrupted
    folders = [path for path in (tmp_path / "releases").iterdir() if path.is_dir()]
    assert bool(folders) == (keep and not is_interrupted)


def test_the_list_of_pip_is_read_oldest_first(monkeypatch):
    class Done:
        stdout = "jax (0.10.2)\nAvailable versions: 0.10.2, 0.9.2, 0.9.0.1, 0.9.0\n"
        stderr = ""

    monkeypatch.setattr(releases.subprocess, "run", Mock(return_value=Done))
    assert releases.list_releases("jax") == ["0.9.0", "0.9.0.1", "0.9.2", "0.10.2"]
    Done.stdout, Done.stderr = "", "ERROR: No matching distribution found for jax"
    with pytest.raises(SetupError, match="No matching distribution"):
        releases.list_releases("jax")
