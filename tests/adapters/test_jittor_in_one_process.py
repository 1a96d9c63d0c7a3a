"""Cases of Jittor that are judged one after another: its graph is one for the whole process."""

from pathlib import Path

import pytest

from tests.processes import get_compilation_caches, run_inside

PROGRAM = Path(__file__).parent / "programs/jittor_after_another.py"
CASES = (
    "transformer/jittor/eval/grad/b4/tiny",
    "transformer/jittor/eval/no_grad/b4/tiny",
    "transformer/jittor/train/chunked_loss/b4/tiny",
    "transformer/jittor/train/fp32/b4/tiny",
    "transformer/jittor/train/accumulate/b4/tiny",
)


@pytest.mark.slow
def test_a_case_is_judged_without_leftovers_of_the_one_before(environment):
    reasons = run_inside(environment["jittor"], PROGRAM, *CASES, variables=get_compilation_caches())
    assert reasons == {case: None for case in CASES}, "every effect is proven"
