"""Nothing right is called wrong on another processor: libraries limited to fewer instructions stand
for it.

A kernel for AVX2 adds up in another order than one for AVX-512, and a processor without bfloat16
units rounds at other places. The quick profile's cases run at the tiny size, and each workload's
main ones at the size `cpu`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framebench.engine.environments import Environment
from framebench.suite.case import Case
from framebench.suite.profiles import list_cases
from tests.processes import CHEAP_XLA, quickly, run_inside

VERIFY = Path(__file__).parent / "programs" / "instruction_sets.py"
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
EVERY = [(framework, limit) for framework, limits in LIMITS.items() for limit in limits]
OFTEN = [("torch", "all for AVX2"), ("torch", "oneDNN for AVX-512 without bfloat16")]
MAIN = ("fp32", "amp_bf16", "no_grad")  # strategies that are verified at the size `cpu` too


def quick_cases(framework: str) -> list[Case]:
    """Return the supported cases of the quick profile, at the tiny size and each strategy's first
    batch.
    """
    found: dict[tuple[str, ...], Case] = {}
    for case in list_cases():
        quick = case.plan.quick and case.scenario in ("train", "eval")
        supported = case.support.supported and not case.support.gpu and not case.support.env
        if (case.framework, case.size) == (framework, "tiny") and quick and supported:
            found.setdefault((case.workload, case.scenario, case.strategy), case)
    return list(found.values())


def larger_cases(framework: str) -> list[Case]:
    """Return the main strategies of each workload at the size `cpu`."""
    found = []
    for case in list_cases():
        measured = (case.framework, case.size, case.batch) == (
            framework,
            "cpu",
            case.spec.preset("cpu").base,
        )
        main = case.strategy in MAIN and case.scenario in ("train", "eval")
        if measured and main and case.support.supported:
            found.append(case)
    return found


def verdicts(environment: Environment, cases: list[Case], limit: dict[str, str]) -> dict[str, Any]:
    """Verify the cases under limited instructions: why each is wrong, empty where it is right."""
    compiled = {name: value for name, value in quickly().items() if name != "XLA_FLAGS"}
    found = run_inside(
        environment, VERIFY, *(case.id for case in cases), variables=compiled | limit
    )
    assert isinstance(found, dict)
    assert found.keys() == {case.id for case in cases}
    return found


def check(
    framework: str, limit: str, cases: list[Case], environment: dict[str, Environment]
) -> None:
    """Nothing is wrong but what a trial of the library itself shows to be wrong."""
    found = verdicts(environment[framework], cases, LIMITS[framework][limit])
    wrong = {
        case: outcome
        for case, outcome in found.items()
        if outcome["wrong"] and not outcome["known_fault"]
    }
    assert wrong == {}
    print(f"{framework}, {limit}: {len(found)} right or of a known fault")


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "limit"), OFTEN)
def test_nothing_right_is_called_wrong(
    framework: str, limit: str, environment: dict[str, Environment]
) -> None:
    check(framework, limit, quick_cases(framework), environment)


@pytest.mark.slow
@pytest.mark.all_cases
@pytest.mark.parametrize(("framework", "limit"), [each for each in EVERY if each not in OFTEN])
def test_nothing_right_is_called_wrong_with_other_instructions(
    framework: str, limit: str, environment: dict[str, Environment]
) -> None:
    check(framework, limit, quick_cases(framework), environment)


@pytest.mark.slow
@pytest.mark.all_cases
@pytest.mark.parametrize(("framework", "limit"), EVERY)
def test_nothing_right_is_called_wrong_at_the_measured_size(
    framework: str, limit: str, environment: dict[str, Environment]
) -> None:
    check(framework, limit, larger_cases(framework), environment)
