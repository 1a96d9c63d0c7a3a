"""Cases of Jittor that are judged one after another: its graph is one for the whole process."""

import pytest

from tests.adapters.undone import judge_undone

CASES = (
    "transformer/jittor/eval/grad/b4/tiny",
    "transformer/jittor/eval/no_grad/b4/tiny",
    "transformer/jittor/train/chunked_loss/b4/tiny",
    "transformer/jittor/train/fp32/b4/tiny",
    "transformer/jittor/train/accumulate/b4/tiny",
)
# so that what an earlier case leaves behind in cycles is there for certain, not only now and then
WITHOUT_COLLECTOR = "import gc; gc.set_threshold(0)"


@pytest.mark.slow
def test_a_case_is_judged_without_leftovers_of_the_one_before(environment):
    cases = [{"name": case, "case": case, "code": WITHOUT_COLLECTOR} for case in CASES]
    proven, refuted = judge_undone(environment["jittor"], cases)
    assert refuted == {}
    assert proven.keys() == set(CASES)
