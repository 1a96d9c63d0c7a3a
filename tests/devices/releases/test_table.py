"""Releases by what they plan for a device: side by side, and the first that changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.devices.plans import store
from framebench.devices.releases import table
from framebench.suite.case import Case
from framebench.versions import bisect
from framebench.versions import planned as of_plans
from tests.devices.made import CASE, planned
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
    assert shown.head == ("case", "0.9.2", "0.10.0", "change"), "of the others no case was planned by two"
    assert shown.rows == ((CASE, "24.0", "12.0", "-50.00%"),)
    assert not list(table.of_releases([planned()], H100))


def test_cached_predictions_of_releases_are_shown(kept: Path) -> None:
    asked = [word for version in ("0.9.0", "0.9.2") for word in ("--version", version)]
    told = framebench(
        "versions", "run", "--framework", "jax", CASE, "--device", "h100-80gb", *asked, "--results", str(kept)
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "+200.00%" in told.stdout
    report = framebench("report", "--device", "h100-80gb", "--results", str(kept))
    assert report.returncode == 0, report.stderr
    assert "Releases of JAX by what they plan" in report.stdout


def test_bisect_finds_the_release_by_predictions(kept: Path) -> None:
    tried = of_plans.measure(CASE, "h100-80gb", kept)
    answer = bisect.answer_of(Case.of(CASE), "peak", 0.01, list(SIZES), tried)
    assert (answer.outcome, answer.first, answer.last_unchanged) == ("found", "0.9.2", "0.9.1")
    assert {one.instrument for one in answer.tried} == {"compiler.plan"}


def test_bisect_skips_a_release_without_a_prediction(kept: Path) -> None:
    why = {"outcome": "not planned", "reason": "XLA cannot compile it", "peak_bytes": None, "parts": {}}
    store.write(kept, planned(framework_version="0.9.1", **why))
    answer = bisect.answer_of(Case.of(CASE), "peak", 0.01, list(SIZES), of_plans.measure(CASE, "h100-80gb", kept))
    assert (answer.outcome, answer.first, answer.between) == ("one of several", "0.9.2", ("0.9.1",))
