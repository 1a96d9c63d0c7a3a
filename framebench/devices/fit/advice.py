"""`advise --device` and `max-batch --device`: which strategies fit on a device that is not here,
and up to which batch.

Predictions alone decide, so nothing is said of speed.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from framebench.cli.shared import Parts, echo, out, say
from framebench.devices.catalog import Device, find
from framebench.devices.fit import advised
from framebench.devices.fit.fitting import FitAssessment, PredictedBatchSearch
from framebench.devices.plans import planning, store
from framebench.devices.show import plan_with_progress
from framebench.engine.environments import Environment
from framebench.models.spec import load_workload
from framebench.strategies.registry import find_strategy as find_strategy
from framebench.strategies.registry import list_used
from framebench.strategies.strategy import TITLES
from framebench.suite.case import DEFAULT_SIZE, FULL_SIZE, Case, UnknownCase
from framebench.suite.selectors import select


def advise_on_device(
    question: Parts, device_name: str, budget: int | None, results: Path, as_json: bool
) -> bool:
    """Print what fits, and return whether nothing does. Raises UnknownCase and UnknownDevice.

    That is at the batch that is named; up to the largest batch, where a size is named and no batch;
    or at the usual batch of the published model's size.
    """
    device = find(device_name)
    sizes = load_workload(question.workload or "transformer").sizes
    if question.size is None and FULL_SIZE in sizes:
        question = question._replace(size=FULL_SIZE, batch=question.batch or sizes[FULL_SIZE].base)
    cases, left_out = choose_candidates(question, device)
    if not question.strategy:
        say(
            "using the usual strategies; name others, such as {offload,adamw_8bit}: `framebench "
            "list --strategies` has all"
        )
    if question.batch is not None:
        return fit_on_device(cases, left_out, device_name, budget, results, as_json)
    size = question.size or DEFAULT_SIZE
    at_one_batch = question._replace(batch=sizes[size].base, size=size)
    say(
        f"Looking for the largest batch of each of {len(cases)} strategies, which takes several "
        f"plans each{describe_pace(device, results)}. Cached plans are reused. At one batch: "
        f"framebench advise '{make_selector(at_one_batch)}' --device {device_name}"
    )
    return search_on_device(cases, left_out, device_name, budget, results, as_json)


def search_on_device(
    cases: Sequence[Case],
    left_out: Mapping[str, str],
    device_name: str,
    budget: int | None,
    results: Path,
    as_json: bool,
    environment: Environment | None = None,
) -> bool:
    """Print the largest batch of each strategy that fits, and return whether none does.

    Raises UnknownDevice.

    Args:
        cases: Each at the smallest batch that its strategy can have.
        left_out: Why other cases are not among them.
        device_name: The target device.
        budget: Bytes, if less than the device's memory.
        results: The folder of cached predictions.
        as_json: Whether to print JSON.
        environment: In the place of the pinned one.
    """
    device = find(device_name)
    searches = [PredictedBatchSearch(case, device, budget) for case in cases]
    found = search_largest(searches, results, environment)
    return show_assessments(found, None, left_out, as_json)


def make_selector(question: Parts) -> str:
    """Return the selector of a question, by the defaults where it names nothing."""
    workload = question.workload or "transformer"
    framework = question.framework or "*"
    scenario = question.scenario or "train"
    batch = "*" if question.batch is None else f"b{question.batch}"
    size = question.size or DEFAULT_SIZE
    return f"{workload}/{framework}/{scenario}/{question.strategy or '*'}/{batch}/{size}"


def choose_candidates(question: Parts, device: Device) -> tuple[list[Case], dict[str, str]]:
    """Return the cases at the batch that was asked for, or at their smallest; and why others are
    left out.

    Raises UnknownCase.
    """
    named = select(make_selector(question._replace(batch=None)))
    groups = sorted({f"{case.workload}/*/{case.scenario}" for case in named})
    if len(groups) > 1:
        raise UnknownCase(f"one workload and scenario at a time, not {groups[1]} as well")
    cases = []
    left_out = {}
    for case in dict.fromkeys(
        replace(case, batch=question.batch or case.plan.micro_batches) for case in named
    ):
        if not question.strategy and case.strategy not in usual_strategies(case.scenario):
            continue
        obstacle = planning.explain_unpredictable_on_device(case, device)
        if obstacle:
            left_out[case.id] = obstacle
        else:
            cases.append(case)
    if not cases:
        raise UnknownCase(
            "nothing can be predicted: "
            + "; ".join(f"{case}: {why}" for case, why in left_out.items())
        )
    return cases, left_out if question.strategy else {}


def usual_strategies(scenario: str) -> list[str]:
    """Return what is planned unless strategies are named: those of the quick profile, and
    combinations of them.
    """
    return [
        name
        for name in list_used(scenario)
        if all(part.quick for part in find_strategy(scenario, name).parts)
    ]


def fit_on_device(
    cases: Sequence[Case],
    left_out: Mapping[str, str],
    device_name: str,
    budget: int | None,
    results: Path,
    as_json: bool,
    environment: Environment | None = None,
) -> bool:
    """Print which of these cases fit, and return whether none does. Raises UnknownDevice.

    Args:
        cases: Cases at one batch.
        left_out: Why other cases are not among them.
        device_name: The target device.
        budget: Bytes, if less than the device's memory.
        results: The folder of cached predictions.
        as_json: Whether to print JSON.
        environment: In the place of the pinned one.
    """
    device = find(device_name)
    cached = len(planning.find_cached(cases, device, results))
    if cached < len(cases):
        pace = describe_pace(device, results)
        say(
            f"{cached} of {len(cases)} cases are cached; the others are planned now, "
            f"{planning.AT_ONCE} at a time{pace}."
        )
    predictions = plan_with_progress(cases, device, results, environment=environment)
    assessments = []
    for case, planned in zip(cases, predictions):
        assessments.append(FitAssessment(case, planned, device, budget))
    return show_assessments(assessments, cases[0].batch, left_out, as_json)


def search_largest(
    searches: Sequence[PredictedBatchSearch],
    results: Path,
    environment: Environment | None = None,
) -> list[FitAssessment]:
    """Return each at the largest batch that fits, or at its smallest.

    All searches go on together, so that two plans run at a time.
    """
    while True:
        waiting: dict[Case, PredictedBatchSearch] = {}
        for search in searches:
            case = search.next()
            if case:
                waiting[case] = search
        if not waiting:
            return [search.result for search in searches]
        predictions = plan_with_progress(
            list(waiting), searches[0].device, results, environment=environment
        )
        for (case, search), planned in zip(waiting.items(), predictions):
            search.planned[case.batch] = planned


def show_assessments(
    assessments: list[FitAssessment], batch: int | None, left_out: Mapping[str, str], as_json: bool
) -> bool:
    """Print the assessments, the best first, and return whether none fits."""
    assessments.sort(
        key=lambda assessment: (
            not assessment.fits,
            not assessment.case.same_mathematics,
            -assessment.batch,
            assessment.bytes or 0,
        )
    )
    if as_json:
        echo(json.dumps(advised.as_json(assessments, left_out), indent=1))
    else:
        out.print(
            advised.write_sentence(assessments, batch),
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        advised.make_table(assessments, batch, left_out).terminal(out)
    return not any(assessment.fits for assessment in assessments)


def describe_pace(device: Device, results: Path) -> str:
    """Return how long the cached predictions for the device took."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for planned in store.every(results):
        if planned.device == device.name and planned.outcome == "planned":
            seconds[TITLES[planned.framework]].append(planned.origin.wall_s)
    medians = ", ".join(
        f"{name} {statistics.median(taken):.0f} s" for name, taken in seconds.items()
    )
    return f"; cached ones took, in the median: {medians}" if medians else ""
