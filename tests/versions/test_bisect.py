"""Bisection over releases: what is named, what is stepped over, and what is measured once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from framebench.engine import releases
from framebench.engine.environments import Environment, SetupError
from framebench.records.pins import find_pinned_version
from framebench.suite.selectors import parse
from framebench.versions import bisect, bisection_table
from framebench.versions.bisection_record import FLOOR, Bisection, ReleaseResult
from tests.fake_records import made
from tests.processes import framebench

RELEASES = [f"1.{i}" for i in range(12)]
JAX = ["0.9.0", "0.9.2", "0.10.0", "0.10.2"]
CASE = "unet3d/jax/train/fp32/b4/tiny"


def searched(
    values: Callable[[int], tuple[float, ...]], minimum: float = 0.01
) -> tuple[Bisection, list[str]]:
    """With the values that each release gives; none for one that cannot be measured."""
    asked: list[str] = []

    def measure(release: str) -> ReleaseResult:
        asked.append(release)
        found = values(RELEASES.index(release))
        return ReleaseResult(
            release=release,
            values=found,
            instrument="host.rss",
            reason=None if found else "no such wheel",
        )

    return bisect.bisect_releases(parse(CASE), "peak", minimum, RELEASES, measure), asked


@pytest.mark.parametrize("where", range(1, 12))
@pytest.mark.parametrize("after", [129.0, 70.0])
def test_the_first_release_that_changed_is_named_in_few_measurements(
    where: int, after: float
) -> None:
    found, asked = searched(lambda i: (after,) * 2 if i >= where else (100.0,) * 2)
    assert (found.outcome, found.first, found.last_unchanged) == (
        "found",
        RELEASES[where],
        RELEASES[where - 1],
    )
    assert len(asked) == len(set(asked)) <= 6
    assert [t.release for t in found.tried] == asked
    assert f"{after / 100 - 1:+.1%} against {RELEASES[where - 1]}" in found.answer


def test_nothing_changed() -> None:
    found, asked = searched(lambda i: (100.0 + i / 100,))
    assert (found.outcome, found.first, asked) == ("no change", None, ["1.0", "1.11"])
    assert "+0.11%" in found.answer


def test_a_change_within_the_noise_of_a_release_names_none() -> None:
    found, _ = searched(lambda i: (100.0, 110.0) if i == 11 else (100.0, 100.0))
    assert (found.outcome, found.first) == ("undecided", None)
    assert "differ by 10.00%" in found.answer


def test_a_noisy_release_before_the_change_is_not_named_and_not_ruled_out() -> None:
    found, _ = searched(
        lambda i: (100.0, 125.0) if i == 5 else (130.0,) * 2 if i >= 6 else (100.0,) * 2
    )
    assert (found.outcome, found.first, found.between) == ("one of several", "1.6", ("1.5",))
    found, _ = searched(
        lambda i: (100.0, 140.0) if i == 6 else (130.0,) * 2 if i >= 6 else (100.0,) * 2
    )
    assert (found.first, found.last_unchanged, found.between) == ("1.7", "1.5", ("1.6",))


def test_releases_that_fail_are_stepped_over_and_said() -> None:
    found, _ = searched(lambda i: () if i in (0, 1, 5, 6, 11) else (130.0,) if i >= 8 else (100.0,))
    assert (found.outcome, found.first, found.last_unchanged) == ("found", "1.8", "1.7")
    found, _ = searched(lambda i: () if i in (6, 7) else (130.0,) if i >= 7 else (100.0,))
    assert (found.outcome, found.between) == ("one of several", ("1.6", "1.7"))
    assert "1.6, 1.7 or 1.8" in found.answer
    text = bisection_table.make_table(found).markdown()
    assert text.count("| stepped over | no such wheel |") == 2
    assert "+30.0%" in text


def test_a_change_to_the_other_side_on_the_way_is_not_the_one_looked_for() -> None:
    """As JAX 0.10.1 needs 2 % less for a small U-Net than 0.9.2, and 0.10.2 a third more."""
    found, _ = searched(lambda i: (136.0,) if i >= 9 else (97.7,) if i >= 3 else (100.0,))
    assert (found.first, found.last_unchanged) == ("1.9", "1.8")
    assert "+39.2% against 1.8" in found.answer


@pytest.mark.parametrize(("alive", "said"), [((), "none of the 12"), ((4,), "only 1.4 of the 12")])
def test_too_few_releases_that_run(alive: tuple[int, ...], said: str) -> None:
    found, asked = searched(lambda i: (1.0,) if i in alive else ())
    assert found.outcome == "not measured"
    assert said in found.answer
    assert len(asked) == 12


def test_noise_has_a_floor_and_instruments_are_not_mixed() -> None:
    one = ReleaseResult(release="1", values=(1000.0,), instrument="a")
    near, other = (
        ReleaseResult(release="2", values=(1000.9,), instrument="a"),
        ReleaseResult(release="3", values=(2000.0,), instrument="b"),
    )
    assert near.noise == FLOOR
    assert near.changed(one, FLOOR) is False
    assert other.changed(one, 0.01) is None


def test_a_value_names_its_instrument() -> None:
    """The line of a measurement has the peak that all frameworks share, by another one."""
    plan = ReleaseResult(release="1.0", values=(2.0**20,), instrument="compiler.plan")
    assert bisect.describe_result(plan) == "1.00 MiB (compiler.plan)"


def bench(folder: Path) -> bisect.ReleaseBench:
    return bisect.ReleaseBench(parse(CASE), "peak", "s", folder, lambda _: None)


def test_what_an_interrupted_search_has_measured_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first search dies in its third release, the second begins there."""
    asked: list[str] = []

    class Interrupted(Exception):
        pass

    def fill(self: bisect.ReleaseBench, variant: bisect.Variant, run: bisect.Run) -> None:
        release = variant.environment.version
        asked.append(release)
        if len(asked) == 3:
            raise Interrupted
        record = made("fp32", 130 if release >= "1.3" else 100, 1.0, "jax", "compiler.plan")
        for _ in range(2):
            origin = record.provenance.model_copy(
                update={"session": run.id, "machine": bisect_machine()}
            )
            run.write(record.model_copy(update={"case": CASE, "provenance": origin}), variant)

    def bisect_machine() -> str:
        from framebench.records import provenance

        return provenance.read_machine_name()

    monkeypatch.setattr(bisect.ReleaseBench, "fill", fill)
    four = ["1.0", "1.1", "1.2", "1.3", "1.4"]
    with pytest.raises(Interrupted):
        bench(tmp_path).bisect(four, 0.01)
    found = bench(tmp_path).bisect(four, 0.01)
    assert (found.outcome, found.first) == ("found", "1.3")
    assert asked == ["1.0", "1.4", "1.2", "1.2", "1.3"]


