"""Independent instruments of the same step agree within the tolerance that tests state."""

import sysconfig
from pathlib import Path

import pytest

from tests.marks import needs_host_peak, rarely
from tests.processes import run_inside

pytestmark = [pytest.mark.slow, needs_host_peak]


@pytest.mark.parametrize(
    "case",
    [
        "transformer/jax/train/fp32/b4/cpu",
        rarely("transformer/jax/train/checkpoint/b4/cpu"),
    ],
)
def test_xlas_plan_agrees_with_resident_memory(case, steady):
    (found,) = steady(case)
    assert found["host.rss"] == pytest.approx(found["compiler.plan"], rel=0.1), found


def test_resident_memory_is_that_of_jittors_pool_and_at_least_its_variables(steady):
    """The pool's blocks are larger than their variables, and oneDNN has buffers of its own."""
    (found,) = steady("transformer/jittor/train/fp32/b4/cpu")
    assert found["allocator.in_use"] <= found["host.rss"] * 1.02, found
    assert found["host.rss"] == pytest.approx(found["allocator.reserved"], rel=0.15), found


PROGRAMS = Path(__file__).parent / "programs"
MEMRAY = PROGRAMS / "crosschecks_memray.py"


def test_resident_memory_agrees_with_memray(environment, steady):
    """memray counts what malloc is asked for, without the kernel."""
    case = "transformer/torch/train/fp32/b4/cpu"
    counted = run_inside(environment["torch"], MEMRAY, case, sysconfig.get_path("platlib"))
    assert steady(case)[0]["host.rss"] == pytest.approx(counted, rel=0.03)
