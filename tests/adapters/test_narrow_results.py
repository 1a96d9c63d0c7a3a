"""A user's step in float64 is one where nothing in it rounds to less."""

from pathlib import Path

from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "narrow_results.py"


STAY_IN_FLOAT64 = {
    "float64 throughout",
    "float() before a loss",
    "to(float32)",
    "zeros of a named type",
    "to(cfloat)",
    "cfloat()",
    "complex zeros of a named type",
    "an autocast",
    "a scalar",
}
NARROW = {
    "a narrow part of a complex number": "_to_copy in float16",
    "bfloat16()": "_to_copy in bfloat16",
    "half()": "_to_copy in float16",
}


def test_casts_to_float32_widen_and_casts_to_less_are_named(environment):
    narrow_results = run_inside(environment["torch"], PROGRAM)
    assert narrow_results == dict.fromkeys(STAY_IN_FLOAT64, "") | NARROW
