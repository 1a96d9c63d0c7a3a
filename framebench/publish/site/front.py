"""Write the first page: the form, and all numbers that it answers from.

Which rows may answer, and which of them needs least, is decided by `framebench.analysis.answers`;
`static/form.js` only leaves out what a budget does not hold. A group of rows is of one device: what
was measured and what was predicted never share one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.answers import (
    describe_cost,
    find_least,
    find_rivals,
    rank_savings,
    select_comparable,
    select_leasts,
)
from framebench.analysis.figures.page import find_family
from framebench.analysis.frames import find_catalog_place
from framebench.analysis.needs import EQUAL
from framebench.analysis.rendering import MIB, is_missing
from framebench.analysis.reports.answer import make_answer
from framebench.analysis.results import Results
from framebench.analysis.statistics import PEAK
from framebench.analysis.tables import is_on_gpu, select_in_use
from framebench.devices.catalog import BY_NAME, DEVICES
from framebench.devices.needs import ErrorInterval
from framebench.devices.plans.planned import Planned, find_upper_needs
from framebench.devices.plans.store import read_every
from framebench.models import spec
from framebench.publish.site.links import get_case_link, get_machine_folder, get_prediction_link
from framebench.publish.site.machine import Machine
from framebench.publish.site.markup import make_table, render
from framebench.publish.site.source import Page, SourceFolder
from framebench.publish.site.titles import get_title
from framebench.records.pins import find_pinned_version
from framebench.strategies.registry import find_baseline
from framebench.suite.case import FULL_SIZE, TRIAL_SIZE, Case
from framebench.suite.sequences import drop_duplicates

SCRIPT = "assets/data.js"
SOURCE_PHRASES = {"compiler.plan": "planned by XLA", "allocator.simulated": "simulated"}
COMMON_SCENARIOS = ("train", "eval")  # everyone wants predictions for these
QUESTION_COLUMNS = ["workload", "scenario", "size", "batch"]  # a reader chooses a group by these
# what the form shows of a predicted strategy
PREDICTION_COLUMNS = [
    "framework",
    "strategy",
    "family",
    "needs",
    "peak",
    "share",
    "base",
    "least",
    "source",
    "error",
    "href",
]

Group = dict[str, Any]  # of rows, or what else the form is given


def write_front(
    source: SourceFolder, machines: Sequence[Machine], results: Results, menu: Sequence[str]
) -> None:
    """Write the first page, whose menu has the pages of `menu`, and the data of its form.

    The first of `machines` gives the answers that the page shows without scripts.
    """
    source.write(SCRIPT, make_script(machines, load_predictions(results.root)))
    page = Page(source, "index", "Which framework, in how much memory, at what speed?")
    answer = make_table(make_answer(machines[0].shown), page.root, is_sortable=False)
    page.add_html(render("form.html", answer=answer, machine=machines[0].name))
    page.add_markdown(
        "framebench runs the same three models, with the same weights, in PyTorch, JAX/Flax and "
        "Jittor, under every memory strategy, and predicts what they need on devices that nobody "
        "ran them on. Each measured number comes from a record, which says what read it, what the "
        "result was verified against, and whether the strategy was seen at work."
    )
    page.add_contents(menu)
    page.save()


def make_script(machines: Sequence[Machine], predictions: pd.DataFrame) -> str:
    """Return a script that does nothing but hold the data."""
    groups: list[Group] = []
    for machine in machines:
        groups += list_groups(machine)
    groups += list_predicted_groups(predictions)
    data = {
        "PLACES": list_places(machines, groups),
        "GROUPS": groups,
        "QUESTIONS": list_questions(predictions),
        "SIZES": describe_sizes(),
        "DESCRIBED": list_described(),
    }
    lines = ['"use strict";']
    for name, value in data.items():
        lines.append(f"const {name} = {json.dumps(value, separators=(',', ':'))};")
    return "\n".join(lines) + "\n"


def list_places(machines: Sequence[Machine], groups: Sequence[Group]) -> list[Group]:
    """Return the devices that the form offers; the first one is chosen when the page opens.

    Devices with predictions come first, then machines, then devices that only a command can predict
    for.
    """
    measured: list[Group] = []
    for machine in machines:
        newest = machine.table.sort_values("measured_at").iloc[-1]
        processor = newest["device"] if is_on_gpu(machine.table) else newest["cpu"]
        measured.append(
            {
                "name": machine.name,
                "title": f"{machine.name}: {processor}",
                "kind": "measured",
                "href": f"{get_machine_folder(machine.name)}/index.html",
            }
        )
    places_with_groups = {group["place"] for group in groups}
    predicted: list[Group] = []
    without_predictions: list[Group] = []
    for device in DEVICES:
        memory = device.memory_bytes // MIB
        place = {"name": device.name, "title": device.title, "kind": "predicted", "memory": memory}
        if device.name in places_with_groups:
            predicted.append(place)
        else:
            without_predictions.append(place)
    return [*predicted, *measured, *without_predictions]


def list_groups(machine: Machine) -> Iterator[Group]:
    """Yield the strategies that are compared with each other, with what they have in common.

    A group is of one workload, scenario, size and batch. The one with the most strategies comes
    first, those of the size for trying out last.
    """
    used = select_in_use(machine.shown)
    groups = []
    for _, group in used[used["needs_bytes"].notna()].groupby(QUESTION_COLUMNS):
        comparable = select_comparable(rows.order_by_catalog(group))
        if len(comparable):
            groups.append(comparable)
    groups.sort(key=lambda group: (group["size"].iloc[0] == TRIAL_SIZE, -len(group)))
    for group in groups:
        first = group.iloc[0]
        yield {
            "place": machine.name,
            "kind": "measured",
            **describe_question(*map(str, first[QUESTION_COLUMNS])),
            "unit": first["unit"],
            "rows": list(list_points(machine.name, group)),
        }


def describe_question(workload: str, scenario: str, size: str, batch: str) -> Group:
    """Return the fields by which a reader chooses a group, and what its shares are relative to."""
    return {
        "workload": get_title(workload),
        "scenario": get_title(scenario),
        "size": size,
        "batch": batch,
        "whole": f"what {find_baseline(scenario)} needs",
    }


def list_points(machine: str, group: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each strategy for the form; a missing number has no key.

    `atLeast` is there if the needs are a guess (`compute_least_needs`), and `mayNeedLess` if the
    strategy then may need less than the least of its framework (`find_rivals`). `rate` is the
    throughput, with its `range` over blocks; `ratio` is the step time over that of PyTorch's
    baseline.
    """
    smallest: set[str] = set()
    for _, ranked in rank_savings(group):
        smallest.update(least.case for least in select_leasts(ranked))
    rivals = find_cases_of_rivals(group)
    for row in rows.iterate_rows(group):
        has_cost = not row.baseline and pd.notna(row.time_ratio)
        point = {
            "framework": row.framework,
            "strategy": row.strategy,
            "family": find_family(row.scenario, row.strategy),
            "needs": round_up_to_tenth_mib(row.needs_bytes),
            "peak": round(row.step_bytes / MIB, 1),
            "share": round(row.needs_ratio, 3),
            **describe_guess(row),
            "base": bool(row.baseline),
            "least": row.case in smallest,
            "href": get_case_link(machine, row.case),
            "cost": describe_cost(row) if has_cost else "",
        }
        if pd.notna(row.throughput):
            point["rate"] = round(row.throughput, 2)
            point["range"] = [None, None]  # a single block has no range
            if pd.notna(row.throughput_low):
                point["range"] = [round(row.throughput_low, 2), round(row.throughput_high, 2)]
        if pd.notna(row.torch_ratio):
            point["ratio"] = round(row.torch_ratio, 4)
        if row.case in rivals:
            point["mayNeedLess"] = True
        yield point


