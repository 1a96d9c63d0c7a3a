"""Test the sentences below the table of `framebench try`."""

from __future__ import annotations

from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.result import Mathematics, StrategyEffect, Verification
from framebench.user_model.table import describe_float64_checks, list_unproven
from tests.fake_records import record


def checked(strategy: str, reason: str = "") -> Record:
    """A record whose strategy was run in float64, or was not for a reason."""
    case = Case("transformer", "torch", "train", strategy, 4, "tiny")
    outcome = Mathematics(case=case.id, computed=not reason, passed=True, reason=reason or None)
    return record(case, verification=Verification(passed=True, mathematics=outcome))


def test_strategies_that_float64_could_not_check_are_named_once_by_their_reason() -> None:
    casts = "it casts by itself"
    records = [
        checked("fp32"),
        checked("checkpoint", casts),
        checked("accumulate", casts),
        checked("compile", "no operator"),
    ]

    assert describe_float64_checks(records) == [
        "1 of 4 strategies were checked in float64",
        "not checked in float64: checkpoint, accumulate: it casts by itself",
        "not checked in float64: compile: no operator",
    ]


def test_the_newest_record_of_a_strategy_counts() -> None:
    records = [checked("fp32", "no operator"), checked("fp32")]
    assert describe_float64_checks(records) == ["1 of 1 strategies were checked in float64"]


def with_effect(strategy: str, effect: StrategyEffect) -> Record:
    return record(Case("transformer", "torch", "train", strategy, 4, "tiny"), effect=effect)


def test_an_effect_that_is_not_proven_is_explained_by_the_expectation_that_failed() -> None:
    failed = "block_runs: expected 8, observed 4"
    records = [
        with_effect("fp32", StrategyEffect(True, {})),
        with_effect("checkpoint", StrategyEffect(False, {"block_runs": 4}, failed)),
        # as records were before they had reasons
        with_effect("accumulate", StrategyEffect(False, {})),
    ]
    assert list_unproven(records) == [f"checkpoint: effect not proven: {failed}"]


def test_what_users_often_meet_is_explained_in_words_of_its_own() -> None:
    evidence = {"products": {"float32": 2, "bfloat16": 6}}
    failed = "products: expected only bfloat16, observed {'float32': 2, 'bfloat16': 6}"
    (line,) = list_unproven([with_effect("amp_bf16", StrategyEffect(False, evidence, failed))])
    assert line.startswith(
        "amp_bf16: effect not proven: 2 of 8 products are still computed in float32"
    )
