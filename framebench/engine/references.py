"""Choose the reference of a case if golden.json has no values for it.

It has none for sizes at which float64 on a processor would take hours. The reference is the first
record of the same session that computed the same mathematics in strict float32 and passed. The
baselines of PyTorch are measured first, so JAX's and Jittor's confirm them or fail. The reference
itself is only checked for being finite. Whether its mathematics is right is decided in float64 at
the `tiny` size (`mathematics.py`).
"""

from __future__ import annotations

from pathlib import Path

from framebench.records import store
from framebench.records.record import Record, get_measurement_time
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.suite.protocol import Reference
from framebench.suite.result import Verification


def needs_reference(case: Case) -> bool:
    """Return whether golden.json lacks the case's values."""
    return case.golden_key not in case.workload_spec.golden


def order_by_reference(cases: list[Case]) -> list[Case]:
    """Return first the cases that have golden values, then those that need a reference.

    Among those that need one, the baselines come first, PyTorch's before the others.
    """
    with_golden = [case for case in cases if not needs_reference(case)]
    without_golden = [case for case in cases if needs_reference(case)]
    without_golden.sort(key=lambda case: (not is_baseline(case), FRAMEWORKS.index(case.framework)))
    return with_golden + without_golden


def find_reference(
    case: Case,
    verified_cases: list[tuple[Case, Verification]],
    session: str,
    results: Path,
    machine: str,
) -> Reference | None:
    """Return the reference of a case, or None if it needs none or there is none.

    It is one of the verified cases of its block, or else among the session's records of a machine.
    """
    if not needs_reference(case):
        return None
    for candidate, verification in verified_cases:
        is_reference = computes_in_fp32(candidate, case.golden_key) and verification.passed
        if is_reference and verification.summaries:
            return make_reference(candidate.id, verification)
    candidates = []
    for file in store.list_files(results, machine):
        newest = {record.case: record for record in store.read_session(file, session)}
        for record in newest.values():
            if record.case != case.id and can_be_reference(record, case):
                candidates.append(record)
    if not candidates:
        return None
    # a baseline, or else the first of the others
    candidates.sort(key=get_measurement_time)
    chosen = min(candidates, key=lambda record: not is_baseline(record.parsed))
    assert chosen.verification
    return make_reference(chosen.case, chosen.verification)


def make_reference(case: str, verification: Verification) -> Reference:
    """Return the values and tensors of a verified case, with which others are compared."""
    values = {name: value for name, value in verification.observed.items() if value is not None}
    return Reference(case, values, verification.summaries)


def computes_in_fp32(case: Case, key: str) -> bool:
    """Return whether a case computes the values of this key in strict float32."""
    return case.golden_key == key and case.strategy_spec.precision == "fp32"


def is_baseline(case: Case) -> bool:
    """Return whether a case is the baseline of its stage."""
    return case.strategy == case.scenario_spec.baseline


def can_be_reference(record: Record, case: Case) -> bool:
    """Return whether a verified float32 record of the same model can stand in as reference."""
    other = record.parsed
    same_model = (other.workload, other.batch, other.size) == (case.workload, case.batch, case.size)
    if not same_model or not computes_in_fp32(other, case.golden_key):
        return False
    return record.status == "ok" and bool(record.verified)