def find_cases_of_rivals(group: pd.DataFrame) -> set[str]:
    """Return the cases that may need less than what is said to need least in their framework."""
    cases: set[str] = set()
    for _, framework_rows in group.groupby("framework", observed=True, sort=False):
        least = find_least(framework_rows)
        if least is not None:
            cases.update(row.case for row in find_rivals(framework_rows, least))
    return cases


def describe_guess(row: Any) -> dict[str, float]:
    """Return the least MiB that may be enough where the needs are a guess, or nothing."""
    if row.least_needs_bytes < row.needs_bytes:
        return {"atLeast": round_up_to_tenth_mib(row.least_needs_bytes)}
    return {}


def round_up_to_tenth_mib(count: float) -> float:
    """Return bytes in MiB, rounded up to a tenth, so that a budget of the result is enough."""
    return math.ceil(count / MIB * 10) / 10


def load_predictions(results: Path) -> pd.DataFrame:
    """Return the predictions that the form answers from: of the pinned releases, of one device.

    A row has PREDICTION_COLUMNS. `share` is its need relative to the baseline's. `least` marks
    the strategies that need least in a framework, among those that compute what the baseline does
    and save more than PEAK.minimum. There are several if their needs are equal.
    """
    points = []
    for planned in read_every(results):
        case = Case.from_id(planned.case)
        if is_offered(planned, case):
            points.append(describe_prediction(planned, case))
    columns = ["place", *QUESTION_COLUMNS, *PREDICTION_COLUMNS, "bytes", "same_loss", "rank"]
    table = pd.DataFrame(points, columns=columns)
    table = table.astype({"bytes": float, "base": bool, "same_loss": bool})
    # rows with one number are compared with one baseline
    group_number = table.groupby(["place", *QUESTION_COLUMNS, "framework"]).ngroup()
    bytes_of_baselines = table["bytes"].where(table["base"])
    base_bytes = bytes_of_baselines.groupby(group_number).transform("max")
    table["share"] = (table["bytes"] / base_bytes).round(3)
    is_less = table["bytes"] < base_bytes * (1 - PEAK.minimum)
    saves = table["same_loss"] & is_less
    least_needs = table["needs"].where(saves).groupby(group_number).transform("min")
    table["least"] = saves & (table["needs"] <= least_needs * (1 + EQUAL))
    return table.sort_values("rank", kind="stable")


