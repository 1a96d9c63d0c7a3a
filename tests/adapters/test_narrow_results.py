"""A user's step in float64 is one where nothing in it rounds to less."""

from pathlib import Path

from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "narrow_results.py"


def test_casts_to_float32_widen_and_casts_to_less_are_named(environment):
    assert run_inside(environment["torch"], PROGRAM) == {
        "float64 throughout": "",
        "float() before a loss": "",
        "to(float32)": "",
        "zeros of a named type": "",
        "to(cfloat)": "",
        "cfloat()": "",
        "complex zeros of a named type": "",
        "a narrow part of a complex number": "_to_copy in float16",
        "an autocast": "",
        "bfloat16()": "_to_copy in bfloat16",
        "half()": "_to_copy in float16",
        "a scalar": "",
    }
