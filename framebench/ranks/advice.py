"""What one rank of several would need, judged by predictions alone: nothing was measured, so nothing is said of speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from framebench.analysis.comparison import DETAIL, ESSENTIAL, Comparison, Shown, mib
from framebench.analysis.peaks import MARGIN
from framebench.ranks.prediction import Prediction
from framebench.suite.case import Case

HEAD = (
    "framework",
    Shown("strategy", priority=ESSENTIAL),
    "ranks",
    "batch of a rank",
    Shown("needs MiB", priority=ESSENTIAL),
    Shown("of budget", priority=DETAIL),
    Shown("judged by", priority=DETAIL),
    Shown("peak MiB", priority=ESSENTIAL),
)
CAPTION = (
    f"MiB = 2^20 bytes, of the fullest rank. needs = {MARGIN:.2f} x the peak that `framebench predict` computes without "
    "running; it knows of no kernel's workspace. Speed is not predicted."
)


@dataclass(frozen=True)
class RankOffer:
    """One strategy over ranks; without a prediction `why` there is none."""

    case: Case
    prediction: Prediction | None = None
    why: str = ""

    @property
    def needs(self) -> float:
        """Bytes that a budget must have; infinite where nothing is known."""
        return math.ceil(self.prediction.peak_bytes * MARGIN) if self.prediction else math.inf


def fitting(offers: Sequence[RankOffer], budget: int) -> list[RankOffer]:
    """The leanest first."""
    return sorted((o for o in offers if o.needs <= budget), key=lambda o: o.needs)


def beyond(offers: Sequence[RankOffer], budget: int) -> list[RankOffer]:
    """What was predicted and is too large, the closest first."""
    return sorted((o for o in offers if budget < o.needs < math.inf), key=lambda o: o.needs)


def answer(offers: Sequence[RankOffer], budget: int) -> str:
    predicted_offers, fit = [o for o in offers if o.prediction], fitting(offers, budget)
    if fit:
        best = fit[0]
        return (
            f"{len(fit)} of {len(predicted_offers)} strategies fit into {mib(budget)} MiB of each rank, as predicted; "
            f"{best.case.framework} {best.case.strategy} needs least, {mib(best.needs)} MiB."
        )
    least = min(predicted_offers, key=lambda o: o.needs, default=None)
    closest = f"; {least.case.framework} {least.case.strategy} needs {mib(least.needs)} MiB" if least else ""
    return (
        f"Of the {len(predicted_offers)} strategies that are predicted none fits into {mib(budget)} MiB of each rank{closest}."
    )


def table(offers: Sequence[RankOffer], budget: int) -> Comparison:
    """What fits, then what does not; notes say what is not predicted, and why. At least one offer."""
    case = offers[0].case
    unknown = [o for o in offers if not o.prediction]
    rows = [_cells(o, o.prediction, budget) for o in (*fitting(offers, budget), *beyond(offers, budget)) if o.prediction]
    what = f"{case.workload} {case.scenario}, batch {case.batch} over {case.ranks} ranks, size {case.size}"
    notes = tuple(f"{o.case.strategy}: not predicted, {o.why}" for o in unknown)
    return Comparison.of_text(f"{what}, within {mib(budget)} MiB", CAPTION, HEAD, rows, left=2, notes=notes)


def _cells(o: RankOffer, prediction: Prediction, budget: int) -> tuple[str, ...]:
    case_cells = o.case.framework, o.case.strategy, str(o.case.ranks), str(o.case.batch // o.case.ranks)
    return *case_cells, mib(o.needs), f"{o.needs / budget:.0%}", prediction.instrument, mib(prediction.peak_bytes)


def as_json(offers: Sequence[RankOffer], budget: int) -> dict[str, Any]:
    offers_by_fit = {"fitting": fitting(offers, budget), "too_large": beyond(offers, budget)}
    entries_by_fit = {
        name: [
            {"case": o.case.id, "peak_bytes": o.prediction.peak_bytes, "needs_bytes": o.needs, "judged_by": "predicted"}
            for o in some
            if o.prediction
        ]
        for name, some in offers_by_fit.items()
    }
    return {
        "budget_bytes": budget, "ranks": offers[0].case.ranks, **entries_by_fit,
        "not_predicted": [{"case": o.case.id, "why": o.why} for o in offers if not o.prediction],
    }  # fmt: skip
