"""The newest release against the pinned one: what is measured, what fails the command, and what is
no news.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from framebench.engine import releases
from framebench.engine.environments import Environment, SetupError
from framebench.records import provenance
from framebench.records.pins import find_pinned_version
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS
from framebench.versions import newest, planned
from framebench.versions.accepted import AcceptedRegression
from framebench.versions.newest import ReleasePair, judge_newest
from tests.callbacks import ignore
from tests.fake_records import change_provenance
from tests.processes import framebench
from tests.version_records import (
    Change,
    break_record,
    keep_record,
    make_version_blocks,
    scale_peaks,
    scale_times,
    select_originals,
    write_records,
)

PAIR = ReleasePair("jax", "0.9.2", "0.10.2")


def make_sides(count: int = 5, change: Change = keep_record) -> tuple[list[Record], list[Record]]:
    """Return a case's records under the pinned release, and under the newest with a change."""
    records = make_version_blocks(select_originals(1)[0], count, change)
    return records[::2], records[1::2]


def drop_peaks(record: Record) -> Record:
    return record.model_copy(update={"peaks": {}})


def enlarge_by(factor: float) -> Change:
    return lambda record, number: scale_peaks(record, factor)


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (["2.12.1", "2.13.0", "2.13.0+cpu"], "2.13.0"),
        (["2.14.0+cpu", "2.14.0+cu130"], "2.14.0"),
    ],
)
def test_the_newest_release_is_named_without_its_build(listed, found, monkeypatch):
    monkeypatch.setattr(releases, "list_releases", Mock(return_value=listed))
    assert releases.list_newest_first("torch")[0] == found


@pytest.mark.parametrize(
    ("pinned", "index", "is_current"),
    [
        ("0.9.2", "0.10.0", False),
        ("0.10.2", "0.10.2", True),
        ("1.3.11.0", "1.3.9.14", True),
    ],
)
def test_releases_are_ordered_by_version_and_not_by_letter(pinned, index, is_current):
    assert ReleasePair("jax", pinned, index).is_current is is_current


def break_last(record: Record, number: int) -> Record:
    return break_record(record, number) if number == 4 else record


def take_longer(record: Record, number: int) -> Record:
    return scale_times(record, 1.5)


def die_early(record: Record, number: int) -> Record:
    """Return a process that died before it could tell its version."""
    return change_provenance(break_record(record, number), versions={})


@pytest.mark.parametrize(
    ("change", "outcome", "code"),
    [
        (keep_record, "same", 0),
        (enlarge_by(1.05), "regression", 1),
        (enlarge_by(0.95), "same", 0),
        (take_longer, "regression", 1),
        (break_last, "broken", 1),
        (die_early, "broken", 1),
    ],
)
def test_a_newest_release_has_a_verdict_and_an_exit_code(change, outcome, code):
    judgement = judge_newest(PAIR, *make_sides(change=change))
    assert (judgement.outcome, judgement.exit_code) == (outcome, code), judgement.answer
    assert judgement.answer.startswith("jax 0.10.2 against 0.9.2: ")


def test_cases_that_failed_before_are_no_regression():
    pinned, fails_now = make_sides(change=break_record)
    _, works_now = make_sides()
    failed_before = [break_record(record) for record in pinned]
    assert judge_newest(PAIR, failed_before, fails_now).exit_code == 0
    assert judge_newest(PAIR, failed_before, works_now).exit_code == 0


def test_too_little_to_judge_is_undecided_and_does_not_pass():
    pinned, now = make_sides(2)
    without_peaks = [drop_peaks(record) for record in now]
    assert judge_newest(PAIR, pinned, without_peaks).exit_code == 3
    assert judge_newest(PAIR, [], []).outcome == "undecided"


def test_a_regression_below_the_threshold_is_not_reported():
    pinned, newest = make_sides(change=enlarge_by(1.05))
    assert judge_newest(PAIR, pinned, newest, threshold=0.3).outcome == "same"


def test_an_accepted_regression_is_listed_with_its_reason_and_is_no_failure():
    pinned, newest = make_sides(change=enlarge_by(1.05))
    entry = AcceptedRegression(
        release="jax==0.10.2", cases="*", quantity="peak memory", at_most=1.1, reason="known"
    )
    verdict = judge_newest(PAIR, pinned, newest, accepted=[entry])
    assert (verdict.outcome, verdict.exit_code) == ("same", 0)
    assert "no new regression" in verdict.answer
    (accepted,) = verdict.as_dict()["known_regressions"]
    assert accepted["accepted"] == "known"


Index = dict[str, list[str]]


@pytest.fixture
def index(monkeypatch) -> Index:
    """Return the releases that the index lists of each framework: at first the pinned one."""
    listed = {framework: [find_pinned_version(framework)] for framework in FRAMEWORKS}
    monkeypatch.setattr(releases, "list_releases", lambda framework: ["0.0.1", *listed[framework]])
    return listed


