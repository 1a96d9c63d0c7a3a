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

# what was counted in the step whose proofs fail below
COUNTED = {
    "zero": 0,
    "two": 2,
    "four": 4,
    "dtypes": {"float32": 2},
    "platform": "cpu",
    "block_runs": None,
}


@pytest.mark.parametrize(
    ("proof", "reason"),
    [
        (
            expect(zero=1, four=(above("two"), below("four"))),
            "zero: expected 1, observed 0; four: expected less than four (4), observed 4",
        ),
        (
            expect(dtypes=only("float16", "bfloat16")),
            "dtypes: expected only bfloat16, float16, observed {'float32': 2}",
        ),
        (expect({"dtypes.float16": above(0)}), "dtypes.float16: expected more than 0, observed 0"),
        (expect(platform=other_than("cpu")), "platform: expected other than 'cpu', observed 'cpu'"),
        (expect(block_runs=4), "block_runs: expected 4, observed nothing that can be counted"),
        (expect(zero=above("four", times=2)), "zero: expected more than 2 * four (8), observed 0"),
    ],
)
def test_reasons_are_sentences_with_the_values(proof, reason):
    effect = proof.judge(COUNTED)
    assert not effect.proven
    assert effect.reason == reason


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
    assert not proof.judge({"n": wrong, "four": 4}).proven


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
