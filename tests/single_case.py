"""A case measured by itself."""

from __future__ import annotations

from pathlib import Path

from framebench.engine import runner
from framebench.engine.blocks import SILENT, Listener, Run, measure, record_unsupported
from framebench.engine.environments import Environment, describe
from framebench.engine.groups import Group
from framebench.engine.runner import DEFAULT_OPTIONS, RESULTS, Options
from framebench.engine.timed_process import Variant
from framebench.records.record import Record
from framebench.suite.case import Case


def measure_alone(
    case: Case,
    session: str,
    environment: Environment | None = None,
    options: Options = DEFAULT_OPTIONS,
    results: Path = RESULTS,
    listener: Listener = SILENT,
) -> Record:
    """Measure a case in a block of its own, and return its record.

    Its times have nothing to be compared with. A record that the session has is read.
    """
    variant = Variant(case, environment or describe(case.framework))
    with Run(session, options, results, listener) as opened:
        if runner.explain_unsupported(case):
            return record_unsupported(case, opened, variant.environment)
        measure([Group(f"alone/{case.id}", (variant,))], opened)
        return opened.get_records(variant)[-1]
