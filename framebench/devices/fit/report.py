"""Print which cases fit on a device that is not here: a sentence and a table, or JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from framebench.analysis.needs import are_equal_amounts, format_needs
from framebench.analysis.rendering import (
    DETAIL,
    ESSENTIAL,
    MISSING,
    Table,
    TableColumn,
    format_mib,
    format_number,
)
from framebench.analysis.rows import join_words
from framebench.cli.shared import echo, out, repeat_options, say
from framebench.devices.catalog import GIB
from framebench.devices.fit.fitting import FitAssessment
from framebench.devices.found_wrong import COMPARE_GRADIENTS, describe_wrong, find_wrong_on_gpus
from framebench.devices.needs import find_context_bytes
from framebench.devices.plans.planned import Planned, compute_saving
from framebench.devices.tables.errors import describe_errors
from framebench.devices.tables.table import (
    SAVING,
    SAVING_CAPTION,
    SAVING_FORM,
    SOURCE_WORDS,
    describe_context,
    get_baseline,
    group_by_reason,
)
from framebench.models.spec import USER_MODEL
from framebench.ranks.cases import list_rank_notes
from framebench.strategies.registry import describe_precisions
from framebench.strategies.strategy import TITLES
from framebench.suite.case import Case
from framebench.suite.counting import format_count
from framebench.suite.sequences import drop_duplicates

FEW_GPUS = "jax: what its plans may be off by rests on a few cases of one H200; see docs/devices.md"
INCOMPLETE = (
    "with `to` or `or more`: the search ended before the next batch was planned. The first number "
    "fits at the upper end of the error, and what is beyond the second does not; a batch that is "
    "named, as in .../b512/full, is planned by itself"
)
# at one batch, which the title names, or at the largest batch of each strategy
SHARE = SAVING
BATCH = "batch"
HEAD = (
    "framework",
    TableColumn("strategy", priority=ESSENTIAL),
    SHARE,
    "in use MiB",
    "reserved MiB",
    TableColumn("needs MiB", priority=ESSENTIAL),
    TableColumn("of memory", priority=DETAIL),
    TableColumn("answer", priority=ESSENTIAL),
)
HEAD_BY_BATCH = tuple(BATCH if column == SHARE else column for column in HEAD)
FEW_ACTIVATIONS = 0.01  # of what is in use at a peak
NOT_PREDICTED = "what other programs take, fragmentation over a long run, and speed"


def show_assessments(
    assessments: list[FitAssessment],
    batch: int | None,
    left_out: Mapping[str, str],
    results: Path,
    as_json: bool,
    is_interrupted: bool = False,
) -> bool | None:
    """Print the assessments, the best first, and return whether any fits.

    Where nothing could be predicted, print that and the reasons, and return None. If it was
    interrupted, there is no best: what is missing may need less, or fit a larger batch.
    """
    wrong_on_gpus = find_wrong_on_gpus(results)
    wrong: dict[Case, str] = {}
    for assessment in assessments:
        description = describe_wrong(assessment.case, wrong_on_gpus)
        if description:
            wrong[assessment.case] = description
    assessments.sort(
        key=lambda assessment: (
            not assessment.fits,
            assessment.case in wrong,
            not is_alternative(assessment.case),
            -assessment.batch,
            assessment.most_bytes or 0,
        )
    )
    is_known = any(assessment.needs is not None for assessment in assessments)
    if as_json:
        offers = list_offers(assessments, left_out, wrong) | {"interrupted": is_interrupted}
        echo(json.dumps(offers, indent=1))
    elif not is_known:
        first = assessments[0]
        strategies = format_count(len(assessments), "strategy", "strategies")
        say(
            f"Whether {describe_model(first.case)} fits on {describe_place(first)} is not known: "
            f"no prediction was made, of {strategies}."
        )
        for reason in list_reasons(assessments, left_out):
            say(f"- {reason}")
    else:
        if is_interrupted:
            sentence = describe_interruption(assessments, batch, wrong)
        else:
            sentence = write_sentence(assessments, batch, wrong)
        out.print(sentence, markup=False, highlight=False, soft_wrap=True)
        options = repeat_options(results)
        make_table(
            assessments, batch, left_out, wrong, options, is_interrupted=is_interrupted
        ).terminal(out)
    if not is_known:
        return None
    return any(assessment.fits for assessment in assessments)


def list_reasons(assessments: Iterable[FitAssessment], left_out: Mapping[str, str]) -> list[str]:
    """Return why cases have no prediction, each reason once with the cases that it is of."""
    reasons = {}
    for assessment in assessments:
        if assessment.needs is None:
            case = assessment.case
            reasons[f"{case.framework} {case.strategy_label}"] = assessment.answer
    return group_by_reason({**reasons, **left_out})


def write_sentence(
    assessments: Sequence[FitAssessment], batch: int | None, wrong: Collection[Case]
) -> str:
    """Return in words how many strategies fit, and the best of each framework.

    Frameworks are not compared, since XLA's plan and a simulation of PyTorch count differently.
    Where the best of two frameworks have different precisions, the best in that of the baseline is
    named too.

    Args:
        assessments: At least one, the best first.
        batch: The requested batch; None if each assessment is at the largest that fits.
        wrong: Cases whose result was wrong on a GPU, which are not the best.
    """
    fitting = [assessment for assessment in assessments if assessment.fits]
    by_batch = bool(fitting) and batch is None
    candidates = select_best_candidates(fitting or assessments, wrong)
    best: dict[str, FitAssessment] = {}  # by framework
    for assessment in candidates:
        best.setdefault(assessment.case.framework, assessment)
    is_mixed = len({get_precision(assessment) for assessment in best.values()}) > 1
    verb = "fits the largest batch" if by_batch else "needs least"
    sentences = [describe_counts(assessments, wrong)]
    for framework in best:
        offers = [one for one in candidates if one.case.framework == framework]
        groups = group_by_precision(offers) if is_mixed else {"": offers}
        texts = [prefix + describe_best(group, by_batch) for prefix, group in groups.items()]
        sentences.append(f"{TITLES[framework]} {verb} {', and '.join(texts)}.")
    if any(assessment.is_tight for assessment in best.values()):
        sentences.append(f"Little memory is left, and these are not predicted: {NOT_PREDICTED}.")
    return " ".join(sentences)


def describe_interruption(
    assessments: Sequence[FitAssessment], batch: int | None, wrong: Collection[Case]
) -> str:
    """Return in words what was known at an interruption, which does not tell the best.

    `batch` is the requested one; None if the largest of each strategy was searched for.
    """
    unknown = "fits the largest batch" if batch is None else "needs least"
    return (
        f"Interrupted; so far {describe_counts(assessments, wrong)} Which strategy {unknown} is "
        "not known yet."
    )


def describe_counts(assessments: Sequence[FitAssessment], wrong: Collection[Case]) -> str:
    """Return in words how many strategies fit, and how many answers are wrong or not complete."""
    first = assessments[0]
    fitting = 0
    fitting_and_wrong = 0
    unpredicted = 0
    failed = 0
    for assessment in assessments:
        if assessment.fits:
            fitting += 1
            fitting_and_wrong += assessment.case in wrong
        if assessment.fits is None and assessment.bytes is None:
            unpredicted += 1
        if ended_with_failure(assessment):
            failed += 1
    within = f"within {format_gib(first.memory)} of " if first.budget else "on "
    text = (
        f"{fitting} of {len(assessments)} strategies fit {describe_model(first.case)} "
        f"{within}{describe_place(first)} at the upper end of the error."
    )
    if fitting_and_wrong:
        verb = "was" if fitting_and_wrong == 1 else "were"
        text += f" {fitting_and_wrong} of them {verb} found wrong on a GPU."
    if unpredicted:
        count = format_count(unpredicted, "strategy", "strategies")
        text += f" {count} could not be predicted."
    if failed:
        searches = format_count(failed, "search", "searches")
        text += f" {searches} ended with a failure, beyond which larger batches may fit."
    return text


def select_best_candidates(
    assessments: Iterable[FitAssessment], wrong: Collection[Case]
) -> list[FitAssessment]:
    """Return the assessments that may be the best, in the same order.

    Their needs are known, and their results were not wrong. Only those that may take the place of
    the baseline count if there are any (`is_alternative`).
    """
    predicted = []
    alternatives = []
    for assessment in assessments:
        if assessment.needs is None or assessment.case in wrong:
            continue
        predicted.append(assessment)
        if is_alternative(assessment.case):
            alternatives.append(assessment)
    return alternatives or predicted


def group_by_precision(offers: Sequence[FitAssessment]) -> dict[str, list[FitAssessment]]:
    """Return a framework's offers in the precision of the best, and in that of its baseline.

    `offers` begin with the best. Each key begins a part of a sentence, such as `in bf16 `.
    There is one group if both precisions are the same, or if no offer has the baseline's.
    """
    best = offers[0]
    groups = {}
    for precision in (get_precision(best), get_baseline(best.case).strategy_spec.precision):
        group = [offer for offer in offers if get_precision(offer) == precision]
        if group:
            groups[f"in {precision} "] = group
    return groups


def get_precision(assessment: FitAssessment) -> str:
    """Return the precision that the case's strategy computes in, such as `bf16`."""
    return assessment.case.strategy_spec.precision


