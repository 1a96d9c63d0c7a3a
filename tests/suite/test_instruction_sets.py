"""Nothing right is called wrong on another processor: libraries limited to fewer instructions stand
for it.

A kernel for AVX2 adds up in another order than one for AVX-512, and a processor without bfloat16
units rounds at other places. The quick profile's cases run at the tiny size, and each workload's
main ones at the size `cpu`.
"""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet

from framebench.suite.case import Case, find_first_batch
from framebench.suite.profiles import list_cases
from tests.marks import rarely
from tests.processes import CHEAP_XLA
from tests.suite.chosen_cases import verify_cases

ONEDNN, ATEN, OPENBLAS = "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "OPENBLAS_CORETYPE"
# by framework: what limits the libraries that it computes with
LIMITS: dict[str, dict[str, dict[str, str]]] = {
    "torch": {
        "oneDNN for SSE4.1": {ONEDNN: "SSE41"},
        "oneDNN for AVX2": {ONEDNN: "AVX2"},
        "oneDNN for AVX-512 without bfloat16": {ONEDNN: "AVX512_CORE"},
        "ATen without vectors": {ATEN: "default"},
        "ATen for AVX2": {ATEN: "avx2"},
        "all for AVX2": {
            ONEDNN: "AVX2",
            ATEN: "avx2",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
            OPENBLAS: "Haswell",
        },
    },
    "jax": {
        "XLA for SSE4.2": {"XLA_FLAGS": f"{CHEAP_XLA['XLA_FLAGS']} --xla_cpu_max_isa=SSE4_2"},
        "XLA for AVX2": {"XLA_FLAGS": f"{CHEAP_XLA['XLA_FLAGS']} --xla_cpu_max_isa=AVX2"},
        "XLA for AVX-512": {"XLA_FLAGS": f"{CHEAP_XLA['XLA_FLAGS']} --xla_cpu_max_isa=AVX512"},
    },
    "jittor": {
        "oneDNN for AVX2": {"DNNL_MAX_CPU_ISA": "AVX2", OPENBLAS: "Haswell"},
    },
}
OFTEN = [("torch", "all for AVX2")]
SCENARIOS = ("train", "eval")
MAIN = ("fp32", "amp_bf16", "no_grad")  # strategies that are verified at the size `cpu` too


def is_chosen(case: Case) -> bool:
    """Return whether a case is one of the main ones at `cpu`, or of the quick profile at `tiny`."""
    if case.scenario not in SCENARIOS or case.batch != find_first_batch(case):
        return False
    support = case.support
    if not support.supported or support.gpu or support.env:
        return False
    return case.strategy in MAIN if case.size == "cpu" else case.strategy_spec.quick


def choose_cases(framework: str, size: str) -> list[Case]:
    """Return the cases of a framework and size that are verified here, one of each strategy."""
    chosen = {}
    for case in list_cases():
        if (case.framework, case.size) == (framework, size) and is_chosen(case):
            chosen[case.workload, case.scenario, case.strategy] = case
    return list(chosen.values())


def list_rare_limits() -> list[ParameterSet]:
    """Return size, framework and limit of what `make test` leaves to `make test-all`."""
    rare = []
    for framework, limits in LIMITS.items():
        for limit in limits:
            sizes = ["cpu"] if (framework, limit) in OFTEN else ["tiny", "cpu"]
            for size in sizes:
                rare.append(rarely(size, framework, limit))
    return rare


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "framework", "limit"), [*(("tiny", *often) for often in OFTEN), *list_rare_limits()]
)
def test_right_steps_pass_with_other_instruction_sets(size, framework, limit, environment):
    """Nothing is wrong but what a trial of the library itself shows to be wrong."""
    cases = choose_cases(framework, size)
    assert cases
    rows = verify_cases(environment[framework], cases, LIMITS[framework][limit])
    wrong = {}
    for case, row in rows.items():
        verification = row["verification"]
        is_right = verification["passed"] and row.get("mathematics", verification)["passed"]
        if not is_right and not verification["known_fault"]:
            wrong[case] = row
    assert wrong == {}