@pytest.fixture
def installed(monkeypatch, tmp_path) -> list[str]:
    """Return what is made and removed; nothing is built, and 99.0.2 cannot be installed."""
    log = []

    @contextmanager
    def make(framework: str, version: str, keep: bool, say: object) -> Iterator[Environment]:
        if version == "99.0.2":
            raise SetupError("pip ended with exit code 1")
        log.append(f"made {version}")
        yield Environment(framework, version, tmp_path / "bin" / "python")
        log.append(f"removed {version}")

    describe = newest.environments.describe
    monkeypatch.setattr(releases, "make_environment", make)
    monkeypatch.setattr(newest.environments, "ensure", lambda name, *_: describe(name))
    monkeypatch.setattr(newest.environments, "warm", ignore)
    return log


def plant_records(change: Change) -> Callable[..., list[str]]:
    """Return what takes the place of a measurement, which must be of both versions in one call: it
    writes records of this session, and of another.
    """

    def measure(
        cases: Any, environments: dict[str, Environment], blocks: int, session: str, *rest: Any
    ) -> list[str]:
        _, results, _ = rest
        versions = list(environments)
        assert len(versions) == 2
        original = next(record for record in select_originals(99) if record.parsed in cases)
        both = make_version_blocks(original, blocks, change, session)
        both += make_version_blocks(original, blocks, enlarge_by(2), "of last week")
        mine = []
        for place, record in enumerate(both):
            version = {"jax": versions[place % 2]}
            machine = provenance.read_machine_name()
            mine.append(change_provenance(record, versions=version, machine=machine))
        write_records(mine, results)
        return [record.status for record in mine]

    return measure


@pytest.mark.usefixtures("index")
def test_nothing_is_measured_where_the_pinned_release_is_the_newest(tmp_path):
    done = framebench("versions", "newest", results=tmp_path, code=0)
    assert done.stderr.count("the index has no newer release") == len(FRAMEWORKS)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("change", "code"), [(keep_record, 0), (enlarge_by(1.05), 1)])
def test_a_newer_release_is_measured_and_judged_by_its_own_session(
    change, code, index, installed, tmp_path, monkeypatch
):
    index["jax"].append("99.0.1")
    monkeypatch.setattr(newest.measure, "measure", plant_records(change))
    done = framebench("versions", "newest", "jax", results=tmp_path, code=code)
    assert f"jax 99.0.1 against {find_pinned_version('jax')}" in done.stdout
    assert installed == ["made 99.0.1", "removed 99.0.1"]
    # tables of the suite have no release that nobody pinned
    assert not list(tmp_path.glob("records"))
    assert not list((tmp_path / newest.FOLDER).glob(".session*"))


def test_an_uninstallable_release_fails_and_others_are_judged(
    index, installed, tmp_path, monkeypatch
):
    index["jax"].append("99.0.1")
    index["jittor"].append("99.0.2")
    monkeypatch.setattr(newest.measure, "measure", plant_records(keep_record))
    frameworks = "jittor", "jax", "torch"
    done = framebench("versions", "newest", *frameworks, "--json", results=tmp_path, code=1)
    outcomes = [answer["outcome"] for answer in json.loads(done.stdout)]
    assert outcomes == ["cannot be installed", "same", "current"]
    assert "99.0.2 cannot be installed: pip ended with exit code 1" in done.stderr


def test_the_newest_installable_release_is_measured(index, installed, tmp_path, monkeypatch):
    index["jax"] += ["99.0.1", "99.0.2"]
    monkeypatch.setattr(newest.measure, "measure", plant_records(keep_record))
    done = framebench("versions", "newest", "jax", "--json", results=tmp_path)
    (answer,) = json.loads(done.stdout)
    assert (answer["outcome"], answer["newest"], done.returncode) == ("same", "99.0.1", 0)
    assert "99.0.2 cannot be installed" in answer["answer"]


def test_plans_are_compared_with_the_newest_installable_release(index, tmp_path, monkeypatch):
    index["jax"] += ["99.0.1", "99.0.2"]
    compared = []

    def ensure_environment(framework, device, version, say):
        if version == "99.0.2":
            raise SetupError("pip ended with exit code 1")

    def compare(base, change, cases, device, *_):
        compared.append((base, change, device, {case.split("/")[1] for case in cases}))
        return 1

    monkeypatch.setattr(planned, "ensure_environment", ensure_environment)
    monkeypatch.setattr(planned, "compare_releases", compare)
    words = ("versions", "newest", "jax", "jittor", "--device", "h100-80gb")
    done = framebench(*words, results=tmp_path)
    pinned = f"jax=={find_pinned_version('jax')}"
    assert compared == [(pinned, "jax==99.0.1", "h100-80gb", {"jax"})]
    assert done.returncode == 1
    assert "99.0.2 cannot be installed" in done.stderr
    assert "jittor has no plans" in done.stderr


def test_an_index_that_does_not_answer_fails_the_run(tmp_path, monkeypatch):
    def refuse(framework):
        raise SetupError(f"pip cannot list the releases of {framework}: no route")

    monkeypatch.setattr(releases, "list_releases", refuse)
    done = framebench("versions", "newest", results=tmp_path)
    assert (done.returncode, "no route" in done.stderr) == (2, True)
