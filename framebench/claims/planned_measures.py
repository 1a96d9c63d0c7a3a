"""Effects of cases and programs as they are planned for a card that is not here (`plans.py`); nothing of it was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from framebench.claims import plans
from framebench.claims.measures import Nothing, Store
from framebench.claims.plans import CARD, Plan, bounds, planned_ratio
from framebench.claims.refs import Ref, all_of, place
from framebench.claims.rule import Effect
from framebench.claims.samples import ADDED, PEAK
from framebench.suite.case import FULL_SIZE, Case


@dataclass(frozen=True)
class Planned:
    """Change / base as planned for a card that is not here, at full size. `quantity`: `peak`, `added` to what is alive between
    two steps, or `kept` of it for the backward pass and alive at the peak. The interval is the prediction's published error,
    taken against the ratio on both sides. With `batches`, by how many the batch grows, it is the exponent of the growth."""

    quantity: plans.Quantity
    change: Ref
    base: Ref
    form: str = "change"
    batches: float = 0.0
    probe: str = ""

    @property
    def about(self) -> str:
        """As of what is measured: they are summed up together."""
        names = {"peak": PEAK.name, "added": ADDED.name, "kept": "activations at the peak"}
        return f"{'Exponent' if self.batches else 'Ratio'} of {names[self.quantity]}"

    def where(self, size: str) -> str:
        return f"{place(self.planned())}, {CARD}"

    def planned(self) -> list[Case]:
        return all_of([self.base, self.change], FULL_SIZE)

    def cases(self, size: str) -> list[Case]:
        """None of a machine's."""
        return []

    def effect(self, store: Store, size: str) -> Effect:
        base, change = (_plan(store, case) for case in self.planned())
        ratio = planned_ratio(change, base, self.quantity)
        return Effect(*(math.log(end) / math.log(self.batches) for end in ratio)) if self.batches else ratio


def _plan(store: Store, case: Case) -> Plan:
    """Raises Nothing."""
    plan = store.plan(case)
    if plan is None:
        raise Nothing(f"{case.id} was not planned for {CARD}")
    if plan.reason:
        raise Nothing(f"{case.id} on {CARD}: {plan.reason}")
    return plan


@dataclass(frozen=True)
class PlannedPeak:
    """The peak that is planned at full size, over what another card has: 1 fills it."""

    ref: Ref
    limit_bytes: int
    form: str = "share"
    probe: str = ""
    about: str = "planned peak over the card's memory"

    def where(self, size: str) -> str:
        return f"{place(self.planned())}, {CARD}"

    def planned(self) -> list[Case]:
        return all_of([self.ref], FULL_SIZE)

    def cases(self, size: str) -> list[Case]:
        return []

    def effect(self, store: Store, size: str) -> Effect:
        low, value, high = bounds(_plan(store, self.planned()[0]), "peak")
        return Effect(value / self.limit_bytes, low / self.limit_bytes, high / self.limit_bytes)


@dataclass(frozen=True)
class PlannedReport:
    """What the change saves of the base in a program that a user reported, as one release's compiler plans it for the card: the
    plan itself is what is asked for, so that there is no error."""

    release: str
    program: str
    change: str
    base: str
    form: str = "share"
    probe: str = ""
    about: str = "share of the planned bytes"

    def where(self, size: str) -> str:
        return f"{CARD}, JAX {self.release}"

    def planned(self) -> list[Case]:
        return []

    def cases(self, size: str) -> list[Case]:
        return []

    def effect(self, store: Store, size: str) -> Effect:
        planned = store.reported_plan(self.release, self.program)
        if not planned.get(self.base) or self.change not in planned:
            raise Nothing(f"{self.program} was not planned by JAX {self.release}")
        saved = 1 - planned[self.change] / planned[self.base]
        return Effect(saved, saved, saved)


OF_PLANS = (Planned, PlannedPeak, PlannedReport)