def describe_best(offers: Sequence[FitAssessment], by_batch: bool) -> str:
    """Return the first offer and those that are as good in words, with its batch or its needs.

    `by_batch` tells whether the best has the largest batch, or needs least memory.
    """
    best = offers[0]
    strategies = []
    for other in offers:
        if is_as_good(other, best, by_batch):
            strategies.append(other.case.strategy_label + describe_mathematics(other.case))
    equally = ", equally" if len(strategies) > 1 else ""
    value = describe_batch(best) if by_batch else f"{format_needs(best.needs)} MiB"
    return f"with {join_words(strategies)}{equally}: {value}"


def ended_with_failure(assessment: FitAssessment) -> bool:
    """Return whether the search of a batch that fits ended since a larger one failed."""
    return bool(assessment.fits) and assessment.smallest_failing is not None


def is_as_good(assessment: FitAssessment, best: FitAssessment, by_batch: bool) -> bool:
    """Return whether a case fits as large a batch as the best, or needs as little."""
    if by_batch:
        return describe_batch(assessment) == describe_batch(best)
    return are_equal_amounts(assessment.needs or 0, best.needs or 0)


def format_gib(size: int) -> str:
    """Return bytes in GiB with the unit."""
    return f"{size / GIB:,.2f} GiB"


def describe_model(case: Case) -> str:
    """Return workload, scenario and size in words."""
    if case.workload == USER_MODEL:
        types = case.workload_spec.weight_types
        in_types = f" with weights in {types}" if types else ""
        return f"{case.size} {case.scenario}{in_types}"
    return f"{case.workload} {case.scenario}, size {case.size}"


