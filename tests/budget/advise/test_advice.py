"""Advice: what is offered fits, nothing faster that fits is left out, and what it says is so when
it is run under a limit.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framebench.analysis.blocks import Blocks
from framebench.analysis.lower_bound import compute_lower_bound
from framebench.analysis.needs import MARGIN
from framebench.analysis.peaks import read_evidence
from framebench.analysis.results import NoRecords
from framebench.budget.advise import show
from framebench.budget.advise.advice import Question, advise, find_change, find_largest_that_fits
from framebench.records.record import Record
from framebench.strategies.registry import find_strategy, list_claims_only
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION
from framebench.suite.result import StrategyEffect, Verification
from tests.advice_records import (
    ALMOST,
    MIB,
    PASSED,
    QUESTION,
    STRATEGIES,
    asked,
    everything,
    made,
    rows,
    several,
)
from tests.fake_records import blocks, in_blocks, provenance, record
from tests.sample_records import MACHINE, RESULTS


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(several, st.integers(0, 12 * MIB), st.sampled_from([None, 4, 8, 12]))
def test_what_is_offered_fits_and_nothing_faster_is_left_out(
    found: list[Record], budget: int, batch: int | None
) -> None:
    question = replace(QUESTION, budget=budget, batch=batch)
    advice = asked(found, question)
    assert all(o.peak.needs <= budget for o in [*advice.fitting, *advice.changed])
    assert all(o.peak.needs > budget for o in advice.beyond)
    assert [o.throughput for o in advice.fitting] == sorted(
        (o.throughput for o in advice.fitting), reverse=True
    )
    assert all(o.case.same_mathematics for o in advice.fitting)
    assert not any(o.case.same_mathematics for o in advice.changed)
    said = {(o.case.framework, o.case.strategy) for o in everything(advice)}
    used = [r for r in rows(found) if not r.only_for_claims]
    # every measured case of the batch that fits with the margin is offered, with its own number
    for r in used:
        if r.batch == batch and math.ceil((r.step_bytes or 0) * MARGIN) <= budget:
            (own,) = (o for o in [*advice.fitting, *advice.changed] if o.case.id == r.case)
            assert (own.peak.kind, own.peak.value, own.throughput) == (
                "measured",
                r.host_rss_bytes,
                r.throughput,
            )
    assert said >= {(r.framework, r.strategy) for r in used}, (
        "of every strategy that people use something is said"
    )
    assert not any(find_strategy("train", strategy).only_for_claims for _, strategy in said), (
        "and nothing of the others"
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    several,
    st.integers(0, 12 * MIB),
    st.integers(0, 12 * MIB),
    st.sampled_from([None, 4, 8, 16]),
)
def test_a_larger_budget_never_makes_the_best_slower(
    found: list[Record], budget: int, more: int, batch: int | None
) -> None:
    small, large = (
        asked(found, replace(QUESTION, budget=b, batch=batch)).fitting
        for b in (budget, budget + more)
    )
    assert len(large) >= len(small)
    if small:
        assert large[0].throughput >= small[0].throughput
        if batch is None:
            roomy = {(o.case.framework, o.case.strategy): o.case.batch for o in large}
            assert all(roomy[o.case.framework, o.case.strategy] >= o.case.batch for o in small)


WRONG = Verification(passed=False, reason="loss_0 is off", relative_error={"loss_0": 0.5})
IDLE = StrategyEffect(proven=False, evidence={"executions": 2})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"status": "oom", "reason": "memory ran out", "peaks": {}, "step_s": []},
            "oom: memory ran out",
        ),
        (
            {"status": "wrong", "reason": "loss_0 is off", "verification": WRONG},
            "wrong: loss_0 is off",
        ),
        ({"verification": None}, "not verified"),
        ({"verification": WRONG}, "not verified"),
        ({"effect": IDLE}, "effect was not confirmed"),
        ({"effect": None}, "effect was not confirmed"),
        ({"peaks": {}}, "no peak"),
    ],
)
def test_what_is_not_right_and_proven_is_no_advice(changes: dict[str, object], why: str) -> None:
    advice = asked(
        [made("torch", "fp32", 4, 100, 1.0), made("torch", "checkpoint", 4, 50, 0.1, **changes)]
    )
    assert [o.case.strategy for o in everything(advice)] == ["fp32"]
    (left,) = advice.left_out.items()
    assert left[0] == "transformer/torch/train/checkpoint/b4/tiny"
    assert why in left[1]
    assert why in "\n".join(show.list_notes(advice, [], every=True))


def test_what_only_tests_an_articles_sentence_is_no_advice() -> None:
    found = [
        made("torch", s, 4, peak, 0.1)
        for s, peak in (("fp32", 100), ("student", 50), ("amp_bf16+gc_frozen", 60))
    ]
    advice = asked(found)
    assert [o.case.strategy for o in everything(advice)] == ["fp32"]
    assert advice.left_out == {}, "nor is it named as something that went wrong"
    offered = {case.split("/")[3] for case in advice.unmeasured}
    assert {"checkpoint", "accumulate"} <= offered
    assert not offered & set(list_claims_only("train")), "nor recommended to be measured"
    with pytest.raises(NoRecords):
        asked(found[1:])


def test_numbers_of_two_versions_or_protocols_are_not_ranked_together() -> None:
    old = provenance(versions={"torch": "0"}, measured_at="2025-01-01T00:00:00Z")
    earlier = provenance(
        versions={"torch": "1"}, measured_at="2025-01-01T00:00:00Z", protocol=VERSION - 1
    )
    found = [
        made("torch", "fp32", 4, 100, 1.0),
        made("torch", "accumulate", 4, 50, 0.1, provenance=old),
        made("torch", "amp_bf16", 4, 50, 0.1, provenance=earlier),
    ]
    offers = everything(asked(found))
    assert [o.case.strategy for o in offers] == ["fp32"]
    newer = provenance(versions={"torch": "1"}, protocol=VERSION + 1)
    without = record(
        Case("transformer", "torch", "train", "tf32", 4, "tiny"),
        status="unsupported",
        provenance=newer,
    )
    assert everything(asked([*found, without])) == offers, (
        "what has no speed takes none from others"
    )


def test_the_cheapest_change_is_the_one_that_costs_least_speed() -> None:
    found = [
        made("torch", "fp32", 4, 3 * MIB, 1.0),
        made("torch", "checkpoint", 4, ALMOST, 1.25),
        made("torch", "accumulate", 4, ALMOST, 2.0),
        made("jax", "fp32", 4, MIB // 4, 0.1),
    ]
    found = list(in_blocks(found))
    advice, known = asked(found), Blocks(found)
    found_change = find_change(advice, "torch", "fp32", known)
    assert found_change
    assert found_change.to
    assert (found_change.to.case.strategy, found_change.speed) == ("checkpoint", pytest.approx(0.8))
    text = show.describe_change(found_change, MIB)
    assert "does not fit 1.0 MiB: the cheapest change is to torch checkpoint" in text
    assert "1.25 (1.25 to 1.25) x its step time (in the same blocks)" in text
    assert find_change(advice, "jittor", "fp32", known) is None
    tight = find_change(asked(found, replace(QUESTION, budget=MIB // 2)), "torch", "fp32", known)
    assert tight
    assert "in its own framework nothing fits" in show.describe_change(tight, MIB // 2)


def test_speeds_that_share_no_block_are_not_compared() -> None:
    found = [made("torch", "fp32", 4, 3 * MIB, 1.0), made("torch", "checkpoint", 4, ALMOST, 1.25)]
    told = find_change(asked(found), "torch", "fp32", Blocks(found))
    assert told
    assert told.speed is None
    assert "at a speed that shares no block with it" in show.describe_change(told, MIB)


def test_the_fastest_is_so_by_the_blocks_it_shares() -> None:
    """Not by throughputs of different hours: in its own blocks checkpoint is the faster one, though
    by then all were slow.
    """
    base, one, other = (
        Case("transformer", "torch", "train", s, 4, "tiny")
        for s in ("fp32", "checkpoint", "accumulate")
    )
    noon = blocks(
        [(base, [[1.0], [1.01], [1.0]]), (other, [[1.2], [1.212], [1.2]])],
        peaks=[MIB // 2, MIB // 4],
        calibration=PASSED,
    )
    night = blocks(
        [(base, [[2.0], [2.01], [2.0]]), (one, [[2.2], [2.21], [2.2]])],
        peaks=[MIB // 2, MIB // 4],
        calibration=PASSED,
    )
    renamed = [
        r.model_copy(
            update={"turns": r.turns.model_copy(update={"block": f"night {r.turns.block}"})}
        )
        for r in night
        if r.turns
    ]
    advice = asked([*noon, *renamed])
    order = [o.case.strategy for o in advice.fitting]
    assert order == ["fp32", "checkpoint", "accumulate"]
    (table,) = show.make_tables(advice)
    column = table.head.index("x torch")
    assert [row[column][:4] for row in table.rows] == ["1.00", "1.10", "1.20"]


def test_what_the_kernel_enforces_decides_with_the_margin_that_is_stated() -> None:
    """Not what the framework counts, though that is its exact counter; and of two peaks just below
    the budget neither.
    """
    found = [
        made("jax", "fp32", 4, MIB - 100, 1.0),
        made("torch", "fp32", 4, MIB - 100, 1.0),
        made("torch", "checkpoint", 4, ALMOST, 2),
    ]
    advice = asked(found)
    assert [o.case.id.split("/")[1:4] for o in advice.fitting] == [["torch", "train", "checkpoint"]]
    assert [o.peak.value for o in advice.beyond] == [MIB - 100, MIB + 900]
    (table,) = show.make_tables(advice)
    assert f"{MARGIN:.2f} x" in table.caption


def test_speeds_without_calibration_are_marked_and_not_ranked_by() -> None:
    slow = [made("torch", "fp32", 4, 1000, 2.0), made("torch", "amp_bf16", 4, 1000, 1.0)]
    fast = made("torch", "checkpoint", 4, 1000, 0.1, provenance=provenance(versions={"torch": "1"}))
    advice = asked([*slow, fast])
    assert [o.case.strategy for o in advice.fitting] == ["amp_bf16", "fp32", "checkpoint"]
    (table,) = show.make_tables(advice)
    assert ["not calibrated" in row[table.head.index("throughput")] for row in table.rows] == [
        False,
        False,
        True,
    ]
    assert "1 speeds are not ranked by" in "\n".join(show.list_notes(advice, []))
    (answer,) = show.describe_answer(asked([fast]), None)
    assert "is fastest" not in answer


def test_what_changes_the_mathematics_is_listed_apart_and_says_so() -> None:
    base = made("torch", "fp32", 4, 200, 1.0)
    found = [
        base.model_copy(update={"case": f"resnet50/torch/finetune/{s}/b4/tiny"})
        for s in ("half", "head")
    ]
    advice = asked(found, Question("resnet50", "finetune", MIB, batch=4, size="tiny"))
    assert [o.case.strategy for o in advice.fitting] == ["half"]
    apart = list(show.make_tables(advice, every=True))[1]
    assert "another model" in apart.title
    assert "the last layer alone trained" in apart.markdown()


def test_if_nothing_fits_the_way_out_is_named() -> None:
    found = [made("torch", "fp32", b, (1 + b) * MIB, 1.0) for b in (4, 8)]
    question = replace(QUESTION, budget=int(3.5 * MIB))
    advice = asked(found, question)
    roomiest = find_largest_that_fits([rows(found)], question)
    assert roomiest
    assert (roomiest.case.batch, roomiest.peak.kind) == (2, "predicted")
    text = "\n".join(show.describe_answer(advice, roomiest))
    assert ("nothing fits. Closest: torch fp32 at batch 4 (needs 5.3 MiB)") in text
    assert "fits: 2, by torch fp32 at batch 2 (needs 3.2 MiB, predicted)" in text
    hopeless = replace(question, budget=1)
    assert find_largest_that_fits([rows(found)], hopeless) is None
    assert "no smaller batch fits" in "\n".join(show.describe_answer(asked(found, hopeless), None))


def test_without_a_batch_the_largest_is_predicted() -> None:
    found = [made("torch", "fp32", b, (1 + b) * MIB, 1.0) for b in (4, 8)]
    (offer,) = asked(found, replace(QUESTION, budget=100 * MIB, batch=None)).fitting
    assert (offer.case.batch, offer.peak.kind) == (94, "predicted")  # 95 MiB and a twentieth
    assert offer.speed
    assert offer.speed.case == "transformer/torch/train/fp32/b8/tiny", (
        "speeds are measured, not predicted"
    )
    (single,) = asked(found[:1], replace(QUESTION, budget=11 * MIB // 2, batch=None)).fitting
    assert (single.case.batch, single.peak.kind) == (4, "measured")
    (split,) = asked(
        [made("torch", "accumulate", 4, MIB, 1.0)], replace(QUESTION, budget=9 * MIB, batch=None)
    ).fitting
    assert split.case.batch % 4 == 0


def test_one_measured_batch_brackets_the_others() -> None:
    """What real records say about the Transformer at batch 8, predicted from batch 4 alone."""
    for framework in FRAMEWORKS:
        rows, _ = read_evidence(RESULTS, MACHINE, "transformer", "train")
        rows = [r for r in rows if (r.framework, r.size) == (framework, "cpu")]
        four = [r for r in rows if (r.strategy, r.batch) == ("fp32", 4)]
        question = Question("transformer", "train", 2**40, (framework,), 8)
        (offer,) = advise([four], question).fitting
        same = ("fp32", 8, offer.evidence.framework_version)
        eight = next(r for r in rows if (r.strategy, r.batch, r.framework_version) == same)
        assert offer.peak.kind == "predicted"
        assert offer.peak.low is not None
        assert offer.peak.low <= (eight.host_rss_bytes or 0) <= offer.peak.needs
        assert offer.peak.low >= compute_lower_bound(offer.case).total


def test_offers_are_sorted_by_batch_when_that_is_asked() -> None:
    found = [
        made("torch", s, b, peak, 1.0)
        for s, peak in (("fp32", 400), ("checkpoint", 200))
        for b in (4, 8)
    ]
    advice = asked(found, replace(QUESTION, budget=4 * MIB, batch=None, by="batch"))
    batches = [o.case.batch for o in advice.fitting]
    assert len(set(batches)) > 1
    assert batches == sorted(batches, reverse=True)
    assert show.describe_order(advice) == "largest batch first"


def test_the_largest_batch_is_named_where_the_fastest_is_another() -> None:
    """Who asks without a batch may have meant it."""
    peaks = (("fp32", 400, 1.0), ("checkpoint", 200, 1.5))
    found = [
        made("torch", s, b, peak * b * 1000, seconds) for s, peak, seconds in peaks for b in (4, 8)
    ]
    advice = asked(found, replace(QUESTION, budget=4 * MIB, batch=None))
    best, largest = (
        advice.fitting[0].case,
        max((o.case for o in advice.fitting), key=lambda case: case.batch),
    )
    assert (best.strategy, largest.strategy) == ("fp32", "checkpoint")
    first, second = show.describe_answer(advice, None)
    assert re.search(rf"fp32 at batch {best.batch} \(needs [^)]+\) is fastest", first)
    assert second == (
        f"The largest batch is {largest.batch}, with torch checkpoint: `--sort batch` orders by it."
    )
    assert (
        len(
            list(
                show.describe_answer(asked(found, replace(QUESTION, budget=4 * MIB, batch=4)), None)
            )
        )
        == 1
    )


def test_strategies_that_are_named_alone_are_looked_among() -> None:
    named = replace(QUESTION, strategies=frozenset({"fp32", "accumulate"}))
    advice = asked([made("torch", name, 4, MIB // 2, 1.0) for name in STRATEGIES], named)
    assert {o.case.strategy for o in advice.fitting} == {"fp32", "accumulate"}
    assert all(case.split("/")[3] in {"fp32", "accumulate"} for case in advice.unmeasured)


TIMED = "fastest of the 2 that were timed"


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ((1.02, 1.06), TIMED),
        ((0.98, 1.04), f"{TIMED}, with torch checkpoint"),
        ((None, None), TIMED),
    ],
)
def test_a_tie_is_not_called_a_victory(
    second: tuple[float | None, float | None], said: str
) -> None:
    """The first has an interval of 0.97 to 1.01."""
    fitting = asked(
        [made("torch", name, 4, MIB // 2, 1.0) for name in ("fp32", "checkpoint", "accumulate")]
    ).fitting
    ends = {"fp32": (0.97, 1.01), "checkpoint": second}
    timed = [
        replace(
            o,
            speed=replace(
                o.speed,
                torch_ratio_low=ends[o.case.strategy][0],
                torch_ratio_high=ends[o.case.strategy][1],
            ),
        )
        if o.speed and o.case.strategy in ends
        else replace(o, speed=None)
        for o in sorted(
            fitting, key=lambda o: ("fp32", "checkpoint", "accumulate").index(o.case.strategy)
        )
    ]
    assert show.describe_fastest(timed).startswith(said)
    assert ("as fast" in show.describe_fastest(timed)) == ("with" in said)
