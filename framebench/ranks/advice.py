"""Answer `advise` for cases that several processes share.

Only predictions count: nothing was measured, so nothing is said of speed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from framebench.analysis.needs import (
    MARGIN,
    NOT_IN_BUDGET,
    are_equal_amounts,
    compute_least_needs,
    compute_needs,
    describe_lenders,
    format_guessed_needs,
)
from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn, format_mib
from framebench.analysis.results import Results
from framebench.analysis.rows import join_words
from framebench.analysis.searches import Searches
from framebench.cli.shared import echo, out
from framebench.ranks.cases import list_rank_notes
from framebench.ranks.command import predict_in_environment
from framebench.ranks.predicted import Prediction, Unpredicted
from framebench.suite.case import Case


@dataclass(frozen=True)
class RankOffer:
    """One strategy over ranks that is predicted."""

    case: Case
    prediction: Prediction
    needs: int  # bytes that a budget must have
    least_needs: int  # less than `needs` if these are a guess by other strategies

    def may_fit(self, budget: int) -> bool:
        """Return whether it needs more than the budget only by a guess from other strategies."""
        return self.least_needs <= budget < self.needs


def advise(cases: Sequence[Case], budget: int, results: Path, as_json: bool) -> bool:
    """Print the cases that fit into a budget of bytes for each rank, and return whether any does.

    The cases differ in framework and strategy alone.
    """
    searches = Results(results).searches
    offers = []
    unpredicted = {}
    for case in cases:
        try:
            offers.append(make_offer(case, searches))
        except Unpredicted as error:
            unpredicted[case] = str(error)
    offers.sort(key=lambda offer: offer.needs)
    if as_json:
        answer = {
            "budget_bytes": budget,
            "ranks": cases[0].ranks,
            "fitting": make_offers_json([offer for offer in offers if offer.needs <= budget]),
            "may_fit": make_offers_json([offer for offer in offers if offer.may_fit(budget)]),
            "too_large": make_offers_json(
                [offer for offer in offers if offer.least_needs > budget]
            ),
            "not_predicted": [{"case": case.id, "why": why} for case, why in unpredicted.items()],
        }
        echo(json.dumps(answer, indent=1))
    else:
        print_offers(offers, unpredicted, cases[0], budget, searches)
    return any(offer.needs <= budget for offer in offers)


def make_offer(case: Case, searches: Searches) -> RankOffer:
    """Return the prediction of a case, and what a budget must have for it. Raises Unpredicted."""
    prediction = predict_in_environment(case)
    kept = searches.find_kept(case)
    kept_bytes = kept.bytes if kept else 0
    is_borrowed = kept is not None and not kept.is_of_strategy
    needs = compute_needs(prediction.peak_bytes, kept_bytes)
    least_needs = compute_least_needs(prediction.peak_bytes, kept_bytes, is_borrowed)
    return RankOffer(case, prediction, needs, least_needs)


def make_offers_json(offers: list[RankOffer]) -> list[dict[str, object]]:
    """Return predicted strategies as JSON fields, in bytes."""
    rows = []
    for offer in offers:
        rows.append(
            {
                "case": offer.case.id,
                "peak_bytes": offer.prediction.peak_bytes,
                "needs_bytes": offer.needs,
                "least_needs_bytes": offer.least_needs,
                "judged_by": offer.prediction.instrument,
            }
        )
    return rows


def print_offers(
    offers: list[RankOffer],
    unpredicted: Mapping[Case, str],
    question: Case,
    budget: int,
    searches: Searches,
) -> None:
    """Print how many strategies fit and which needs least, then all of them as a table.

    Args:
        offers: The one that needs least first.
        unpredicted: Why other cases are not among them.
        question: A case that differs from the others in framework and strategy alone.
        budget: Bytes of a rank.
        searches: All searches under an enforced limit.
    """
    summary = summarize_offers(offers, budget)
    out.print(summary, markup=False, highlight=False, soft_wrap=True)
    notes = [f"{case.strategy}: not predicted, {why}" for case, why in unpredicted.items()]
    lenders = describe_lenders(searches.name_lender(offer.case) for offer in offers)
    if lenders:
        notes.append(lenders)
    for offer in offers:
        notes += [f"{offer.case.strategy}: {note}" for note in list_rank_notes(offer.case)]
    make_table(question, offers, budget, notes).terminal(out)
    out.print(NOT_IN_BUDGET, markup=False, highlight=False, soft_wrap=True)


def summarize_offers(offers: list[RankOffer], budget: int) -> str:
    """Return a sentence on how many strategies fit into so many bytes, and which needs least.

    `offers` begin with the one that needs least.
    """
    fitting_count = sum(offer.needs <= budget for offer in offers)
    may_fit_count = sum(offer.may_fit(budget) for offer in offers)
    clauses = [
        f"{fitting_count} of {len(offers)} strategies fit into {format_mib(budget)} MiB of each "
        "rank, as predicted"
    ]
    if may_fit_count:
        clauses.append(
            f"{may_fit_count} more may, which depends on what their processes keep next to the peak"
        )
    if offers:
        names = [f"{offer.case.framework} {offer.case.strategy}" for offer in find_least(offers)]
        needs_mib = format_guessed_needs(offers[0].needs, offers[0].least_needs)
        verb = "needs least" if len(names) == 1 else "need least, equally"
        clauses.append(f"{join_words(names)} {verb}, {needs_mib} MiB")
    return f"{'; '.join(clauses)}."


def find_least(offers: list[RankOffer]) -> list[RankOffer]:
    """Return the first offer, and those that need as little."""
    return [offer for offer in offers if are_equal_amounts(offer.needs, offers[0].needs)]


def make_table(question: Case, offers: list[RankOffer], budget: int, notes: list[str]) -> Table:
    """Return a table of the predictions, the one that needs least first.

    Args:
        question: A case that differs from the others in framework and strategy alone.
        offers: In the order of the table.
        budget: Bytes of a rank.
        notes: What is not predicted, and why.
    """
    rows = []
    for offer in offers:
        rows.append(
            (
                offer.case.framework,
                offer.case.strategy,
                format_guessed_needs(offer.needs, offer.least_needs),
                f"{offer.needs / budget:.0%}",
                format_mib(offer.prediction.peak_bytes),
            )
        )
    title = (
        f"{question.workload} {question.scenario}, batch {question.batch} over {question.ranks} "
        f"ranks, size {question.size}, within {format_mib(budget)} MiB"
    )
    caption = (
        f"MiB = 2^20 bytes, of the fullest rank. needs = {MARGIN:.2f} x (peak + what a process "
        "keeps next to it). up to: what it keeps is the most that was seen with other strategies. "
        "The peak is computed without running. Speed is not predicted."
    )
    columns = (
        "framework",
        TableColumn("strategy", priority=ESSENTIAL),
        TableColumn("needs MiB", priority=ESSENTIAL),
        TableColumn("of budget", priority=DETAIL),
        TableColumn("peak MiB", priority=ESSENTIAL),
    )
    return Table.of_text(title, caption, columns, rows, left=2, notes=tuple(notes))
