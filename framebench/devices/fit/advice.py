"""Advise which strategies fit on a device that is not here, and up to which batch.

`advise --device` and `max-batch --device` do so only by predictions, so nothing is said of speed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
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
from framebench.cli.shared import ParsedSelector, echo, fail, out, repeat_options, say
from framebench.devices.catalog import GIB, Device, find
from framebench.devices.fit.fitting import FitAssessment, PredictedBatchSearch
from framebench.devices.fit.rounds import run_rounds
from framebench.devices.found_wrong import COMPARE_GRADIENTS, describe_wrong, find_wrong_on_gpus
from framebench.devices.needs import find_context_bytes
from framebench.devices.plans.planned import Planned, compute_saving
from framebench.devices.plans.planning import explain_unpredictable_on_device
from framebench.devices.show import describe_resumption, plan_with_progress
from framebench.devices.tables.errors import describe_errors
from framebench.devices.tables.table import (
    SAVING,
    SAVING_FORM,
    SOURCE_WORDS,
    describe_context,
    group_by_reason,
)
from framebench.engine.environments import Environment
from framebench.models.spec import USER_MODEL, load_workload
from framebench.ranks.cases import match_smallest_cases
from framebench.strategies.registry import describe_precisions, list_used
from framebench.strategies.strategy import TITLES
from framebench.suite.case import DEFAULT_SIZE, FULL_SIZE, Case, UnknownCase
from framebench.suite.counting import format_count
from framebench.suite.hypothetical import describe_shape, select_described
from framebench.suite.selectors import select
from framebench.suite.sequences import drop_duplicates

FEW_GPUS = "jax: what its plans may be off by rests on a few cases of one H200; see docs/devices.md"
INCOMPLETE = (
    "with `to` or `or more`: the search ended before the next batch was planned. The first number "
    "fits at the upper end of the error, and what is beyond the second does not; a batch that is "
    "named, as in .../b512/full, is planned by itself"
)
# they save weights, gradients or optimizer states, and are suggested if no usual strategy fits
SAVERS = (
    "adamw_8bit",
    "optimizer_in_backward",
    "optimizer_offload",
    "checkpoint+adamw_8bit",
    "checkpoint+optimizer_in_backward",
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
FEW_ACTIVATIONS = 0.01  # of what is in use at a peak
NOT_PREDICTED = "what other programs take, fragmentation over a long run, and speed"


def advise_on_device(
    question: ParsedSelector,
    device_name: str,
    budget: int | None,
    results: Path,
    as_json: bool,
    size_is_described: bool = False,
) -> bool | None:
    """Print what fits, and return whether anything does; None if nothing could be predicted.

    If the question has a batch, the answer is for that batch. With a size and no batch, it is the
    largest batch that fits. Without both, or with a size that options describe, it is for the usual
    batch. Raises UnknownCase and UnknownDevice.
    """
    device = find(device_name)
    workload = question.workload or "transformer"
    framework = question.framework or "*"
    scenario = question.scenario or "train"
    strategy = question.strategy or "*"
    size, batch = question.size, question.batch
    is_usual_batch = batch is None and (size is None or size_is_described)
    if size is None and FULL_SIZE in load_workload(workload).sizes:
        size = FULL_SIZE
    size = size or DEFAULT_SIZE
    if is_usual_batch:
        batch = load_workload(workload).preset(size).base
    named = f"{workload}/{framework}/{scenario}/{strategy}"
    cases, left_out = choose_candidates(f"{named}/*/{size}", batch, device, strategy == "*")
    shape = describe_shape(cases[0].workload_spec.config(size))
    say(f"{workload}, size {size}: {shape}")
    if strategy == "*" and scenario == "train":
        say(
            "using the usual strategies; name others, such as {offload,adamw_8bit}: `framebench "
            "list --strategies` has all"
        )
    if is_usual_batch:
        say(
            f"At batch {batch}, the usual one of this size. The largest batch: framebench advise "
            f"'{named}/*/{size}' --device {device_name}{repeat_options(results, budget)}"
        )
    if batch is not None:
        any_fits = fit_on_device(cases, left_out, device_name, budget, results, as_json)
        if any_fits is False and scenario == "finetune":
            say(
                "These weights are in float32. LoRA with weights in bfloat16: framebench predict "
                f"examples/llama_lora.py --batch {batch} --device {device_name} --strategies "
                "fp32,checkpoint. In 4 bits (QLoRA): examples/llama_qlora.py; "
                "docs/budget.md, 'Fine-tuning', says how."
            )
        if any_fits is False and strategy == "*":
            prefix = f"{workload}/{framework}/{scenario}"
            suggest_savers(prefix, batch, size, device, budget, results)
        return any_fits
    usual_batch = cases[0].workload_spec.preset(size).base
    say(
        f"Looking for the largest batch ({format_count(len(cases), 'case')}), which takes several "
        "plans each; cached plans are reused. At one batch: framebench advise "
        f"'{named}/b{usual_batch}/{size}' --device {device_name}{repeat_options(results, budget)}"
    )
    return search_on_device(cases, left_out, device_name, budget, results, as_json)


def suggest_savers(
    prefix: str, batch: int, size: str, device: Device, budget: int | None, results: Path
) -> None:
    """Print the command that tries the strategies in SAVERS, if the framework has any of them.

    `prefix` is workload/framework/scenario.
    """
    savers = []
    for name in SAVERS:
        try:
            choose_candidates(f"{prefix}/{name}/*/{size}", batch, device, only_usual=False)
        except UnknownCase:
            continue
        savers.append(name)
    if savers:
        say(
            "None of the usual strategies fits at the upper end of the error. These save more, in "
            "float32; amp_bf16+ before a name makes it mixed precision: "
            f"framebench advise '{prefix}/{{{','.join(savers)}}}/b{batch}/{size}' "
            f"--device {device.name}{repeat_options(results, budget)}"
        )


def choose_candidates(
    selector: str, batch: int | None, device: Device, only_usual: bool
) -> tuple[list[Case], dict[str, str]]:
    """Return the selected cases that can be predicted, and why the others cannot be, by their id.

    Raises UnknownCase if none can be predicted, or if the selector names several workloads.

    Args:
        selector: Of cases at any batch; the batch that it names is not used.
        batch: The batch of the cases; None takes the smallest that each strategy can have.
        device: The target device.
        only_usual: Whether to choose the usual strategies alone. Nobody named the others, so that
            the reasons why some cannot be predicted are not returned.
    """
    selected = select_described(selector) or select(selector)
    named = [replace(case, batch=batch or case.strategy_spec.micro_batches) for case in selected]
    candidates = drop_duplicates(named)
    groups = sorted({f"{case.workload}/*/{case.scenario}" for case in candidates})
    if len(groups) > 1:
        raise UnknownCase(f"one workload and scenario at a time, not {groups[1]} as well")
    if only_usual:
        candidates = select_usual(candidates)
    cases, left_out = leave_out_unpredictable(candidates, device)
    return cases, {} if only_usual else left_out


def leave_out_unpredictable(
    candidates: Iterable[Case], device: Device
) -> tuple[list[Case], dict[str, str]]:
    """Return the cases that can be predicted, and why the others cannot be, by their id.

    Raises UnknownCase if none can be predicted.
    """
    cases = []
    left_out = {}
    for case in candidates:
        obstacle = explain_unpredictable_on_device(case, device)
        if obstacle:
            left_out[case.id] = obstacle
        else:
            cases.append(case)
    if not cases:
        reasons = "; ".join(f"{case}: {why}" for case, why in left_out.items())
        raise UnknownCase(f"nothing can be predicted: {reasons}")
    return cases, left_out


def select_usual(cases: list[Case]) -> list[Case]:
    """Return the strategies of the quick profile and combinations of them.

    If the quick profile has none of the scenario, return all that people use.
    """
    used = [case for case in cases if case.strategy in list_used(case.scenario)]
    quick = [case for case in used if all(part.quick for part in case.parts)]
    return quick or used


def fit_on_device(
    cases: Sequence[Case],
    left_out: Mapping[str, str],
    device_name: str,
    budget: int | None,
    results: Path,
    as_json: bool,
    environment: Environment | None = None,
) -> bool | None:
    """Print which of these cases fit, and return whether any does; None if nothing was predicted.

    If it is interrupted, the answers so far are printed, and the command ends. Raises
    UnknownDevice.

    Args:
        cases: Cases at one batch.
        left_out: Why other cases are not among them.
        device_name: The target device.
        budget: Bytes, if less than the device's memory.
        results: The folder of cached predictions.
        as_json: Whether to print JSON.
        environment: The environment of the planner; None takes the pinned one.
    """
    device = find(device_name)
    case_by_id = {case.id: case for case in cases}

    def show(predictions: list[Planned]) -> bool | None:
        assessments = []
        for planned in predictions:
            case = case_by_id[planned.case]
            assessments.append(FitAssessment(case, planned, device, budget))
        return show_assessments(assessments, cases[0].batch, left_out, results, as_json)

    predictions = plan_with_progress(
        cases, device, results, environment=environment, show_interrupted=show
    )
    return show(predictions)


def search_on_device(
    cases: Sequence[Case],
    left_out: Mapping[str, str],
    device_name: str,
    budget: int | None,
    results: Path,
    as_json: bool,
    environment: Environment | None = None,
) -> bool | None:
    """Print the largest batch of each strategy that fits.

    Return whether any batch does, and no search that found one has ended with a failure. Return
    None if nothing could be predicted. The
    arguments are those of `fit_on_device`, with each case at the smallest batch that its strategy
    can have. If it is interrupted, the answers so far are printed, and the command ends.
    """
    device = find(device_name)
    searches = [PredictedBatchSearch(case, device, budget) for case in cases]
    interrupted = False
    try:
        run_rounds(searches, device, results, environment)
    except KeyboardInterrupt:
        interrupted = True
    answered = [search for search in searches if search.has_answer]
    has_succeeded: bool | None = False
    if answered:
        assessments = [search.result for search in answered]
        any_fits = show_assessments(
            assessments, batch=None, left_out=left_out, results=results, as_json=as_json
        )
        has_succeeded = any_fits
        if any_fits and any(map(ended_with_failure, assessments)):
            has_succeeded = False
    if interrupted:
        all_of_them = format_count(len(searches), "strategy", "strategies")
        fail(
            f"interrupted: {len(answered)} of {all_of_them} have an answer so far"
            f"{describe_resumption(cases)}",
            130,
        )
    return has_succeeded


def search_over_ranks(
    question: ParsedSelector,
    ranks: int,
    device_name: str,
    budget: int | None,
    results: Path,
    as_json: bool,
) -> bool | None:
    """Print the largest batch that several GPUs can share; return as `search_on_device` does.

    Each of the GPUs is `device_name`, and one of them has to have the budget. Parts that the
    question leaves out are all frameworks and strategies over ranks, training, and the full size.
    Raises UnknownCase and UnknownDevice.
    """
    device = find(device_name)
    workload = question.workload or "transformer"
    framework = question.framework or "*"
    scenario = question.scenario or "train"
    strategy = question.strategy or "*"
    size = question.size or FULL_SIZE
    named = f"{workload}/{framework}/{scenario}/{strategy}"
    candidates = match_smallest_cases(f"{named}/*/{size}", ranks)
    cases, left_out = leave_out_unpredictable(candidates, device)
    say(
        f"Looking for the largest batch over {ranks} ranks ({format_count(len(cases), 'case')}), "
        "which takes several plans each; cached plans are reused. At one batch: framebench advise "
        f"'{named}/b{ranks}x{ranks}/{size}' --device {device_name}"
        f"{repeat_options(results, budget)}"
    )
    if question.strategy is None:
        example = f"{named.removesuffix('*')}checkpoint+fsdp"
        say(f"using strategies over ranks alone; name combinations, such as '{example}'")
    return search_on_device(cases, left_out, device_name, budget, results, as_json)


def show_assessments(
    assessments: list[FitAssessment],
    batch: int | None,
    left_out: Mapping[str, str],
    results: Path,
    as_json: bool,
) -> bool | None:
    """Print the assessments, the best first, and return whether any fits.

    Where nothing could be predicted, print that and the reasons, and return None.
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
        echo(json.dumps(list_offers(assessments, left_out, wrong), indent=1))
    elif not is_known:
        first = assessments[0]
        strategies = format_count(len(assessments), "strategy", "strategies")
        say(
            f"Whether {describe_model(first.case)} fits on one {first.device.title} is not known: "
            f"no prediction was made, of {strategies}."
        )
        for reason in list_reasons(assessments, left_out):
            say(f"- {reason}")
    else:
        sentence = write_sentence(assessments, batch, wrong)
        out.print(sentence, markup=False, highlight=False, soft_wrap=True)
        make_table(assessments, batch, left_out, wrong, repeat_options(results)).terminal(out)
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
    """Return a sentence with the number of strategies that fit, and the best of each framework.

    The best is one that may take the place of the baseline, if there is any (`is_alternative`).
    Frameworks are not compared, since XLA's plan and a simulation of PyTorch count differently.

    Args:
        assessments: At least one, the best first.
        batch: The requested batch; None if each assessment is at the largest that fits.
        wrong: Cases whose result was wrong on a GPU, which are not the best.
    """
    first = assessments[0]
    fitting = [assessment for assessment in assessments if assessment.fits]
    within = f"within {format_gib(first.memory)} of " if first.budget else "on "
    sentence = (
        f"{len(fitting)} of {len(assessments)} strategies fit {describe_model(first.case)} "
        f"{within}one {first.device.title} at the upper end of the error."
    )
    wrong_count = sum(assessment.case in wrong for assessment in fitting)
    if wrong_count:
        verb = "was" if wrong_count == 1 else "were"
        sentence += f" {wrong_count} of them {verb} found wrong on a GPU."
    unpredicted = []
    for assessment in assessments:
        if assessment.fits is None and assessment.bytes is None:
            unpredicted.append(assessment)
    if unpredicted:
        count = format_count(len(unpredicted), "strategy", "strategies")
        sentence += f" {count} could not be predicted."
    failed = [assessment for assessment in assessments if ended_with_failure(assessment)]
    if failed:
        searches = format_count(len(failed), "search", "searches")
        sentence += f" {searches} ended with a failure, beyond which larger batches may fit."
    predicted = []
    for assessment in fitting or assessments:
        if assessment.needs is not None and assessment.case not in wrong:
            predicted.append(assessment)
    alternatives = [assessment for assessment in predicted if is_alternative(assessment.case)]
    best: dict[str, FitAssessment] = {}  # by framework
    for assessment in alternatives or predicted:
        best.setdefault(assessment.case.framework, assessment)
    for framework, assessment in best.items():
        title = TITLES[framework]
        by_batch = bool(fitting) and batch is None
        strategies = []
        for other in alternatives or predicted:
            if other.case.framework == framework and is_as_good(other, assessment, by_batch):
                strategies.append(other.case.strategy_label + describe_mathematics(other.case))
        names = join_words(strategies)
        if len(strategies) > 1:
            names += ", equally"
        if by_batch:
            sentence += f" {title} fits the largest batch with {names}: "
            sentence += f"{describe_batch(assessment)}."
        else:
            sentence += f" {title} needs least with {names}: {format_needs(assessment.needs)} MiB."
    if any(assessment.is_tight for assessment in best.values()):
        sentence += f" Little memory is left, and these are not predicted: {NOT_PREDICTED}."
    return sentence


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
    over = f", over {case.ranks} devices" if case.ranks > 1 else ""
    return f"{case.workload} {case.scenario}, size {case.size}{over}"


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
) -> Table:
    """Return a table in the order of the assessments.

    Its notes have the reasons why others were left out, and the results that were `wrong` on a GPU.
    `options` are those that a suggested command has to repeat.
    """
    rows = []
    notes = []
    wrong_strategies: dict[str, list[str]] = {}  # by the description of the fault
    for assessment in assessments:
        case, planned = assessment.case, assessment.planned
        if case in wrong:
            wrong_strategies.setdefault(wrong[case], []).append(case.strategy)
        notes += list_notes(assessment, options)
        if assessment.needs is None:
            continue
        rows.append(
            (
                case.framework,
                name_strategy(case, case in wrong),
                describe_share(assessment, assessments) if batch else describe_batch(assessment),
                format_mib(planned.parts.get("allocated")),
                format_mib(assessment.bytes),
                format_needs(assessment.needs),
                f"{assessment.needs / assessment.memory:.1%}",
                f"{assessment.answer} ({SOURCE_WORDS[planned.source or '']})",
            )
        )
    if batch:
        notes += explain_missing_savings(assessments)
    first = assessments[0]
    batch_title = f"batch {batch}" if batch else "largest batch that fits"
    allowed = describe_errors(assessment.planned for assessment in assessments)
    caption = (
        f"Predicted, not measured. There are {format_gib(first.memory)}. needs = reserved + the "
        f"error by which predictions were too low ({allowed}){describe_context(first.device)}. Not "
        f"predicted: {NOT_PREDICTED}. How it is predicted: docs/devices.md."
    )
    if first.case.ranks > 1:
        caption += f" A batch is that of all {first.case.ranks} devices, and memory that of one."
    if first.case.workload != USER_MODEL:
        strategies = [assessment.case.strategy for assessment in assessments]
        caption += f" {describe_precisions(first.case.scenario, strategies)}"
    for description, strategies in wrong_strategies.items():
        notes.append(f"{', '.join(strategies)}: {description}: {COMPARE_GRADIENTS}")
    notes += list_reasons(assessments, left_out)
    return Table.of_text(
        f"{describe_model(first.case)}, {batch_title}, on one {first.device.title}",
        caption,
        HEAD if batch else tuple(BATCH if column == SHARE else column for column in HEAD),
        rows,
        left=2,
        notes=tuple(drop_duplicates(notes)),
    )


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
    """Return in parentheses what a case computes otherwise than its baseline, or ""."""
    if case.same_mathematics:
        return ""
    if case.scenario == "finetune":
        return f" (trains other weights than {case.scenario_spec.baseline})"
    return " (other mathematics)"


def list_notes(assessment: FitAssessment, options: str) -> list[str]:
    """Return what a reader of the assessment must know; `options` are those of a command."""
    case, planned = assessment.case, assessment.planned
    notes = [f"{case.framework}: {missing}" for missing in planned.missing]
    is_bounded = assessment.bytes is None and assessment.most_bytes is not None
    if is_bounded:
        notes.append(f"{case.id}: only its bounds are known: {planned.reason}")
    notes += [f"{case.id}: {note}" for note in planned.notes]
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
