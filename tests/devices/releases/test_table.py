"""Releases by what they plan for a device: side by side, and the first that changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.devices.plans import store
from framebench.devices.releases import table
from framebench.suite.case import Case
from framebench.versions import bisect, bisection_table
from framebench.versions import planned as of_plans
from framebench.versions.bisection_record import ReleaseResult
from tests.devices.fake_predictions import CASE, MIB, planned
from tests.devices.tables.test_table import H100, larger
from tests.processes import framebench

SIZES = {"0.9.0": 0, "0.9.1": 0, "0.9.2": 24, "0.10.0": 24}  # MiB more than 12


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Return a results folder with predictions of four releases."""
    for version, more in SIZES.items():
        store.write(tmp_path, planned(framework_version=version, **larger(more)))
    return tmp_path


def test_releases_stand_side_by_side_in_their_order() -> None:
    old = [planned(framework_version=v, **larger(n)) for v, n in (("0.10.0", 0), ("0.9.2", 12))]
    (shown,) = table.of_releases([*old, planned(case=CASE.replace("fp32", "scan"))], H100)
    assert shown.head == ("case", "0.9.2", "0.10.0", "change"), (
        "of the others no case was planned by two"
    )
    assert shown.rows == ((CASE, "24.0", "12.0", "-50.00%"),)
    assert not list(table.of_releases([planned()], H100))


def test_what_a_simulation_has_of_another_release_is_said() -> None:
    case, rules = CASE.replace("/jax/", "/torch/"), "The allocator is PyTorch 2.13's."
    simulated = {
        "case": case,
        "framework": "torch",
        "source": "allocator.simulated",
        "parts": {"allocated": 11 * MIB},
    }
    pair = [
        planned(framework_version=v, notes=n, **simulated)
        for v, n in (("2.12.1", (rules,)), ("2.13.0", ()))
    ]
    (shown,) = table.of_releases(pair, H100)
    assert shown.title.startswith("Releases of PyTorch")
    assert rules in shown.caption
    assert "compiler" not in shown.caption
    assert [row[-1] for row in shown.rows] == ["+0.00%"]


def test_what_releases_planned_is_reported(kept: Path) -> None:
    report = framebench("report", "--device", "h100-80gb", "--results", str(kept))
    assert report.returncode == 0, report.stderr
    assert "Releases of JAX by what they plan" in report.stdout


def test_the_release_is_named_by_its_plan(kept: Path) -> None:
    tried = of_plans.PlanBench(CASE, "h100-80gb", kept).measure
    answer = bisect.bisect_releases(Case.from_id(CASE), 0.01, list(SIZES), tried)
    assert (answer.outcome, answer.first, answer.last_unchanged) == ("found", "0.9.2", "0.9.1")
    assert {one.instrument for one in answer.tried} == {"compiler.plan"}


def test_a_bisection_by_plans_says_so() -> None:
    answer = bisect.bisect_releases(
        Case.from_id(CASE),
        0.01,
        ["0.9.0"],
        lambda name: ReleaseResult(release=name),
        "h100-80gb",
    )
    shown = bisection_table.make_table(answer)
    assert shown.title.endswith(f"{CASE} on one h100-80gb")
    assert "planned, not measured" in shown.caption


def test_a_release_without_a_plan_is_stepped_over(kept: Path) -> None:
    why = {
        "outcome": "not planned",
        "reason": "XLA cannot compile it",
        "peak_bytes": None,
        "parts": {},
    }
    store.write(kept, planned(framework_version="0.9.1", **why))
    answer = bisect.bisect_releases(
        Case.from_id(CASE),
        0.01,
        list(SIZES),
        of_plans.PlanBench(CASE, "h100-80gb", kept).measure,
    )
    assert (answer.outcome, answer.first, answer.between) == ("one of several", "0.9.2", ("0.9.1",))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("versions", "compare", "jittor==1", "jittor==2", CASE, "--device", "h100-80gb"),
            "of jax and torch",
        ),
        (
            ("versions", "compare", "jax==0.9.1", "jax==0.9.2", "--device", "h100-80gb"),
            "which cases?",
        ),
        (
            ("versions", "compare", "jax==0.9.1", "jax==0.9.2", CASE, "--device", "h100"),
            "the nearest is h100-80gb",
        ),
        (
            ("report", "--device", "tpu-v5e"),
            "predict first: framebench predict CASES --device tpu-v5e",
        ),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    told = framebench(*words, "--results", str(tmp_path))
    assert told.returncode in (1, 2)
    assert said in " ".join(told.stderr.split())
    assert "Traceback" not in told.stderr
