"""The newest release against the pinned one: what is measured, what fails the command, and what is
no news.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from framebench.engine import releases
from framebench.engine.blocks import Listener
from framebench.engine.environments import Environment, SetupError
from framebench.records import provenance, store
from framebench.records.pins import find_pinned_version
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS
from framebench.versions import newest, planned
from framebench.versions.newest import ReleasePair, judge_newest
from tests.processes import framebench
from tests.version_records import (
    Change,
    broken,
    changed,
    larger,
    originals,
    rounds,
    times,
    unchanged,
)

PAIR = ReleasePair("jax", "0.9.2", "0.10.2")
NEXT = {"torch": "99.0.0", "jax": "99.0.1", "jittor": "99.0.2"}  # releases that no pin has


def sides(count: int = 5, change: Change = unchanged) -> tuple[list[Record], list[Record]]:
    """A case's records under the pinned release and under the newest, which the change is of."""
    found = rounds(originals(1)[0], count, change)
    return found[::2], found[1::2]


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (["2.12.1", "2.13.0", "2.14.0"], "2.14.0"),
        (["2.12.1", "2.13.0", "2.13.0+cpu"], "2.13.0"),
        (["2.14.0+cpu", "2.14.0+cu130"], "2.14.0"),
    ],
)
def test_the_newest_release_is_none_of_its_builds(
    listed: list[str], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "list_releases", lambda framework: listed)
    assert releases.list_newest_first("torch")[0] == found


@pytest.mark.parametrize(
    ("pinned", "index", "current"),
    [
        ("0.9.2", "0.10.0", False),
        ("0.10.2", "0.10.2", True),
        ("0.10.2", "0.9.2", True),
        ("1.3.11.0", "1.3.9.14", True),
    ],
)
def test_releases_are_ordered_by_version_and_not_by_letter(
    pinned: str, index: str, current: bool
) -> None:
    assert ReleasePair("jax", pinned, index).is_current is current


@pytest.mark.parametrize(
    ("change", "outcome", "code"),
    [
        (unchanged, "same", 0),
        (lambda r, number: larger(r, 1.05), "regression", 1),
        (lambda r, number: larger(r, 0.95), "same", 0),
        (lambda r, number: times(r, 1.5), "regression", 1),
        (broken, "broken", 1),
        (lambda r, number: broken(r, number) if number == 4 else r, "broken", 1),
        # it died before it could tell its version
        (lambda r, number: changed(broken(r, number), versions={}), "broken", 1),
    ],
)
def test_verdicts(change: Change, outcome: str, code: int) -> None:
    found = judge_newest(PAIR, *sides(change=change))
    assert (found.outcome, found.exit_code) == (outcome, code), found.answer
    assert found.answer.startswith("jax 0.10.2 against 0.9.2: ")


def test_what_fails_under_the_pinned_release_too_is_no_news() -> None:
    pinned, now = sides()
    failed_before, fails_now = ([broken(r, 0) for r in side] for side in (pinned, now))
    assert judge_newest(PAIR, failed_before, fails_now).exit_code == 0
    assert judge_newest(PAIR, pinned, fails_now).outcome == "broken"
    assert judge_newest(PAIR, failed_before, now).exit_code == 0, "repaired"


def test_too_little_to_judge_is_undecided_and_does_not_pass() -> None:
    pinned, now = ([r.model_copy(update={"peaks": {}}) for r in side] for side in sides(2))
    found = judge_newest(PAIR, pinned, now)
    assert (found.outcome, found.exit_code) == ("undecided", 3)
    assert judge_newest(PAIR, [], []).outcome == "undecided"


def test_a_threshold_is_the_least_that_matters() -> None:
    found = sides(change=lambda r, number: larger(r, 1.05))
    assert judge_newest(PAIR, *found, 0.04).outcome == "regression"
    assert judge_newest(PAIR, *found, 0.3).outcome == "same"


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The newest release of each framework, as the index lists it: first those that are pinned."""
    last = {framework: find_pinned_version(framework) for framework in FRAMEWORKS}
    monkeypatch.setattr(releases, "list_releases", lambda framework: ["0.0.1", last[framework]])
    return last


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The environments that are built, and how they end; nothing is."""
    log: dict[str, str] = {}

    @contextmanager
    def environment(framework: str, version: str, keep: bool, say: object) -> Iterator[Environment]:
        log[framework] = "begun"
        if version.endswith(".2"):  # Jittor's
            raise SetupError("pip ended with exit code 1")
        yield Environment(framework, version, tmp_path / "bin" / "python")
        log[framework] = "removed"

    monkeypatch.setattr(releases, "make_environment", environment)
    monkeypatch.setattr(
        newest.environments,
        "ensure",
        lambda framework, version, say: newest.environments.describe(framework),
    )
    monkeypatch.setattr(newest.environments, "warm", lambda *_: None)
    return log