def describe_place(assessment: FitAssessment) -> str:
    """Return which device the memory is that of: one, or each of those that share a case."""
    ranks = assessment.case.ranks
    title = assessment.device.title
    return f"each of {ranks} x {title}" if ranks > 1 else f"one {title}"


def describe_batch(assessment: FitAssessment) -> str:
    """Return the largest batch that fits in words, as a range where the search ended early."""
    if assessment.is_exact or not assessment.fits:
        return f"{assessment.batch}"
    if assessment.smallest_not_fitting is None:
        return f"{assessment.batch} or more"
    # of batches that each rank and each micro-batch has an equal share of
    step = assessment.case.ranks * assessment.case.strategy_spec.micro_batches
    return f"{assessment.batch} to {assessment.smallest_not_fitting - step}"


def describe_share(assessment: FitAssessment, assessments: Iterable[FitAssessment]) -> str:
    """Return the bytes in use relative to the framework's baseline; without one, a dash."""
    for other in assessments:
        is_base = other.case.strategy == other.case.scenario_spec.baseline
        if is_base and other.case.framework == assessment.case.framework:
            return format_number(compute_saving(assessment.planned, other.planned), SAVING_FORM)
    return MISSING


def make_table(
    assessments: Sequence[FitAssessment],
    batch: int | None,
    left_out: Mapping[str, str],
    wrong: Mapping[Case, str],
    options: str = "",
    is_interrupted: bool = False,
) -> Table:
    """Return a table in the order of the assessments.

    Its notes have the reasons why others were left out, and the results that were `wrong` on a GPU.
    `options` are those that a suggested command has to repeat. If it was interrupted, the batches
    are those that were known to fit by then.
    """
    rows = []
    notes = []
    for assessment in assessments:
        notes += list_notes(assessment, options)
        if assessment.needs is not None:
            by_batch = describe_share(assessment, assessments) if batch else None
            rows.append(make_row(assessment, by_batch or describe_batch(assessment), wrong))
    if batch:
        notes += explain_missing_savings(assessments)
    first = assessments[0]
    batch_title = f"batch {batch}" if batch else "largest batch that fits"
    if is_interrupted:
        batch_title += ", so far"
    allowed = describe_errors(assessment.planned for assessment in assessments)
    caption = (
        f"Predicted, not measured. There are {format_gib(first.memory)}. needs = reserved + the "
        f"error by which predictions were too low ({allowed}){describe_context(first.device)}. Not "
        f"predicted: {NOT_PREDICTED}. How it is predicted: docs/devices.md."
    )
    if batch and any(row[2] != MISSING for row in rows):
        caption += SAVING_CAPTION
    if first.case.ranks > 1:
        caption += f" A batch is that of all {first.case.ranks} devices, and memory that of one."
    if first.case.workload != USER_MODEL:
        strategies = [assessment.case.strategy for assessment in assessments]
        caption += f" {describe_precisions(first.case.scenario, strategies)}"
    notes += describe_wrong_strategies(assessments, wrong)
    notes += list_reasons(assessments, left_out)
    return Table.of_text(
        f"{describe_model(first.case)}, {batch_title}, on {describe_place(first)}",
        caption,
        HEAD if batch else HEAD_BY_BATCH,
        rows,
        left=2,
        notes=tuple(drop_duplicates(notes)),
    )


