"""Numbers of a card that is not here: a prediction's published error is in the interval, against it
on both sides.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framebench.claims.measures import Planned, PlannedReport, PlannedShare
from framebench.claims.plans import Plan, bound_bytes, divide_plans, find_report
from framebench.claims.refs import Ref
from framebench.claims.rule import NoNumber, Target, decide

FILE = Path("made-up.json")
LESS = Target(-1, 1.0, 0.01)


def plan(peak: int, error: float = 0.1, standing: int = 0) -> Plan:
    return Plan(FILE, "1", error, peak, standing, peak)


@pytest.mark.parametrize("error", [0.0, 0.05, 0.1])
def test_every_pair_of_measured_peaks_within_the_error_is_in_the_interval(error: float) -> None:
    found = divide_plans(plan(60, error), plan(100, error), "peak")
    assert found.value == pytest.approx(0.6)
    for one in (-error, 0.0, error):
        for other in (-error, 0.0, error):
            measured = (60 / (1 + one)) / (100 / (1 + other))
            assert found.low - 1e-9 <= measured <= found.high + 1e-9
    worst = (1 + error) / (1 - error)
    assert (found.low, found.high) == pytest.approx((0.6 / worst, 0.6 * worst))


def test_an_effect_within_the_error_is_undecided() -> None:
    assert decide(divide_plans(plan(90, 0.08), plan(100, 0.08), "peak"), LESS) == "undecided"
    assert decide(divide_plans(plan(60, 0.08), plan(100, 0.08), "peak"), LESS) == "confirmed"
    assert decide(divide_plans(plan(100, 0.08), plan(100, 0.08), "peak"), LESS) == "undecided", (
        "too coarse for none"
    )


def test_what_a_step_adds_has_the_errors_of_both_its_parts() -> None:
    least, value, most = bound_bytes(plan(100, 0.1, standing=40), "added")
    assert value == 60
    assert (least, most) == pytest.approx((100 / 1.1 - 40 / 0.9, 100 / 0.9 - 40 / 1.1))
    assert bound_bytes(plan(100, 0.1, standing=95), "added")[0] == 1, "never below nothing"


class Plans:
    """A store of plans alone."""

    def __init__(self, results: Path = Path(), **plans: Plan) -> None:
        self.results, self.plans = SimpleNamespace(root=results), plans

    def plan(self, case: Any) -> Plan | None:
        return self.plans.get(f"b{case.batch}")


def at(batch: int, size: str = "") -> Ref:
    return Ref("resnet50", "torch", "eval", "no_grad", batch=batch, own_size=size)


def test_growth_with_the_batch_is_an_exponent_with_the_error_of_both_plans() -> None:
    measure = Planned("peak", at(128), at(32), is_growth=True)
    assert measure.effect(Plans(b32=plan(100, 0.0), b128=plan(400, 0.0)), "cpu") == (1, 1, 1)  # type: ignore[arg-type]
    found = measure.effect(Plans(b32=plan(100), b128=plan(200)), "cpu")  # type: ignore[arg-type]
    assert found.value == pytest.approx(0.5)
    assert found.low < 0.5 < found.high
    with pytest.raises(NoNumber, match="b32/full was not planned"):
        measure.effect(Plans(b128=plan(400)), "cpu")  # type: ignore[arg-type]


def test_what_is_kept_for_the_backward_pass_is_a_part_of_its_own() -> None:
    few, many = (Plan(FILE, "1", 0.0, 100, 0, 100, kept=kept) for kept in (20, 80))
    assert Planned("kept", at(1), at(2)).effect(Plans(b1=few, b2=many), "cpu").value == 0.25  # type: ignore[arg-type]


def test_a_planned_peak_fills_a_part_of_a_card_that_is_named() -> None:
    found = PlannedShare(at(1, "full"), 200).effect(Plans(b1=plan(100)), "cpu")  # type: ignore[arg-type]
    assert found == pytest.approx((0.5, 0.5 / 1.1, 0.5 / 0.9))


def test_what_a_release_plans_of_a_reported_program_is_exact(tmp_path: Path) -> None:
    parts = {"arguments": 10, "outputs": 5, "temporaries": 85, "aliased": None}
    programs = {"jax 1": {"plain": parts, "recomputed": parts | {"temporaries": 35}}}
    file = find_report(tmp_path, "0.10.2")
    file.parent.mkdir(parents=True)
    report = {
        "device": "h100-80gb",
        "framework_version": "0.10.2",
        "programs": programs,
        "code": "1",
        "planned_at": "2026-11-28T00:00:00+00:00",
        "commit": None,
    }
    file.write_text(json.dumps(report))
    assert PlannedReport("0.10.2", "jax 1", "recomputed", "plain").effect(
        Plans(tmp_path), "cpu"
    ) == (0.5, 0.5, 0.5)  # type: ignore[arg-type]
    with pytest.raises(NoNumber, match=r"not planned by JAX 0\.4"):
        PlannedReport("0.4", "jax 1", "recomputed", "plain").effect(Plans(tmp_path), "cpu")  # type: ignore[arg-type]
