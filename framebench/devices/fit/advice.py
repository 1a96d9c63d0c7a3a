"""Advise which strategies fit on a device that is not here, and up to which batch.

`advise --device` and `max-batch --device` do so only by predictions, so nothing is said of speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from framebench.cli.shared import ParsedSelector, fail, repeat_options, say
from framebench.devices.catalog import Device, find
from framebench.devices.fit.fitting import FitAssessment, PredictedBatchSearch
from framebench.devices.fit.report import ended_with_failure, show_assessments
from framebench.devices.fit.rounds import run_rounds
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.planning import explain_unpredictable_on_device
from framebench.devices.show import describe_resumption, plan_with_progress
from framebench.engine.environments import Environment
from framebench.models.spec import load_workload
from framebench.ranks.cases import match_checkpointed_cases, match_smallest_cases
from framebench.strategies.registry import list_used
from framebench.strategies.strategy import TITLES
from framebench.suite.case import DEFAULT_SIZE, FULL_SIZE, Case, UnknownCase
from framebench.suite.counting import format_count
from framebench.suite.hypothetical import describe_shape, select_described
from framebench.suite.selectors import select
from framebench.suite.sequences import drop_duplicates

# they save weights, gradients or optimizer states, and are suggested if no usual strategy fits
SAVERS = (
    "adamw_8bit",
    "optimizer_in_backward",
    "optimizer_offload",
    "checkpoint+adamw_8bit",
    "checkpoint+optimizer_in_backward",
)


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
            the reasons are only those of whole frameworks, by their titles.
    """
    selected = select_described(selector) or select(selector)
    named = [replace(case, batch=batch or case.strategy_spec.micro_batches) for case in selected]
    candidates = drop_duplicates(named)
    groups = sorted({f"{case.workload}/*/{case.scenario}" for case in candidates})
    if len(groups) > 1:
        raise UnknownCase(f"one workload and scenario at a time, not {groups[1]} as well")
    if only_usual:
        candidates = select_usual(candidates)
        if not device.has_bfloat16:
            candidates = [take_float16(case) for case in candidates]
    cases, left_out = leave_out_unpredictable(candidates, device)
    if only_usual:
        left_out = select_whole_frameworks(candidates, cases, left_out)
    return cases, left_out


def take_float16(case: Case) -> Case:
    """Return the case in float16 if it is in mixed precision with bfloat16, else the case."""
    parts = case.strategy.split("+")
    return replace(
        case, strategy="+".join("amp_fp16" if part == "amp_bf16" else part for part in parts)
    )


def select_whole_frameworks(
    candidates: Iterable[Case], cases: Iterable[Case], left_out: Mapping[str, str]
) -> dict[str, str]:
    """Return why nothing of a framework can be predicted, by the titles of such frameworks."""
    predictable = {case.framework for case in cases}
    reasons: dict[str, str] = {}
    for case in candidates:
        if case.framework not in predictable and case.id in left_out:
            reasons.setdefault(TITLES[case.framework], left_out[case.id])
    return reasons


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

    def show(predictions: list[Planned], is_interrupted: bool = False) -> bool | None:
        assessments = []
        for planned in predictions:
            case = case_by_id[planned.case]
            assessments.append(FitAssessment(case, planned, device, budget))
        batch = cases[0].batch
        return show_assessments(assessments, batch, left_out, results, as_json, is_interrupted)

    predictions = plan_with_progress(
        cases,
        device,
        results,
        environment=environment,
        show_interrupted=lambda done: show(done, is_interrupted=True),
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
            assessments, None, left_out, results, as_json, is_interrupted=interrupted
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
    Without a strategy, checkpointing with those that divide everything is tried first. Raises
    UnknownCase and UnknownDevice.
    """
    device = find(device_name)
    workload = question.workload or "transformer"
    framework = question.framework or "*"
    scenario = question.scenario or "train"
    strategy = question.strategy or "*"
    size = question.size or FULL_SIZE
    named = f"{workload}/{framework}/{scenario}/{strategy}"
    candidates = match_smallest_cases(f"{named}/*/{size}", ranks)
    if question.strategy is None:
        checkpointed = match_checkpointed_cases(f"{named}/b{ranks}/{size}", ranks)
        candidates = [*checkpointed, *candidates]
    cases, left_out = leave_out_unpredictable(candidates, device)
    say(
        f"Looking for the largest batch over {ranks} ranks ({format_count(len(cases), 'case')}), "
        "which takes several plans each; cached plans are reused. At one batch: framebench advise "
        f"'{named}/b{ranks}x{ranks}/{size}' --device {device_name}"
        f"{repeat_options(results, budget)}"
    )
    if question.strategy is None:
        first = cases[0]
        example = f"{workload}/{first.framework}/{scenario}/amp_bf16+{first.strategy}"
        say(
            "using strategies over ranks, and checkpointing with those that divide everything; "
            f"name other combinations, such as '{example}'"
        )
    return search_on_device(cases, left_out, device_name, budget, results, as_json)
