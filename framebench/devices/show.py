"""Show `predict --device` and `explain --device`: each case as it is planned, then a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import typer

from framebench.cli.shared import echo, fail, out, repeat_options, say, show_progress
from framebench.devices.catalog import DEVICES, GIB, Device, find
from framebench.devices.found_wrong import WrongResult, find_wrong_on_gpus
from framebench.devices.plans import planning
from framebench.devices.plans.planned import Planned, compute_saving, find_upper_needs
from framebench.engine.environments import Environment
from framebench.engine.progress import format_duration
from framebench.models.spec import USER_MODEL
from framebench.suite.case import Case
from framebench.suite.counting import format_count
from framebench.suite.sequences import drop_duplicates


def plan_with_progress(
    cases: Sequence[Case],
    device: Device,
    results: Path,
    *,
    again: bool = False,
    version: str | None = None,
    environment: Environment | None = None,
    show_interrupted: Callable[[list[Planned]], object] | None = None,
) -> list[Planned]:
    """Return the prediction of each case, and show how many are done.

    An interruption ends the command, after `show_interrupted` has shown what was predicted by then.

    Args:
        cases: The cases to plan.
        device: The target device.
        results: The folder of cached predictions.
        again: Whether to recompute cached predictions.
        version: Of the framework, if not the pinned one.
        environment: The environment that replaces the pinned one, if any.
        show_interrupted: Called with the predictions so far if the user interrupts, unless there
            are none.
    """
    done: list[Planned] = []
    begun_at = datetime.now(UTC)
    with show_progress(device.title) as show:

        def show_planned(planned: Planned) -> None:
            done.append(planned)
            show(describe_planned(done, len(cases), begun_at))

        try:
            return planning.plan_all(
                cases, device, results, say, show_planned, again, version, environment
            )
        except KeyboardInterrupt:
            if done and show_interrupted:
                show_interrupted(done)
            how_many = f"{len(done)} of {format_count(len(cases), 'case')} predicted so far"
            fail(f"interrupted: {how_many}{describe_resumption(cases)}", 130)


def describe_planned(done: Sequence[Planned], count: int, begun_at: datetime) -> str:
    """Return how many of `count` cases are planned, how many failed, and how long the rest takes.

    The rest is expected to take as long as those that were planned since `begun_at`.
    """
    failed = sum(planned.outcome == "failed" for planned in done)
    text = f"{len(done) - failed} of {format_count(count, 'case')} planned"
    if failed:
        text += f", {failed} failed"
    made_now = [planned for planned in done if planned.origin.planned_at >= begun_at]
    left = count - len(done)
    if made_now and left:
        seconds = (datetime.now(UTC) - begun_at).total_seconds() / len(made_now) * left
        text += f", about {format_duration(seconds)} left"
    return f"{text}, the last {done[-1].case}"


def describe_resumption(cases: Sequence[Case]) -> str:
    """Return what is left of an interrupted command's plans, as the end of a sentence."""
    if any(case.workload == USER_MODEL for case in cases):
        return "; the file may change, so the same command plans it anew"
    return "; what was planned is cached, and the same command resumes"


def predict_on_device(
    selector: str, name: str, results: Path, as_json: bool, again: bool = False
) -> None:
    """Print the predictions of cases; end with exit code 1 if one failed.

    Raises UnknownCase and UnknownDevice.
    """
    device = find(name)
    cases = planning.select_cases(selector)
    predictions = plan_with_progress(cases, device, results, again=again)
    baselines = find_cached_baselines(predictions, device, results)
    show_predictions(predictions, device, as_json, find_wrong_on_gpus(results), baselines)


def show_cached(selectors: Sequence[str], name: str, results: Path) -> None:
    """Print the cached predictions of cases as a table; nothing is planned now.

    What was not predicted is named below, with the command that does it. Ends the command if
    nothing is cached. Raises UnknownCase and UnknownDevice.
    """
    from framebench.devices.tables import table

    device = find(name)
    cases = drop_duplicates(chain.from_iterable(map(planning.select_cases, selectors)))
    cached = planning.find_cached(cases, device, results)
    missing = []
    for case in cases:
        if case not in cached and not planning.explain_unpredictable_on_device(case, device):
            missing.append(case)
    hint = ""
    if missing:
        commands = [f"framebench predict '{selector}' --device {name}" for selector in selectors]
        hint = f"predict them: {'; '.join(commands)}{repeat_options(results)}"
    answered = [planned for planned in cached.values() if planned.has_answer]
    if not answered:
        reason = f"nothing is predicted of these cases for {name}"
        fail(f"{reason}; {hint}" if hint else reason, 1)
    baselines = find_cached_baselines(answered, device, results)
    wrong = find_wrong_on_gpus(results)
    table.tabulate_cases(list(cached.values()), device, wrong, baselines).terminal(out)
    if missing:
        say(
            f"{len(missing)} of {format_count(len(cases), 'case')} not predicted, such as "
            f"{missing[0].id}; {hint}"
        )


