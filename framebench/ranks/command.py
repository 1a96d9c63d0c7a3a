"""Answer `predict` and `advise` for cases that several processes share.

Only predictions count: nothing was measured, so nothing is said of speed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from framebench.cli.shared import echo, fail, out, say, show_work
from framebench.engine import environments
from framebench.models import spec
from framebench.ranks import predicted
from framebench.ranks.cases import explain_unpredictable_rank, match_cases, over_ranks
from framebench.ranks.predicted import Prediction, Unpredicted
from framebench.strategies.registry import OVER_RANKS
from framebench.suite.case import Case, UnknownCase
from framebench.suite.selectors import join_choice

if TYPE_CHECKING:
    # it imports pandas, which `predict` does not need
    from framebench.analysis.rendering import Table


@dataclass(frozen=True)
class RankQuestion:
    """A question to `advise`: which strategies over ranks fit into the budget."""

    workload: str
    frameworks: tuple[str, ...]
    scenario: str
    batch: str  # that the ranks share, such as b8, or b8x4 over 4 ranks
    size: str
    ranks: int | None  # None where the batch says it
    strategies: str | None = None  # a selector's part; None for all that a framework has


@dataclass(frozen=True)
class RankOffer:
    """One strategy over ranks that is predicted."""

    case: Case
    prediction: Prediction
    needs: int  # bytes that a budget must have
    least_needs: int  # fewer where the needs are a guess by other strategies

    def may_fit(self, budget: int) -> bool:
        """Return whether only a guess by other strategies says that it needs more bytes."""
        return self.least_needs <= budget < self.needs


def predict_rank(selector: str, ranks: int | None, as_json: bool) -> None:
    """Print the peak of the fullest rank. Raises UnknownCase."""
    case = over_ranks(selector, ranks)
    try:
        prediction = predict_in_environment(case)
    except Unpredicted as error:
        fail(str(error), 2)
    if as_json:
        echo(prediction.model_dump_json(indent=1))
        return
    echo(f"{prediction.case}, rank {prediction.rank} of {prediction.ranks}: {prediction.note}")
    sizes = {"predicted peak": prediction.peak_bytes}
    for name, size in prediction.parts.items():
        sizes[f"  {name}"] = size
    for name, size in sizes.items():
        echo(f"  {name:<40} {size / 2**20:>10,.1f} MiB")


def predict_in_environment(case: Case) -> Prediction:
    """Predict the peak of the fullest rank in its framework's environment. Raises Unpredicted."""
    obstacle = explain_unpredictable_rank(case)
    if obstacle:  # checked first, so that no environment is built for nothing
        raise Unpredicted(obstacle)
    with show_work(f"{case.id}: predicting the fullest rank"):
        return predicted.predict_rank_peak(case, environments.ensure(case.framework, say=say))