def make_row(
    assessment: FitAssessment, share_or_batch: str, wrong: Mapping[Case, str]
) -> tuple[str, ...]:
    """Return the cells of an assessment whose needs are known, in the order of HEAD."""
    case, planned = assessment.case, assessment.planned
    needs = assessment.needs or 0
    return (
        case.framework,
        name_strategy(case, case in wrong),
        share_or_batch,
        format_mib(planned.parts.get("allocated")),
        format_mib(assessment.bytes),
        format_needs(needs),
        f"{needs / assessment.memory:.1%}",
        f"{assessment.answer} ({SOURCE_WORDS[planned.source or '']})",
    )


def describe_wrong_strategies(
    assessments: Iterable[FitAssessment], wrong: Mapping[Case, str]
) -> list[str]:
    """Return a note for each fault that results had on a GPU, with the strategies that had it."""
    strategies: dict[str, list[str]] = {}  # by the description of the fault
    for assessment in assessments:
        case = assessment.case
        if case in wrong:
            strategies.setdefault(wrong[case], []).append(case.strategy)
    notes = []
    for description, names in strategies.items():
        notes.append(f"{', '.join(names)}: {description}: {COMPARE_GRADIENTS}")
    return notes


def explain_missing_savings(assessments: Sequence[FitAssessment]) -> list[str]:
    """Return why strategies of PyTorch have as much in use as their baseline, at one batch.

    It is said where the baseline's peak holds no activations, or hardly any: strategies that save
    activations, such as mixed precision, then save nothing.
    """
    parts: Mapping[str, int] = {}
    for assessment in assessments:
        case = assessment.case
        if case.framework == "torch" and case.strategy == case.scenario_spec.baseline:
            baseline, parts = case, assessment.planned.parts
    used, activations = parts.get("allocated"), parts.get("activations")
    if not used or activations is None or activations > FEW_ACTIVATIONS * used:
        return []
    names = []
    for assessment in assessments:
        case_used = assessment.planned.parts.get("allocated")
        is_other = assessment.case.framework == "torch" and assessment.case != baseline
        if is_other and case_used and are_equal_amounts(case_used, used):
            names.append(assessment.case.strategy)
    if not names:
        return []
    return [
        f"{', '.join(names)}: as much in use as {baseline.strategy}. At the fullest moment "
        f"activations are {format_mib(activations)} of {format_mib(used)} MiB in use, so that "
        "saving activations saves nothing there. What is reserved beyond that are free blocks of "
        "the pool, which earlier passes left: more in one strategy than in another"
    ]


