"""What one rank of several would need, judged by predictions alone: nothing was measured, so
nothing is said of speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from framebench.analysis.needs import MARGIN, compute_needs, format_needs
from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn, format_mib
from framebench.ranks.prediction import Prediction
from framebench.suite.case import Case

HEAD = (
    "framework",
    TableColumn("strategy", priority=ESSENTIAL),
    "ranks",
    "batch of a rank",
    TableColumn("needs MiB", priority=ESSENTIAL),
    TableColumn("of budget", priority=DETAIL),
    TableColumn("judged by", priority=DETAIL),
    TableColumn("peak MiB", priority=ESSENTIAL),
)
CAPTION = (
    f"MiB = 2^20 bytes, of the fullest rank. needs = {MARGIN:.2f} x (peak + what a process keeps "
    "next to it). The peak is computed without running. Speed is not predicted."
)


@dataclass(frozen=True)
class RankOffer:
    """One strategy over ranks that is predicted."""

    case: Case
    prediction: Prediction
    kept: int = 0  # bytes that processes of such cases keep next to their peak

    @property
    def needs(self) -> int:
        """Return the bytes that a budget must have."""
        return compute_needs(self.prediction.peak_bytes, self.kept)


class UnpredictedCase(NamedTuple):
    """One strategy over ranks that is not predicted."""

    case: Case
    why: str


@dataclass(frozen=True)
class RankAdvice:
    """Which strategies over ranks fit into a budget of bytes for each rank.

    There is at least one case.
    """

    budget: int
    fitting: list[RankOffer]  # the one that needs least first
    too_large: list[RankOffer]  # likewise
    unpredicted: list[UnpredictedCase]

    @property
    def question(self) -> Case:
        """Return a case that has what all have in common: all but framework and strategy."""
        cases = [offer.case for offer in (*self.fitting, *self.too_large)]
        cases += [unpredicted.case for unpredicted in self.unpredicted]
        return cases[0]


def judge(
    offers: Sequence[RankOffer], unpredicted: Sequence[UnpredictedCase], budget: int
) -> RankAdvice:
    """Return what fits into a budget of bytes, and what does not."""
    by_needs = sorted(offers, key=lambda offer: offer.needs)
    fitting = [offer for offer in by_needs if offer.needs <= budget]
    return RankAdvice(budget, fitting, by_needs[len(fitting) :], list(unpredicted))


def summarize(advice: RankAdvice) -> str:
    """Return the answer in a sentence."""
    budget = f"{format_mib(advice.budget)} MiB of each rank"
    count = len(advice.fitting) + len(advice.too_large)
    if advice.fitting:
        best = advice.fitting[0]
        return (
            f"{len(advice.fitting)} of {count} strategies fit into {budget}, as predicted; "
            f"{best.case.framework} {best.case.strategy} needs least, {format_needs(best.needs)} "
            "MiB."
        )
    closest = ""
    if advice.too_large:
        offer = advice.too_large[0]
        name = f"{offer.case.framework} {offer.case.strategy}"
        closest = f"; {name} needs {format_needs(offer.needs)} MiB"
    return f"Of the {count} strategies that are predicted none fits into {budget}{closest}."


def make_table(advice: RankAdvice) -> Table:
    """Return a table of what fits, then what does not; notes say what is not predicted, and why."""
    rows = []
    for offer in (*advice.fitting, *advice.too_large):
        case = offer.case
        rows.append(
            (
                case.framework,
                case.strategy,
                str(case.ranks),
                str(case.batch // case.ranks),
                format_needs(offer.needs),
                f"{offer.needs / advice.budget:.0%}",
                offer.prediction.instrument,
                format_mib(offer.prediction.peak_bytes),
            )
        )
    case = advice.question
    subject = (
        f"{case.workload} {case.scenario}, batch {case.batch} over {case.ranks} ranks, size "
        f"{case.size}"
    )
    notes = tuple(f"{case.strategy}: not predicted, {why}" for case, why in advice.unpredicted)
    return Table.of_text(
        f"{subject}, within {format_mib(advice.budget)} MiB",
        CAPTION,
        HEAD,
        rows,
        left=2,
        notes=notes,
    )


def as_json(advice: RankAdvice) -> dict[str, Any]:
    """Return the answer for programs, in bytes."""
    return {
        "budget_bytes": advice.budget,
        "ranks": advice.question.ranks,
        "fitting": [offer_as_json(offer) for offer in advice.fitting],
        "too_large": [offer_as_json(offer) for offer in advice.too_large],
        "not_predicted": [{"case": case.id, "why": why} for case, why in advice.unpredicted],
    }


def offer_as_json(offer: RankOffer) -> dict[str, Any]:
    """Return one predicted strategy for programs."""
    return {
        "case": offer.case.id,
        "peak_bytes": offer.prediction.peak_bytes,
        "needs_bytes": offer.needs,
        "judged_by": offer.prediction.instrument,
    }