def find_cached_baselines(
    predictions: Sequence[Planned], device: Device, results: Path
) -> list[Planned]:
    """Return the cached predictions of the cases' baselines, to which ratios are formed."""
    from framebench.devices.tables import table

    baselines = drop_duplicates(
        table.get_baseline(Case.from_id(planned.case)) for planned in predictions
    )
    return list(planning.find_cached(baselines, device, results).values())


def show_predictions(
    predictions: Sequence[Planned],
    device: Device,
    as_json: bool,
    wrong: Sequence[WrongResult] = (),
    baselines: Sequence[Planned] = (),
) -> None:
    """Print predictions as a table or as JSON; end with exit code 1 if one failed or none answers.

    The lines below the table name the results that were `wrong` on a GPU. Ratios are formed to
    `baselines` too.
    """
    from framebench.devices.tables import table

    is_answered = any(planned.has_answer for planned in predictions)
    if as_json:
        by_case = {planned.case: planned for planned in (*baselines, *predictions)}
        rows = []
        for planned in predictions:
            base = by_case.get(table.get_baseline(Case.from_id(planned.case)).id)
            rows.append(list_fields(planned) | {"ratio": compute_saving(planned, base)})
        echo(json.dumps(rows, indent=1))
    elif is_answered:
        table.tabulate_cases(predictions, device, wrong, baselines).terminal(out)
        if len(predictions) == 1 and predictions[0].outcome == "planned":
            table.tabulate_parts(predictions[0], device).terminal(out)
    else:
        for line in table.list_unanswered(predictions):
            say(line)
    if not is_answered or any(planned.outcome == "failed" for planned in predictions):
        raise typer.Exit(1)


def list_fields(planned: Planned) -> dict[str, Any]:
    """Return a prediction as fields of JSON.

    `weight_types` is added where weights of a user's model have 16 bits or fewer.
    """
    fields: dict[str, Any] = planned.model_dump(mode="json")
    weight_types = Case.from_id(planned.case).workload_spec.weight_types
    if weight_types:
        fields["weight_types"] = weight_types
    return fields


def describe_refusal(planned: Planned, device: Device) -> str:
    """Return why there is no peak to explain: what the case needs if it does not fit."""
    needs = find_upper_needs(planned)
    if planned.outcome != "refused" or needs is None:
        return f"{planned.outcome}: {planned.reason}"
    return f"does not fit: needs {needs / GIB:,.1f} GiB, and the device has {device.gib:,.1f} GiB"


def find_larger_device(device: Device, planned: Planned) -> Device | None:
    """Return the smallest device of the same kind with what a refused case needs, or None.

    If the compiler does not tell the needs, it is the smallest with more memory.
    """
    least = max(find_upper_needs(planned) or 0, device.memory_bytes + 1)
    larger = [one for one in DEVICES if one.kind == device.kind and one.memory_bytes >= least]
    return min(larger, key=lambda one: one.memory_bytes, default=None)


def explain_on_device(selector: str, name: str, results: Path, as_json: bool) -> None:
    """Print the parts of one case's peak, and the lines of the source that hold most of it."""
    device, cases = find(name), planning.select_cases(selector)
    if len(cases) != 1:
        fail(f"{selector!r} names {len(cases)} cases, and explain is about one", 2)
    (planned,) = plan_with_progress(cases, device, results)
    if planned.outcome != "planned":
        reason = f"{planned.case} on {device.name}: {describe_refusal(planned, device)}"
        larger = find_larger_device(device, planned)
        if planned.outcome == "refused" and larger is not None:
            reason += (
                f". A larger device shows what takes it: framebench explain {planned.case} "
                f"--device {larger.name}"
            )
        fail(reason, 1 if planned.outcome == "failed" else 2)
    if as_json:
        echo(planned.model_dump_json(indent=1))
        return
    from framebench.devices.tables import table

    summary = table.summarize_parts(planned)
    out.print(summary, markup=False, highlight=False, soft_wrap=True)
    table.tabulate_parts(planned, device).terminal(out)
