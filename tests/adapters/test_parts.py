"""Strategies that set the same part are refused; wrappers are never lost, in whatever order the
strategies come.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest

from framebench.adapters.parts import AdapterParts, Hooks, Ledger, PartOptions
from framebench.strategies.strategy import IncompatibleStrategies


@dataclass
class Step(AdapterParts):
    """A step with two parts, which are named here."""

    loss_scale: float = 1.0
    optimizer: str = "plain"


def change_optimizer(step: Step, how: str) -> None:
    """Change the optimizer of a step as a strategy does."""
    if how == "wrap":
        step.wrap("optimizer", "wrapped {}".format)
    elif how == "claim":
        step.claim("optimizer")
    elif how == "keep":
        step.optimizer = step.optimizer
    else:
        step.optimizer = "8-bit" if how == "set" else "other"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("set", "set otherwise"),
        ("keep", "set"),
        ("claim", "set"),
        ("claim", "wrap"),
        ("set", "claim"),
        ("wrap", "claim"),
    ],
)
def test_two_strategies_that_change_one_part_are_refused_and_named(first, then):
    ledger = Ledger()
    step = Step(ledger)
    with ledger.acting_as("one"):
        change_optimizer(step, first)
        change_optimizer(step, first)
    before = step.optimizer
    message = "one and other do not combine: both change the optimizer"
    with ledger.acting_as("other"), pytest.raises(IncompatibleStrategies, match=message):
        change_optimizer(step, then)
    assert step.optimizer is before


@pytest.mark.parametrize(
    ("first", "then", "result"),
    [("set", "wrap", "wrapped 8-bit"), ("wrap", "set", "wrapped 8-bit"), ("set", "set", "8-bit")],
)
def test_a_wrapper_is_kept_in_any_order(first, then, result):
    """The same setting twice is no conflict either."""
    ledger = Ledger()
    step = Step(ledger)
    with ledger.acting_as("one"):
        change_optimizer(step, first)
    with ledger.acting_as("other"):
        change_optimizer(step, then)
    ledger.finish()
    assert step.optimizer == result


def test_a_hook_acts_in_its_strategys_name():
    ledger = Ledger()
    step = Step(ledger)
    hooks = Hooks(ledger)
    with ledger.acting_as("late"):
        hooks.append(partial(change_optimizer, step, "set"))
    with ledger.acting_as("wrapper"):
        change_optimizer(step, "wrap")
    ledger.finish()
    with pytest.raises(IncompatibleStrategies, match="wrapper and late"):
        hooks()


def test_options_conflict_by_their_key():
    ledger = Ledger()
    options = PartOptions(ledger, "model option")
    message = "one and other do not combine: both change the model option 'attend'"
    with ledger.acting_as("one"):
        options["attend"] = "one"
    with ledger.acting_as("other"):
        options["gelu"] = "other"
        options.wrap("attend", "wrapped {}".format)
        options.wrap("remat", "wrapped {}".format)
        with pytest.raises(IncompatibleStrategies, match=message):
            options["attend"] = "other"
    ledger.finish()
    assert options == {"attend": "wrapped one", "gelu": "other", "remat": "wrapped None"}


def test_every_part_may_be_set_while_no_strategy_acts():
    ledger = Ledger()
    step = Step(ledger)
    with ledger.acting_as("one"):
        step.loss_scale = 2.0
    step.loss_scale = 3.0
    assert step.loss_scale == 3.0


def test_a_part_that_does_not_exist_cannot_be_wrapped():
    with pytest.raises(AttributeError, match="optimiser"):
        Step(Ledger()).wrap("optimiser", str)
