"""What the adapters read on a GPU, fed with what others recorded on theirs (`recorded.toml`).

The milliseconds of `torch.cuda.Event` are those of its documentation.
"""

import json
from pathlib import Path

import pytest

from tests.adapters.fake_gpu import RECORDED
from tests.processes import run_inside

PROGRAMS = Path(__file__).parent / "programs"
TORCH = PROGRAMS / "cuda_counters_torch.py"


def test_torch_reads_the_counters_of_its_allocator(environment):
    counted = run_inside(environment["torch"], TORCH, json.dumps(RECORDED["torch"]["stats"]))
    assert counted["on a CPU"] == {}
    assert not counted["stopwatch on a CPU"]
    assert counted["with a pool"] == {
        "allocator.in_use": 15763564032,
        "allocator.active": 15763564032,
        "allocator.reserved": 15890120704,
        "allocations": 4869,
        "segments": 58,
        "alloc_retries": 35,
        "ooms": 3,
    }, "of what is there; what is not counted is absent"
    assert counted["without a pool"] == {}, (
        "an allocator that is switched off counts nothing, which is not zero bytes"
    )
    assert counted["seconds"] == 0.0125
    assert counted["overlap"] == pytest.approx(4 / 6)
    assert counted["overlap without copies"] == 0.0


JAX = PROGRAMS / "cuda_counters_jax.py"


def test_jax_reads_the_counters_of_its_allocator(environment):
    counted = run_inside(environment["jax"], JAX, json.dumps(RECORDED["jax"]["stats"]))
    plan = counted["on a CPU after a step"]
    assert plan.keys() == {"compiler.plan"}
    assert counted["on a CPU before a step"] == {}
    assert not counted["has a stopwatch"]
    allocator = {"allocator.in_use": 2431167744, "allocator.reserved": 3228616192}
    assert counted["peaks"] == allocator | plan
    counters = counted["counters"]
    assert counters.pop("programs_from_cache") >= 3, (
        "so that a peak without the autotuner's scratch can be told"
    )
    assert counters.keys() <= {
        "programs_compiled",
        "allocations",
        "largest_allocation_bytes",
        "limit_bytes",
    }
    assert (counters["allocations"], counters["largest_allocation_bytes"]) == (63, 2415922432)
    assert counters["limit_bytes"] == 12701761536