def planted(change: Change) -> Callable[..., list[str]]:
    """In the place of a measurement, which must be of both versions in one call: records of this
    session, and of another.
    """

    def measure(
        cases: object,
        ready: dict[str, Environment],
        blocks: int,
        session: str,
        options: object,
        results: Path,
        listener: Listener,
    ) -> list[str]:
        assert len(ready) == 2
        original = next(r for r in originals(99) if r.parsed in cases)  # type: ignore[operator]
        larger_before: Change = lambda r, number: larger(r, 2)  # noqa: E731
        both = [
            *rounds(original, blocks, change, session),
            *rounds(original, blocks, larger_before, "of last week"),
        ]
        for i, r in enumerate(both):
            version = list(ready)[i % 2]
            mine = changed(r, versions={"jax": version}, machine=provenance.read_machine_name())
            store.append(
                mine,
                store.find_file(results, mine.provenance.machine, ready[version].name),
            )
        return [r.status for r in both]

    return measure


def test_nothing_is_measured_where_the_pinned_release_is_the_newest(
    index: dict[str, str], tmp_path: Path
) -> None:
    done = framebench("versions", "newest", "--results", str(tmp_path))
    assert done.returncode == 0
    assert done.stderr.count("is the newest release") == len(FRAMEWORKS)
    index["jax"] = "0.9.2"
    done = framebench("versions", "newest", "jax", "--json", "--results", str(tmp_path))
    assert done.returncode == 0
    assert "newer than 0.9.2, the last release in the index" in json.loads(done.stdout)[0]["answer"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "code", "outcome"),
    [(unchanged, 0, "same"), (lambda r, number: larger(r, 1.05), 1, "regression")],
)
def test_a_newer_release_is_measured_and_judged_by_its_own_session(
    change: Change,
    code: int,
    outcome: str,
    index: dict[str, str],
    installed: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index["jax"] = NEXT["jax"]
    monkeypatch.setattr(newest.measure, "measure", planted(change))
    done = framebench("versions", "newest", "jax", "--results", str(tmp_path))
    assert done.returncode == code, done.stderr
    assert f"jax {NEXT['jax']} against {find_pinned_version('jax')}" in done.stdout
    assert installed == {"jax": "removed"}
    assert not list(tmp_path.glob("records")), (
        "tables of the suite have no release that nobody pinned"
    )
    assert not list((tmp_path / newest.FOLDER).glob(".session*"))
    (answer,) = json.loads(
        framebench("versions", "newest", "jax", "--json", "--results", str(tmp_path)).stdout
    )
    assert (answer["outcome"], answer["newest"]) == (outcome, NEXT["jax"])
    assert {r["verdict"] == "regression" for r in answer["rows"]} >= {code == 1}


def test_a_release_that_cannot_be_installed_fails_and_the_others_are_judged(
    index: dict[str, str],
    installed: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index |= {"jax": NEXT["jax"], "jittor": NEXT["jittor"]}
    monkeypatch.setattr(newest.measure, "measure", planted(unchanged))
    done = framebench(
        "versions", "newest", "jittor", "jax", "torch", "--json", "--results", str(tmp_path)
    )
    assert done.returncode == 1
    assert [a["outcome"] for a in json.loads(done.stdout)] == [
        "cannot be installed",
        "same",
        "current",
    ]
    assert "99.0.2 cannot be installed: pip ended with exit code 1" in done.stderr


def test_the_next_lower_release_is_measured_where_the_newest_cannot_be_installed(
    installed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        releases,
        "list_releases",
        lambda framework: [find_pinned_version("jax"), "99.0.1", "99.0.2"],
    )
    monkeypatch.setattr(newest.measure, "measure", planted(unchanged))
    done = framebench("versions", "newest", "jax", "--json", "--results", str(tmp_path))
    (answer,) = json.loads(done.stdout)
    assert (answer["outcome"], answer["newest"], done.returncode) == ("same", "99.0.1", 0)
    assert "99.0.2 cannot be installed: pip ended with exit code 1" in answer["answer"]


def test_newest_plans_by_the_newest_release_that_can_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        releases,
        "list_releases",
        lambda framework: [find_pinned_version(framework), NEXT["jax"], NEXT["jittor"]],
    )
    asked = []

    def ensure_environment(framework: str, device: object, version: str, say: object) -> None:
        if version == NEXT["jittor"]:
            raise SetupError("pip ended with exit code 1")

    def compare(base: str, change: str, selectors: list[str], device: str, *_: object) -> int:
        asked.append((base, change, device, {case.split("/")[1] for case in selectors}))
        return 1

    monkeypatch.setattr(planned, "ensure_environment", ensure_environment)
    monkeypatch.setattr(planned, "compare_releases", compare)
    done = framebench(
        "versions", "newest", "jax", "jittor", "--device", "h100-80gb", "--results", str(tmp_path)
    )
    assert done.returncode == 1
    assert asked == [
        (f"jax=={find_pinned_version('jax')}", f"jax=={NEXT['jax']}", "h100-80gb", {"jax"})
    ]
    assert "jittor has no plans" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tensorflow"], "frameworks: torch, jax, jittor"),
        (["jax", "--threshold", "many"], "for instance 5%"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(
    words: list[str], said: str, index: dict[str, str], tmp_path: Path
) -> None:
    done = framebench("versions", "newest", *words, "--results", str(tmp_path))
    assert done.returncode == 2
    assert said in done.stderr


def test_an_index_that_does_not_answer_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(framework: str) -> list[str]:
        raise SetupError(f"pip cannot list the releases of {framework}: no route")

    monkeypatch.setattr(releases, "list_releases", silent)
    done = framebench("versions", "newest", "--results", str(tmp_path))
    assert done.returncode == 2
    assert "no route" in done.stderr