def is_offered(planned: Planned, case: Case) -> bool:
    """Return whether the form answers from a prediction."""
    is_pinned = planned.framework_version == find_pinned_version(planned.framework)
    is_known = planned.device in BY_NAME and case.workload in spec.list_workloads()
    return is_pinned and is_known and case.ranks == 1 and find_upper_needs(planned) is not None


def describe_prediction(planned: Planned, case: Case) -> dict[str, Any]:
    """Return the columns of `load_predictions` that need no other prediction.

    `error` says in words how far the peak may be off, above or below.
    """
    needs = find_upper_needs(planned) or 0
    release = f"{case.framework}-{planned.framework_version}"
    return {
        "place": planned.device,
        **{name: getattr(case, name) for name in QUESTION_COLUMNS},
        "framework": get_title(case.framework),
        "strategy": case.strategy,
        "family": find_family(case.scenario, case.strategy),
        "needs": round_up_to_tenth_mib(needs),
        "peak": round((planned.peak_bytes or planned.needs_bytes or 0) / MIB, 1),
        "base": case.strategy == case.scenario_spec.baseline,
        "source": SOURCE_PHRASES.get(planned.source or "", ""),
        "error": describe_error_interval(planned.error_interval),
        "href": get_prediction_link(planned.device, planned.case, release),
        "bytes": needs,
        "same_loss": case.strategy_spec.same_loss,
        "rank": find_catalog_place(case.scenario, case.strategy),
    }


def describe_error_interval(interval: ErrorInterval) -> str:
    """Return how far a prediction may be off on its worse side, or that this is not judged."""
    if not interval.is_judged:
        return f"error {interval.describe_doubt()}"
    return f"off by up to {max(abs(interval.low), interval.high):.1%}"


def list_predicted_groups(predictions: pd.DataFrame) -> list[Group]:
    """Return each device's predictions by workload, scenario, size and batch."""
    groups = []
    for (place, *question), group in predictions.groupby(["place", *QUESTION_COLUMNS]):
        points = []
        for point in group[PREDICTION_COLUMNS].to_dict("records"):
            points.append({name: value for name, value in point.items() if not is_missing(value)})
        groups.append(
            {
                "place": place,
                "kind": "predicted",
                **describe_question(*map(str, question)),
                "rows": points,
            }
        )
    return sorted(groups, key=lambda group: -len(group["rows"]))


def describe_sizes() -> dict[str, str]:
    """Return the form's name of each size, such as `full: 124.4 M parameters`."""
    sizes = {}
    for name in spec.list_workloads():
        workload = spec.load_workload(name)
        for size, preset in workload.sizes.items():
            count = workload.parameter_count(preset.config)
            number = f"{count / 1e3:,.0f} k"
            if count >= 1e6:
                number = f"{count / 1e6:,.1f} M"
            sizes[f"{get_title(name)}/{size}"] = f"{size}: {number} parameters"
    return sizes


def list_described() -> list[str]:
    """Return the titles of the workloads that a number of parameters describes."""
    names = [name for name in spec.list_workloads() if spec.load_workload(name).described]
    return [get_title(name) for name in names]


def list_questions(predictions: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a dictionary for each question that can be asked about a device.

    It has the form's fields, and in `cases` the pattern of cases for `framebench advise`.

    The questions are training and evaluation of every full size, and what else was predicted for
    any device.
    """
    keys = []
    for workload in spec.list_workloads():
        for size, preset in spec.load_workload(workload).sizes.items():
            if size.startswith(FULL_SIZE):
                for scenario, batch in product(COMMON_SCENARIOS, preset.batches):
                    keys.append((workload, scenario, size, batch))
    keys += predictions[QUESTION_COLUMNS].itertuples(index=False, name=None)
    questions = []
    for workload, scenario, size, batch in drop_duplicates(keys):
        question = describe_question(workload, scenario, size, str(batch))
        question["cases"] = f"{workload}/*/{scenario}/*/b{batch}/{size}"
        questions.append(question)
    return questions
