"""By how much do step times of equal work differ, and what do the hours between have to do with it?

Equal work is a scenario's baseline, alone or with Python's collector off or frozen: steps of such models make next to no
garbage (docs/claims.md, D1). `framebench report --docs docs/study.md` writes the table there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np

from analysis.comparison import Comparison
from analysis.selection import HOUR_S
from framebench.records.record import Record
from framebench.suite.registry import BASELINES

SAME = ("gc_off", "gc_frozen")
HOURS = (0.0, HOUR_S / 3600, 3.0, float("inf"))
HEAD = ("machine", "hours between", "pairs", "median", "90 % within", "largest")


def equal(r: Record) -> bool:
    """Whether it is one of the strategies that are compared."""
    calm = r.status == "ok" and r.provenance.memory_limit is None and not r.contended
    return calm and r.parsed.strategy in (BASELINES[r.parsed.scenario], *SAME) and r.provenance.hardware.get("device") == "cpu"


def pairs(found: Iterable[Record]) -> Iterator[tuple[str, float, float]]:
    """Machine, hours between, and the longer step time over the shorter, of every two of different cases or sessions."""
    groups: dict[tuple[object, ...], list[Record]] = defaultdict(list)
    for r in filter(equal, found):
        case, proof = r.parsed, r.provenance
        alike = case.workload, case.framework, case.scenario, case.batch, case.size, r.framework_version
        groups[proof.machine, *alike, proof.protocol, proof.threads].append(r)
    for (machine, *_), several in groups.items():
        for one, other in combinations(several, 2):
            if (one.case, one.provenance.session) != (other.case, other.provenance.session):
                times = one.step_time_s or 0.0, other.step_time_s or 0.0
                apart = abs((one.provenance.measured_at - other.provenance.measured_at).total_seconds())
                yield str(machine), apart / 3600, max(times) / min(times)


def comparison(found: Iterable[Record]) -> Comparison:
    every = list(pairs(found))
    rows = []
    for machine in sorted({name for name, *_ in every}):
        for low, high in zip(HOURS, HOURS[1:]):
            ratios = [ratio for name, hours, ratio in every if name == machine and low <= hours < high]
            if ratios:
                ends = (np.median(ratios), np.percentile(ratios, 90), max(ratios))
                between = f"under {high:g}" if not low else f"{low:g} to {high:g}" if np.isfinite(high) else f"{low:g} and more"
                rows.append((machine, between, str(len(ratios)), *(f"{ratio - 1:.0%}" for ratio in ends)))
    caption = (
        "Every two records of equal work (the baseline, and the same with Python's collector off or frozen) of one machine, "
        "framework version, protocol, batch and size, of different cases or sessions: by how much the longer median step "
        "exceeds the shorter. Contended records are left out."
    )
    return Comparison.of_text("Step times of equal work", caption, HEAD, tuple(rows), left=2)
