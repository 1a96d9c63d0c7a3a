"""Whether verification finds fault with what is right: the cases of the standard profile as they
are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from framebench.analysis.rendering import Table, format_number
from framebench.analysis.selection import select_current
from framebench.models.spec import list_confirmed_workloads
from framebench.records.record import Record, get_measurement_time
from framebench.suite.profiles import list_profile_cases
from framebench.suite.protocol import VERSION

HEAD = ("machine", "framework", "cases", "measured", "pass", "wrong", "other", "largest error")


def comparison(records: Iterable[Record]) -> Table:
    """A row for each machine and framework, from each case's newest record under this protocol;
    what did not pass is named.
    """
    cases = {
        case.id: case
        for case in list_profile_cases("standard")
        if case.support.supported
        and not case.support.gpu
        and case.workload in list_confirmed_workloads()
    }
    newest: dict[tuple[str, str], dict[str, Record]] = defaultdict(dict)
    for r in sorted(select_current(records), key=get_measurement_time):
        if r.case in cases and r.provenance.protocol == VERSION:
            newest[r.provenance.machine, r.parsed.framework][r.case] = r
    rows, notes = [], []
    for (machine, framework), records_by_case in sorted(newest.items()):
        total = sum(case.framework == framework for case in cases.values())
        rows.append((machine, framework, str(total), *_outcomes(list(records_by_case.values()))))
        notes += [
            f"{machine}: {r.case}: {r.status}: {r.reason}"
            for r in records_by_case.values()
            if r.status != "ok"
        ]
    caption = (
        "Supported cases of the standard profile, without any bug. largest error: in units of its "
        "tolerance, of those that pass, after the first steps and after the last. Protocol "
        f"{VERSION}."
    )
    return Table.of_text("Cases verified without any bug", caption, HEAD, rows, notes=tuple(notes))


def _outcomes(records: list[Record]) -> tuple[str, ...]:
    good, wrong = ([r for r in records if r.status == status] for status in ("ok", "wrong"))
    largest = max((margin(r) for r in good), default=None)
    return (
        str(len(records)),
        str(len(good)),
        str(len(wrong)),
        str(len(records) - len(good) - len(wrong)),
        format_number(largest, ".2g"),
    )


def margin(r: Record) -> float:
    """The largest error of both verifications over its tolerance."""
    first = r.verification
    return max((each.margin or 0.0 for each in (first, first and first.again) if each), default=0.0)