def name_strategy(case: Case, is_wrong: bool) -> str:
    """Return the strategy, with a warning where it is not to be taken for its baseline."""
    name = case.strategy_label
    if is_wrong:
        name += " (found wrong)"
    return name + describe_mathematics(case)


def is_alternative(case: Case) -> bool:
    """Return whether the case may take the place of its baseline.

    It computes the same, or it is fine-tuning, where the choice of trained weights is what is
    asked about.
    """
    return case.same_mathematics or case.scenario == "finetune"


def describe_mathematics(case: Case) -> str:
    """Return in parentheses that a case computes something else than its baseline, or "".

    In fine-tuning the choice of the trained weights is what is asked about, and no remark.
    """
    return "" if is_alternative(case) else " (other mathematics)"


def list_notes(assessment: FitAssessment, options: str) -> list[str]:
    """Return what a reader of the assessment must know; `options` are those of a command."""
    case, planned = assessment.case, assessment.planned
    notes = [f"{case.framework}: {missing}" for missing in planned.missing]
    is_bounded = assessment.bytes is None and assessment.most_bytes is not None
    if is_bounded:
        notes.append(f"{case.id}: only its bounds are known: {planned.reason}")
    notes += [f"{case.id}: {note}" for note in planned.notes]
    notes += [f"{case.strategy}: {note}" for note in list_rank_notes(case)]
    if case.framework == "jax":
        notes.append(FEW_GPUS)
    if assessment.fits and not assessment.is_exact:
        notes.append(INCOMPLETE)
    failing = assessment.smallest_failing
    if failing and ended_with_failure(assessment):
        notes.append(f"{failing.case.id}: not known whether it fits: {failing.failure}")
    # micro-batches are what samples are normalized over
    if case.strategy_spec.same_loss and not case.same_mathematics:
        notes.append(
            f"{case.strategy}: batch norm sees one micro-batch, for another gradient, so it is not "
            f"counted: framebench claims 'B9'{options}"
        )
    return notes


def make_error_fields(planned: Planned) -> dict[str, Any]:
    """Return the error of a prediction for programs, as shares of it; None where not judged."""
    interval = planned.error_interval
    return {
        "kind": planned.kind,
        "low": interval.low if interval.is_judged else None,
        "high": interval.high if interval.is_judged else None,
        "median": interval.median,
        "nine_of_ten": interval.ninth,
        "rows": interval.rows,
    }


def list_offers(
    assessments: Sequence[FitAssessment], left_out: Mapping[str, str], wrong: Mapping[Case, str]
) -> dict[str, Any]:
    """Return the assessments for programs; sizes are in bytes."""
    first = assessments[0]
    least, most = find_context_bytes(first.device)
    offers = []
    for assessment in assessments:
        planned = assessment.planned
        failing = assessment.smallest_failing
        offers.append(
            {
                "case": assessment.case.id,
                "fits": assessment.fits,
                "answer": assessment.answer,
                "peak_bytes": planned.peak_bytes,
                "refused_bytes": planned.needs_bytes,
                "needs_bytes": assessment.needs,
                "source": planned.source,
                "error": make_error_fields(planned),
                "next_batch_was_tried": assessment.is_exact,
                "not_certain_from": assessment.smallest_not_fitting,
                "failed_from": failing.batch if failing else None,
                "failure": failing.failure if failing else None,
                "found_wrong": wrong.get(assessment.case),
            }
        )
    return {
        "device": first.device.name,
        "memory_bytes": first.device.memory_bytes,
        "budget_bytes": first.budget,
        "context_bytes": {"least": least, "most": most},
        "offers": offers,
        "left_out": dict(left_out),
        "weight_types": first.case.workload_spec.weight_types
        or None,  # of a user's file, if narrow
    }
