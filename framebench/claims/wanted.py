"""What claims need and a machine lacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from framebench.claims.claim import Arm, Claim
from framebench.claims.ledger import names
from framebench.claims.lines import applies
from framebench.claims.measures import Nothing, OfCases, Outdated, Unpaired
from framebench.claims.planned_measures import OF_PLANS
from framebench.claims.samples import SHARE, TIME
from framebench.claims.store import NAMES, Measured
from framebench.suite.case import Case


@dataclass(frozen=True)
class Wanted:
    """What is to be measured: cases whose memory or counts are enough, cases whose times are compared with their baseline's,
    pairs that are compared with each other, and probes; and cases that are to be planned for a card."""

    once: list[Case]
    timed: list[Case]
    pairs: list[tuple[Case, Case]]
    probes: list[str]
    plans: list[Case]

    @property
    def cases(self) -> list[Case]:
        return list(dict.fromkeys([*self.timed, *(case for pair in self.pairs for case in pair), *self.once]))


def wanted(claims: Iterable[Claim], measured: Measured, size: str, evidence: bool = True, cases: bool = True) -> Wanted:
    """What these claims need and this machine lacks; for the deciding arms first, but a workload's cases together. Without
    `cases`, probes and plans alone."""
    claims = list(claims)
    arms = [arm for claim in claims for arm in claim.arms] + [arm for claim in claims for arm in claim.evidence if evidence]
    arms = [arm for arm in arms if applies(arm, size)]
    lacking = [(arm, _lacked(arm, measured, size)) for arm in arms if cases]
    timed, pairs = dict[Case, None](), dict[tuple[Case, Case], None]()
    for arm, missed in lacking:
        if _in_blocks(arm) and missed and not _shares_baseline(*missed):
            pairs[missed[0], missed[1]] = None
        elif _in_blocks(arm):
            timed |= dict.fromkeys(missed)
    every = dict.fromkeys(case for _, missed in lacking for case in missed)
    once = [case for case in every if case not in timed and not any(case in pair for pair in pairs)]
    needed = dict.fromkeys([arm.measure.probe for arm in arms if arm.measure.probe] + [NAMES for c in claims if c.absent])
    old = {arm.measure.probe for arm in arms if arm.measure.probe and _outdated(arm, measured, size)}
    old |= {NAMES} if measured.unasked(names(claims)) else set()
    missing = [probe for probe in needed if measured.probe(probe) is None or measured.elsewhere(probe) or probe in old]
    planned = [case for arm in arms if isinstance(arm.measure, OF_PLANS) for case in arm.measure.planned()]
    plans = [case for case in dict.fromkeys(planned) if measured.plan(case) is None]
    return Wanted(together(once), together(timed), list(pairs), missing, plans)


def _outdated(arm: Arm, measured: Measured, size: str) -> bool:
    try:
        arm.measure.effect(measured, size)
    except Outdated:
        return True
    except Nothing:
        pass
    return False


def together(cases: Iterable[Case]) -> list[Case]:
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.workload, case.framework, case.scenario), []).append(case)
    return [case for group in groups.values() for case in group]


def _in_blocks(arm: Arm) -> bool:
    """Whether it takes several blocks: ratios of times, and shares, which one process has no interval for."""
    quantity = arm.measure.quantity if isinstance(arm.measure, OfCases) else None
    return quantity is not None and (quantity is TIME or quantity.name.startswith(SHARE))


def _shares_baseline(*cases: Case) -> bool:
    """Whether a block of one of them has the other anyway: as the scenario's baseline, its own framework's or PyTorch's."""
    return len(cases) < 2 or any(case.strategy == case.stage.baseline for case in cases)


def _lacked(arm: Arm, measured: Measured, size: str) -> list[Case]:
    """The arm's cases that have no records; of times, which are taken in one block, all if any has none."""
    cases = arm.measure.cases(size)
    if missing := [case for case in cases if not measured.records(case)]:
        return cases if _in_blocks(arm) else missing
    try:
        arm.measure.effect(measured, size)
    except Unpaired:
        return cases
    except Nothing:
        pass
    return []
