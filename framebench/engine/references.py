"""What a case is verified against where golden.json has no values: at sizes that float64 on a processor would take hours for.

The first record of the same session that computed the same mathematics in strict float32 and passed is the reference of all
that follow; the baselines of PyTorch are measured first, so JAX's and Jittor's confirm them or fail. The reference itself is
only checked for being finite. That its mathematics is right is decided in float64 at the `tiny` size (`mathematics.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from framebench.records import store
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.protocol import Reference
from framebench.suite.strategy import FRAMEWORKS


def needed(case: Case) -> bool:
    """Whether golden.json lacks the case's values."""
    return case.golden_key not in case.spec.golden


def in_order(cases: list[Case]) -> list[Case]:
    """Baselines first where references have to be found, the rest as it was; frameworks as in the table."""

    def rank(case: Case) -> tuple[bool, int]:
        return not _is_base(case), FRAMEWORKS.index(case.framework) if needed(case) else 0

    late = sorted((c for c in cases if needed(c)), key=rank)
    return [c for c in cases if not needed(c)] + late


def _is_base(case: Case) -> bool:
    return case.strategy == case.stage.baseline


def find(case: Case, session: str, machine: Path) -> Reference | None:
    """The reference among this machine's records of the session, if the case needs one and there is one."""
    if not needed(case):
        return None
    pattern = f"*/{case.workload}.*.b{case.batch}.{case.size}"
    session_records = (store.of_session(folder, session) for folder in sorted(machine.glob(pattern)))
    fit = [r for r in session_records if r is not None and r.case != case.id and _is_reference(r, case.golden_key)]
    if not fit:
        return None
    first = min(fit, key=lambda r: (not _is_base(r.parsed), r.provenance.measured_at))
    assert first.verification
    values = {name: value for name, value in first.verification.observed.items() if value is not None}
    return Reference(first.case, values, first.verification.summaries)


def among(case: Case, alive: list[tuple[Case, dict[str, Any]]]) -> Reference | None:
    """The reference among the cases that are alive in the same block, each with what its verification observed."""
    if not needed(case):
        return None
    for other, verification in alive:
        if fits(other, case.golden_key) and verification.get("passed") and verification.get("summaries"):
            return Reference(other.id, verification["observed"], verification["summaries"])
    return None


def fits(case: Case, key: str) -> bool:
    return case.golden_key == key and case.plan.precision == "fp32"


def _is_reference(record: Record, key: str) -> bool:
    return bool(fits(record.parsed, key) and record.status == "ok" and record.verified)