def test_a_release_that_cannot_be_installed_has_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise SetupError(
            "pip ended with exit code 1; the end of log:\nERROR: No matching distribution"
        )

    monkeypatch.setattr(bisect.ReleaseBench, "fill", refused)
    assert bench(tmp_path).measure("1.0").reason == (
        "cannot be installed: ERROR: No matching distribution"
    )


def test_failed_records_are_no_values() -> None:
    fine = made("fp32", 100, 1.0)
    wrong = fine.model_copy(update={"status": "crashed", "reason": "AttributeError"})
    assert bisect.make_result("1", [fine, fine], "peak").values == (100.0, 100.0)
    assert bisect.make_result("1", [fine, wrong], "peak").reason == "crashed: AttributeError"


def test_a_quantity_that_cannot_be_read_has_its_reason() -> None:
    result = bisect.make_result("1", [made("fp32", 100, 1.0)], "instructions")
    assert result.reason == "no instructions could be read here"


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("interrupted", [False, True])
def test_an_environment_is_removed_unless_it_is_kept(
    keep: bool, interrupted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(made: Environment, where: Path, say: object) -> None:
        where.mkdir(parents=True)
        if interrupted:
            raise KeyboardInterrupt
        (where / ".complete").touch()

    monkeypatch.setenv("FRAMEBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(releases, "build", build)
    monkeypatch.setattr(releases.environments, "check_tools", lambda framework: None)
    try:
        with releases.make_environment("jax", "0.1.0", keep, lambda _: None) as made_now:
            assert releases.environments.built(made_now)
    except KeyboardInterrupt:
        assert interrupted
    there = [path for path in (tmp_path / "releases").iterdir() if path.is_dir()]
    assert bool(there) == (keep and not interrupted)
    if there:
        assert releases.find_environment("jax", "0.1.0").python.parent.parent == there[0]
    else:
        with pytest.raises(SetupError, match=r"0\.1\.0; there are"):
            releases.find_environment("jax", "0.1.0")


def test_a_pinned_release_is_the_environment_of_every_other_command() -> None:
    found = releases.describe_release("jax", find_pinned_version("jax"))
    assert found == releases.environments.describe("jax")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tensorflow", "0.9.2", "0.10.2", CASE], "frameworks: torch, jax, jittor"),
        (["jax", "0.10.2", "0.9.2", CASE], "the older release comes first"),
        (["jax", "0.9.2", "0.9.2", CASE], "the older release comes first"),
        (["jax", "0.9.7", "0.10.2", CASE], "the nearest: 0.9.2, 0.10.0"),
        (["jax", "0.9.0", "newest", CASE], "the nearest: 0.10.0, 0.10.2"),
        (["jax", "0.1", "0.10.2", CASE], "the nearest: 0.9.0, 0.9.2"),
        (["torch", "0.9.0", "0.9.2", CASE], "a case of jax, not of torch"),
        (["jax", "0.9.0", "0.9.2", "unet3d/jax/train/nothing/b4/tiny"], "fp32"),
        (["jax", "0.9.0", "0.9.2", CASE, "--threshold", "0.01%"], "at least 0.1%"),
        (["torch", "0.9.0", "0.9.2", "transformer/torch/train/ddp/b4x2/tiny"], "a single process"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "list_releases", lambda framework: JAX)
    framework, *words = arguments
    done = framebench(
        "versions", "bisect", "--framework", framework, *words, "--results", str(tmp_path)
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_list_of_pip_is_read_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = (
        "jax (0.10.2)\nAvailable versions: 0.10.2, 0.9.2, 0.9.0.1, 0.9.0\n  INSTALLED: 0.9.2\n"
    )

    class Done:
        stdout, stderr = printed, ""

    monkeypatch.setattr(releases.subprocess, "run", lambda *_, **__: Done)
    assert releases.list_releases("jax") == ["0.9.0", "0.9.0.1", "0.9.2", "0.10.2"]
    Done.stdout, Done.stderr = "", "ERROR: No matching distribution found for jax"
    with pytest.raises(SetupError, match="No matching distribution"):
        releases.list_releases("jax")


@pytest.mark.parametrize(("newest", "code"), [(130.0, 0), (100.0, 1), (None, 1)])
def test_the_command_answers_by_json_and_exit_code(
    newest: float | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(self: bisect.ReleaseBench, release: str) -> ReleaseResult:
        value = newest if release == "0.10.2" else 100.0
        return ReleaseResult(
            release=release,
            values=() if newest is None or value is None else (value, value),
            instrument="host.rss",
        )

    monkeypatch.setattr(releases, "list_releases", lambda framework: JAX)
    monkeypatch.setattr(bisect.ReleaseBench, "measure", measure)
    done = framebench(
        "versions",
        "bisect",
        "--framework",
        "jax",
        "0.9.0",
        "0.10.2",
        CASE,
        "--json",
        "--results",
        str(tmp_path),
    )
    assert done.returncode == code, done.stderr
    found = Bisection.model_validate_json(done.stdout)
    assert found.first == ("0.10.2" if code == 0 else None)
    assert {t.release for t in found.tried} <= set(JAX)
