"""A proof compares what was counted with what was expected, and says what differs."""

import pytest

from framebench.adapters.proof import (
    above,
    at_least,
    at_most,
    below,
    check,
    equal_to,
    expect,
    if_counted,
    including,
    judge_parts,
    none_but,
    only,
    other_than,
)
from framebench.suite.result import StrategyEffect


@pytest.mark.parametrize(
    ("proof", "right", "wrong"),
    [
        (expect(n=above(2)), 3, 2),
        (expect(n=at_least(2)), 2, 1),
        (expect(n=below(2)), 1, 2),
        (expect(n=at_most(2)), 2, 3),
        (expect(n=equal_to("four")), 4, 3),
        (expect(n=below("four", times=2)), 7, 8),
        (expect(n=other_than("")), "refused", ""),
        (expect(n=only("float32")), {"float32": 2}, {}),
        (
            expect(n=only("float32", ignoring=["complex64"])),
            {"float32": 2, "complex64": 1},
            {"float16": 1},
        ),
        (expect(n=none_but("float32")), {}, {"float32": 2, "float16": 1}),
        (expect(n=including("all-reduce")), {"all-reduce": 1, "broadcast": 1}, {"broadcast": 1}),
        (expect({"n.cat": 0}), {"add": 3}, {"cat": 1}),
        (expect(n=(above(0), below("four"))), 3, 4),
        (expect(n=if_counted(0)), None, 1),
        (expect(n=if_counted(above("four"))), 5, 4),
        (expect(n=above(0)), 1, None),
    ],
)
def test_relations_hold_for_right_values_alone(proof, right, wrong):
    assert proof.judge({"n": right, "four": 4}).reason is None
    refuted = proof.judge({"n": wrong, "four": 4})
    assert not refuted.proven
    assert refuted.reason.startswith("n")


def test_a_reason_has_what_was_expected_and_what_was_observed():
    effect = expect(zero=1, four=(above("two"), below("four"))).judge(
        {"zero": 0, "two": 2, "four": 4}
    )
    assert effect.reason == (
        "zero: expected 1, observed 0; four: expected less than four (4), observed 4"
    )


def test_a_count_that_nobody_made_is_an_error_and_proves_nothing():
    with pytest.raises(KeyError, match="nothing counts kernels; what is counted: calls, steps"):
        expect(kernels=0).judge({"steps": 3, "calls": 1})


def test_a_proof_counts_into_a_copy_of_the_evidence():
    observed = {"steps": 3}

    def count_twice(evidence):
        return {"twice": 2 * evidence["steps"]}

    effect = expect(twice=6).counting_from(count_twice).judge(observed)
    assert effect == StrategyEffect(proven=True, evidence={"steps": 3, "twice": 6})
    assert observed == {"steps": 3}


def test_each_part_is_judged_and_sees_the_counts_of_earlier_parts():
    def count_moved():
        return {"moved": 1}

    def have_both_moved(evidence):
        return evidence["moved"] == 2

    first = expect(blocks=2).counting(count_moved)
    last = check(have_both_moved, "both have moved")

    effect = judge_parts({"first": first, "last": last}, {"blocks": 2})

    assert effect.evidence == {"blocks": 2, "moved": 1, "proven": {"first": True, "last": False}}
    assert (effect.proven, effect.reason) == (False, "last: it does not hold that both have moved")
