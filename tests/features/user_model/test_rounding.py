"""The rule by which a user's model may be off, and that a scale from few draws is treated as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from framebench.engine.environments import Environment
from framebench.features.user_model.rounding import (
    DRAWS,
    FALSE_ALARM,
    FEW,
    FEWEST,
    LEAST,
    Draws,
    explained,
    least_of,
    student,
    with_branches,
)
from framebench.suite.tensors import errors, summaries
from framebench.suite.tolerance import MULTIPLE
from framebench.worker.observe import Observed
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "try_rounds.py"


@pytest.mark.parametrize("degrees", sorted({*DRAWS.values(), 2, 30}))
def test_the_quantile_is_students(degrees: int) -> None:
    assert student(degrees) == pytest.approx(stats.t.isf(FALSE_ALARM / 2, degrees), rel=1e-4)


def seen(array: np.ndarray, loss: float = 1.0) -> Observed:
    return Observed({"loss_0": loss, "loss_1": 2.0}, {"gradient": summaries([("norm.bias", array)])})


def test_right_computations_pass_though_the_scale_is_from_few_draws() -> None:
    """A thousand times: twelve draws that move along one direction, and a thirteenth. Four times the largest of three would
    call some of these wrong."""
    rng = np.random.default_rng(0)
    plain, direction = rng.standard_normal(128), rng.standard_normal(128)
    margins, by_the_largest = [], []
    for _ in range(1000):
        several = [seen(plain + 0.01 * rng.standard_normal() * direction) for _ in range(DRAWS["bf16"] + 1)]
        found = explained(several[:-1], seen(plain), set(), student(DRAWS["bf16"]))["gradient"]["norm.bias"][1]
        off = [errors(one.tensors["gradient"]["norm.bias"], seen(plain).tensors["gradient"]["norm.bias"])[1] for one in several]
        margins.append(off[-1] / (MULTIPLE * found))
        by_the_largest.append(off[-1] / max(off[:3]))
    assert max(margins) < 1
    assert max(by_the_largest) > MULTIPLE, "three draws, and their largest"
    assert max(margins) > 0.2, "nor is it so wide that nothing would be wrong"


def tolerances(draws: list[Observed], plain: np.ndarray, quantile: float) -> list[float]:
    found = explained(draws, seen(plain), set(), quantile)
    return [*found["gradient"]["norm.bias"], found["value"]["loss_0"][0]]


@pytest.mark.parametrize("made", sorted({*FEW.values(), *FEWEST.values()} - {0}))
@pytest.mark.parametrize("in_all", range(LEAST["bf16"], DRAWS["bf16"] + 1, 2))
def test_what_passes_after_a_few_draws_passes_after_all(made: int, in_all: int) -> None:
    """However the other draws come out, and also where steps are slow and not all of them are made: even if they are the
    plain run itself, no tolerance is narrower."""
    rng = np.random.default_rng(1)
    plain = rng.standard_normal(128)
    for spread in (0.0, 1e-3, 1.0):
        first = [seen(plain + 0.01 * rng.standard_normal(128), 1.01) for _ in range(made)]
        others = [seen(plain + spread * rng.standard_normal(128)) for _ in range(in_all - made)]
        few = tolerances(first, plain, least_of(made, DRAWS["bf16"]))
        every = tolerances([*first, *others], plain, student(max(in_all, made)))
        assert all(least <= one * (1 + 1e-9) for least, one in zip(few, every, strict=True))
        assert min(few) > 0, "nor is it nothing"


def test_few_draws_let_most_right_computations_pass_and_none_that_is_far_off() -> None:
    """What they do not decide waits for the others: of a thousand that are right about one in seventy."""
    rng = np.random.default_rng(2)
    plain, direction = rng.standard_normal(128), rng.standard_normal(128)
    waits, missed = 0, 0
    for _ in range(1000):
        several = [seen(plain + 0.01 * rng.standard_normal() * direction) for _ in range(FEW["bf16"])]
        allowed = MULTIPLE * tolerances(several, plain, least_of(FEW["bf16"], DRAWS["bf16"]))[1]
        right, wrong = (seen(plain + 0.01 * size * direction) for size in (rng.standard_normal(), 20))
        off = [
            errors(one.tensors["gradient"]["norm.bias"], seen(plain).tensors["gradient"]["norm.bias"])[1]
            for one in (right, wrong)
        ]
        waits, missed = waits + (off[0] > allowed), missed + (off[1] <= allowed)
    assert waits < 40
    assert missed == 0


def test_a_first_look_draws_a_few_and_says_nothing_of_it() -> None:
    assert Clock(0.1).drawn(draws := Draws(20.0, few=True)) == FEW
    assert (draws.in_words(), draws.quantile("fp32")) == ("", pytest.approx(student(DRAWS["fp32"])))
    assert draws.quantile("bf16") == pytest.approx(student(DRAWS["bf16"]) / 3**0.5)
    slow = Clock(30.0)
    assert slow.drawn(Draws(20.0, slow, few=True)) == FEWEST


def test_what_is_lost_has_no_scale_and_losses_share_theirs() -> None:
    plain = np.ones(4)
    found = explained([seen(plain, 1.01), seen(plain, 1.0)], seen(plain), {"norm.bias"}, student(2))
    assert found["gradient"] == {}
    assert found["value"]["loss_0"] == found["value"]["loss_1"] != (0.0, 0.0)


def test_a_branch_that_few_draws_miss_shows_in_coarser_ones() -> None:
    smooth, branch = (1e-6, 1e-6), (1e-6, 1e-3)
    fine = {"gradient": {"smooth": smooth, "branchy": smooth}}
    coarse = {"gradient": {"smooth": (2e-4, 2e-4), "branchy": (1e-2, 1e-3)}}
    assert with_branches(fine, coarse)["gradient"] == {"smooth": smooth, "branchy": (1e-2, branch[1])}


class Clock:
    """Goes on by a draw's seconds whenever one was made."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        return self.now

    def drawn(self, draws: Draws) -> dict[str, int]:
        for precision in DRAWS:
            for _ in draws.of(precision):
                self.now += self.seconds
        return draws.made


@pytest.mark.parametrize(
    ("seconds", "made"),
    [(0.1, DRAWS), (30.0, LEAST), (1.0, {"fp32": 4, "coarse": 4, "bf16": 12}), (2.0, {"fp32": 4, "coarse": 2, "bf16": 6})],
)
def test_slow_steps_are_drawn_less_often(seconds: float, made: dict[str, int]) -> None:
    clock = Clock(seconds)
    draws = Draws(20.0, clock)
    assert clock.drawn(draws) == made
    assert bool(draws.in_words()) == (made != DRAWS)
    assert all(number % 2 == 0 for number in made.values()), "Student's table here has even numbers alone"
    if made["bf16"] < DRAWS["bf16"]:
        assert f"{made['bf16']} of 12 of bfloat16's" in draws.in_words()
        assert "20 s" in draws.in_words()


def test_large_tensors_are_rounded_as_small_ones_are(environment: dict[str, Environment]) -> None:
    """A large one has the same draws again and again, in the order in which it lies in memory."""
    found = run_inside(environment["torch"], PROGRAM)
    for name, move in found.items():
        assert move["largest"] <= 2.001, name
        assert move["still"] < 1e-3, name
        if name != "one number":
            assert move["spread"] == pytest.approx(1 / 3**0.5, rel=0.03), name
