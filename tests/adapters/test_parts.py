"""Strategies that set the same part are refused; wrappers are never lost, in whatever order the
strategies come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from framebench.adapters.parts import Hooks, Ledger, Options, Parts
from framebench.strategies.strategy import IncompatibleStrategies


@dataclass
class Step(Parts):
    loss_scale: float = 1.0
    optimizer: Callable[[], str] = lambda: "plain"


def around(optimizer: Callable[[], str]) -> Callable[[], str]:
    return lambda: f"wrapped {optimizer()}"


def eight_bits() -> str:
    return "8-bit"


def test_two_strategies_that_set_one_part_are_refused_and_named() -> None:
    step = Step(ledger := Ledger())
    with ledger.acting_as("one"):
        step.loss_scale = 2.0
        step.loss_scale = 4.0
    with (
        ledger.acting_as("other"),
        pytest.raises(
            IncompatibleStrategies, match="one and other do not combine: both change the loss scale"
        ),
    ):
        step.loss_scale = 8.0
    assert step.loss_scale == 4.0


def test_the_same_setting_twice_is_no_conflict_but_a_third_one_is() -> None:
    step = Step(ledger := Ledger())
    for name in ("one", "other"):
        with ledger.acting_as(name):
            step.optimizer = eight_bits
    with ledger.acting_as("third"), pytest.raises(IncompatibleStrategies, match="one and third"):
        step.optimizer = around(eight_bits)


def test_setting_a_part_to_its_default_counts() -> None:
    step = Step(ledger := Ledger())
    with ledger.acting_as("one"):
        step.loss_scale = step.loss_scale
    with ledger.acting_as("other"), pytest.raises(IncompatibleStrategies):
        step.loss_scale = 8.0


@pytest.mark.parametrize("wrapper_first", [True, False])
def test_a_wrapper_is_kept_in_any_order(wrapper_first: bool) -> None:
    step = Step(ledger := Ledger())
    for wraps in (wrapper_first, not wrapper_first):
        with ledger.acting_as("wrapper" if wraps else "setter"):
            if wraps:
                step.wrap("optimizer", around)
            else:
                step.optimizer = eight_bits
    ledger.finish()
    assert step.optimizer() == "wrapped 8-bit"


@pytest.mark.parametrize("wraps", [True, False])
@pytest.mark.parametrize("claim_first", [True, False])
def test_a_claimed_part_is_for_one_strategy_alone(claim_first: bool, wraps: bool) -> None:
    step = Step(ledger := Ledger())

    def change() -> None:
        if wraps:
            step.wrap("optimizer", around)
        else:
            step.optimizer = eight_bits

    acts = {"owner": lambda: step.claim("optimizer"), "other": change}
    first, last = ("owner", "other") if claim_first else ("other", "owner")
    with ledger.acting_as(first):
        acts[first]()
    with (
        ledger.acting_as(last),
        pytest.raises(IncompatibleStrategies, match=f"{first} and {last} do not combine"),
    ):
        acts[last]()


def test_a_hook_sets_parts_in_its_strategys_name_and_drops_no_wrapper() -> None:
    step = Step(ledger := Ledger())
    hooks: Hooks[[]] = Hooks(ledger)
    with ledger.acting_as("late"):
        hooks.append(lambda: setattr(step, "optimizer", eight_bits))
    with ledger.acting_as("wrapper"):
        step.wrap("optimizer", around)
    ledger.finish()
    with pytest.raises(IncompatibleStrategies, match="wrapper and late"):
        hooks()


def test_options_conflict_by_their_key() -> None:
    options = Options(ledger := Ledger(), "model option")
    with ledger.acting_as("one"):
        options["attend"] = 1
    with ledger.acting_as("other"):
        options |= {"gelu": 2}
        options.wrap("attend", lambda there: there + 10)
        options.wrap("remat", lambda there: [there], default="as it is")
        with pytest.raises(
            IncompatibleStrategies,
            match="one and other do not combine: both change the model option 'attend'",
        ):
            options["attend"] = 3
        with pytest.raises(IncompatibleStrategies, match="one and other"):
            options |= {"attend": 3}
    ledger.finish()
    assert options == {"attend": 11, "gelu": 2, "remat": ["as it is"]}


def test_every_part_may_be_set_while_no_strategy_acts() -> None:
    step = Step(ledger := Ledger())
    with ledger.acting_as("one"):
        step.loss_scale = 2.0
    step.loss_scale = 3.0
    assert step.loss_scale == 3.0


def test_a_part_that_does_not_exist_cannot_be_wrapped() -> None:
    with pytest.raises(AttributeError, match="optimiser"):
        Step(Ledger()).wrap("optimiser", around)
