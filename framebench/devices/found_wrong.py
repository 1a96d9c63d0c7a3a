"""Find steps whose results were wrong on a GPU, so that no prediction of them is recommended.

The rule was fixed before it was applied to any record: a case counts as found wrong if, on some
machine with a GPU, the newest record of a case of the same workload, framework, scenario and size
is wrong, and that case's strategy is the same, or is part of the combination. The batch does not
matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from framebench.analysis.results import Results
from framebench.records.record import Record, get_measurement_time
from framebench.suite.case import Case

COMPARE_GRADIENTS = "compare gradients with float32 before you count on it"


class WrongResult(NamedTuple):
    """A case whose newest result on a machine is wrong."""

    machine: str
    case: Case


def find_wrong_on_gpus(results: Path) -> list[WrongResult]:
    """Return the wrong results among the newest ones of cases on GPUs."""
    recorded = Results(results)
    wrong = []
    for machine in recorded.machines:
        for record in select_newest_by_case(recorded.get_records(machine)):
            if record.status == "wrong" and not record.on_cpu:
                wrong.append(WrongResult(machine, record.parsed))
    return wrong


def select_newest_by_case(records: Iterable[Record]) -> Iterable[Record]:
    """Return the record of each case that was measured last."""
    newest = {}
    for record in sorted(records, key=get_measurement_time):
        newest[record.case] = record
    return newest.values()


def describe_wrong(case: Case, wrong: Iterable[WrongResult]) -> str:
    """Return a phrase on where this step's result was wrong, or "" if it was wrong nowhere."""
    for result in wrong:
        if has_strategy(case, result.case):
            return f"its result was wrong on {result.machine} ({result.case.id})"
    return ""


def has_strategy(case: Case, measured: Case) -> bool:
    """Return whether a case runs the measured strategy, alone or combined, at whatever batch."""
    for name in ("workload", "framework", "scenario", "size"):
        if getattr(measured, name) != getattr(case, name):
            return False
    if measured.strategy == case.strategy:
        return True
    return all(part in case.strategy_spec.parts for part in measured.strategy_spec.parts)