def advise(question: RankQuestion, budget: int, results: Path, as_json: bool) -> bool:
    """Print the strategies over ranks that fit into a budget of bytes for each rank.

    Returns whether any fits. Raises UnknownCase if there are no such strategies.
    """
    from framebench.analysis.needs import (
        NOT_IN_BUDGET,
        compute_least_needs,
        compute_needs,
        describe_lenders,
        format_guessed_needs,
    )
    from framebench.analysis.rendering import format_mib
    from framebench.analysis.results import Results

    cases = select_cases(question)
    batch = int(question.batch.removeprefix("b").partition("x")[0])
    if cases[0].batch != batch:
        say(
            f"a batch of {batch} does not divide by {cases[0].ranks} ranks: of "
            f"{cases[0].batch} samples instead"
        )
    searches = Results(results).searches
    offers = []
    unpredicted = {}
    for case in cases:
        try:
            prediction = predict_in_environment(case)
        except Unpredicted as error:
            unpredicted[case] = str(error)
        else:
            kept = searches.find_kept(case)
            kept_bytes = kept.bytes if kept else 0
            is_borrowed = kept is not None and not kept.is_of_strategy
            needs = compute_needs(prediction.peak_bytes, kept_bytes)
            least_needs = compute_least_needs(prediction.peak_bytes, kept_bytes, is_borrowed)
            offers.append(RankOffer(case, prediction, needs, least_needs))
    offers.sort(key=lambda offer: offer.needs)
    fitting = [offer for offer in offers if offer.needs <= budget]
    unsearched = [offer for offer in offers if offer.may_fit(budget)]
    too_large = [offer for offer in offers if offer.least_needs > budget]
    if as_json:
        answer = {
            "budget_bytes": budget,
            "ranks": cases[0].ranks,
            "fitting": list_offers(fitting),
            "may_fit": list_offers(unsearched),
            "too_large": list_offers(too_large),
            "not_predicted": [{"case": case.id, "why": why} for case, why in unpredicted.items()],
        }
        echo(json.dumps(answer, indent=1))
    else:
        summary = (
            f"{len(fitting)} of {len(offers)} strategies fit into {format_mib(budget)} MiB of each "
            "rank, as predicted"
        )
        if unsearched:
            summary += (
                f"; {len(unsearched)} more may, which depends on what their processes keep next "
                "to the peak"
            )
        if offers:
            least = offers[0]
            needs_mib = format_guessed_needs(least.needs, least.least_needs)
            summary += (
                f"; {least.case.framework} {least.case.strategy} needs least, {needs_mib} MiB"
            )
        out.print(f"{summary}.", markup=False, highlight=False, soft_wrap=True)
        notes = [f"{case.strategy}: not predicted, {why}" for case, why in unpredicted.items()]
        lenders = describe_lenders(searches.name_lender(offer.case) for offer in offers)
        if lenders:
            notes.append(lenders)
        make_table(cases[0], offers, budget, notes).terminal(out)
        out.print(NOT_IN_BUDGET, markup=False, highlight=False, soft_wrap=True)
    return bool(fitting)


def list_offers(offers: list[RankOffer]) -> list[dict[str, object]]:
    """Return predicted strategies for programs."""
    listed = []
    for offer in offers:
        listed.append(
            {
                "case": offer.case.id,
                "peak_bytes": offer.prediction.peak_bytes,
                "needs_bytes": offer.needs,
                "least_needs_bytes": offer.least_needs,
                "judged_by": offer.prediction.instrument,
            }
        )
    return listed


def make_table(question: Case, offers: list[RankOffer], budget: int, notes: list[str]) -> Table:
    """Return a table of the predictions, the one that needs least first.

    Args:
        question: A case whose parts, but for framework and strategy, all cases have in common.
        offers: In the order of the table.
        budget: Bytes of a rank.
        notes: What is not predicted, and why.
    """
    from framebench.analysis.needs import MARGIN, format_guessed_needs
    from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn, format_mib

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
    head = (
        "framework",
        TableColumn("strategy", priority=ESSENTIAL),
        TableColumn("needs MiB", priority=ESSENTIAL),
        TableColumn("of budget", priority=DETAIL),
        TableColumn("peak MiB", priority=ESSENTIAL),
    )
    return Table.of_text(title, caption, head, rows, left=2, notes=tuple(notes))


def select_cases(question: RankQuestion) -> list[Case]:
    """Return a case for each strategy over ranks that is named and that a framework has.

    If none is named, there is a case for each that needs no other. Raises UnknownCase.
    """
    workload, scenario = question.workload, question.scenario
    if question.strategies is not None:
        frameworks = join_choice(question.frameworks)
        named = f"{workload}/{frameworks}/{scenario}/{question.strategies}"
        return match_cases(f"{named}/{question.batch}/{question.size}", question.ranks)
    model = spec.load_workload(workload)
    strategies = []
    for (of_scenario, name), strategy in OVER_RANKS.items():
        if of_scenario == scenario and strategy.suits(model) and not strategy.needs:
            strategies.append(name)
    cases = []
    for framework in question.frameworks:
        for name in strategies:
            case_id = f"{workload}/{framework}/{scenario}/{name}/{question.batch}/{question.size}"
            case = over_ranks(case_id, question.ranks)
            if case.support.supported:
                cases.append(case)
    if not cases:
        possible = set()
        for (of_scenario, _), strategy in OVER_RANKS.items():
            for name in strategy.workloads or spec.list_workloads():
                possible.add(f"{name} {of_scenario}")
        raise UnknownCase(
            f"no strategy over ranks for {workload} {scenario} in "
            f"{', '.join(question.frameworks)}; there are some for {', '.join(sorted(possible))}"
        )
    return cases
