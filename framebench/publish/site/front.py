"""Write the first page: the form, and all numbers that it answers from.

Which rows may answer, and which of them needs least, is decided by `framebench.analysis.answers`;
`static/form.js` only leaves out what a budget does not hold. A group of rows is of one device: what
was measured and what was predicted never share one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.answers import describe_cost, rank_savings, select_comparable
from framebench.analysis.figures.page import MARKERS, OTHER
from framebench.analysis.rendering import MIB
from framebench.analysis.results import Results
from framebench.analysis.statistics import PEAK
from framebench.devices.catalog import BY_NAME, DEVICES, Device
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.store import every
from framebench.devices.tables.frame import find_needs
from framebench.models import spec
from framebench.publish.site.links import get_case_link, get_machine_folder, get_prediction_link
from framebench.publish.site.machine import Machine
from framebench.publish.site.markup import render
from framebench.publish.site.source import Page, SourceFolder
from framebench.publish.site.titles import TRIAL_SIZE, get_title
from framebench.records.pins import find_pinned_version
from framebench.strategies.registry import find_baseline, list_strategies, look_up_strategy
from framebench.suite.case import FULL_SIZE, Case

SCRIPT = "assets/data.js"
SOURCES = {"compiler.plan": "planned by XLA", "allocator.simulated": "simulated"}
ASKED = ("train", "eval")  # scenarios that everyone asks predictions for

Group = dict[str, object]


def write_front(
    source: SourceFolder,
    machines: Sequence[Machine],
    results: Results,
    charts: Mapping[str, object],
    menu: Sequence[str],
) -> None:
    """Write the first page, whose menu has the pages of `menu`, and the data of its form.

    The first of `machines` gives the answers that the page shows without scripts. `charts` are the
    form's, `timed` and `predicted`, as Vega-Lite describes them.
    """
    predictions = list(list_pinned(results.root))
    source.write(SCRIPT, make_script(machines, predictions, charts))
    page = Page(source, "index", "Which framework, in how much memory, at what speed?")
    page.add_html(render("form.html", least=list_least(machines[0]), machine=machines[0].name))
    page.add_markdown(
        "framebench runs the same three models, with the same weights, in PyTorch, JAX/Flax and "
        "Jittor, under every memory strategy, and predicts what they need on devices that nobody "
        "ran them on. Each measured number comes from a record, which says what read it, what the "
        "result was verified against, and whether the strategy was seen at work."
    )
    page.add_contents(menu)
    page.save()


def list_least(machine: Machine) -> list[tuple[str, str, str, str, str]]:
    """Return for a machine's short answers what the page shows without scripts.

    A row has the workload, the framework, the strategy, what it needs, and what time it costs.
    """
    least = []
    for table in machine.headlines[:1]:
        for row in table.rows:
            workload, _, framework, strategy, needs, _, time, *_ = row
            least.append((workload, framework, strategy, needs, time))
    return least


def make_script(
    machines: Iterable[Machine], predictions: Sequence[Planned] = (), charts: object = None
) -> str:
    """Return a script that does nothing but hold the data."""
    machines = list(machines)
    groups: list[Group] = []
    for machine in machines:
        groups += list_groups(machine)
    groups += list_predicted_groups(predictions)
    data = {
        "PLACES": list_places(machines, groups),
        "GROUPS": groups,
        "QUESTIONS": list_questions(predictions),
        "CHARTS": charts,
    }
    lines = []
    for name, value in data.items():
        text = json.dumps(value, separators=(",", ":"))
        lines.append(f"const {name} = {text};")
    return '"use strict";\n' + "\n".join(lines) + "\n"


def list_places(machines: Iterable[Machine], groups: Sequence[Group]) -> list[dict[str, object]]:
    """Return what the form offers as a device; the first one is chosen when the page opens.

    Those with predictions come first, then machines, then devices that only a command answers for.
    """
    answered = {group["place"] for group in groups}
    with_predictions = [device for device in DEVICES if device.name in answered]
    others = [device for device in DEVICES if device.name not in answered]
    return [
        *map(describe_device, with_predictions),
        *map(describe_machine, machines),
        *map(describe_device, others),
    ]


def describe_machine(machine: Machine) -> dict[str, object]:
    """Return a machine as the form offers it."""
    page = f"{get_machine_folder(machine.name)}/index.html"
    return {
        "name": machine.name,
        "title": f"{machine.name}: {machine.processor}",
        "kind": "measured",
        "href": page,
    }


def describe_device(device: Device) -> dict[str, object]:
    """Return a device of the catalog as the form offers it."""
    return {
        "name": device.name,
        "title": device.title,
        "kind": "predicted",
        "memory": device.memory_bytes // MIB,
    }


def list_groups(machine: Machine) -> Iterator[Group]:
    """Yield the strategies that are compared with each other, with what they have in common.

    A group is of one workload, scenario, size and batch. The one with the most strategies comes
    first, those of the size for trying out last.
    """
    used = machine.shown[~machine.shown["only_for_claims"]]
    measured = used[used["needs_bytes"].notna()]
    groups = []
    for _, group in measured.groupby(["workload", "scenario", "size", "batch"]):
        comparable = select_comparable(rows.order_by_catalog(group))
        if len(comparable):
            groups.append(comparable)
    for group in sorted(groups, key=group_sort_key):
        first = group.iloc[0]
        yield {
            "place": machine.name,
            "kind": "measured",
            **describe_question(
                first["workload"], first["scenario"], first["size"], first["batch"]
            ),
            **describe_measure(group),
            "rows": list(list_points(machine.name, group)),
        }


def group_sort_key(group: pd.DataFrame) -> tuple[bool, int]:
    """Return the key that `list_groups` sorts by."""
    return group["size"].iloc[0] == TRIAL_SIZE, -len(group)


def describe_question(workload: str, scenario: str, size: str, batch: int) -> dict[str, object]:
    """Return what a reader chooses a group by."""
    return {
        "workload": get_title(str(workload)),
        "scenario": get_title(str(scenario)),
        "size": str(size),
        "batch": str(batch),
    }


def describe_measure(group: pd.DataFrame) -> dict[str, object]:
    """Return the unit of a group's speeds, and what shares are relative to.

    `paired`: all rows that were timed have a ratio to PyTorch's baseline, by which they are ranked.
    """
    is_paired = group["torch_ratio"].notna() == group["throughput"].notna()
    return {
        "unit": str(group["unit"].iloc[0]),
        "whole": f"what {find_baseline(str(group['scenario'].iloc[0]))} needs",
        "paired": bool(is_paired.all()),
    }


def list_points(machine: str, group: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield the numbers of each strategy; what is absent has no key."""
    smallest = {ranked[0].case for _, ranked in rank_savings(group) if ranked}
    for row in rows.iterate_rows(group):
        yield {
            "framework": row.framework,
            "strategy": row.strategy,
            "family": find_family(row.scenario, row.strategy),
            "needs": round_up(row.needs_bytes),
            "peak": round(row.step_bytes / MIB, 1),
            "share": round(row.needs_ratio, 3),
            "base": bool(row.baseline),
            "least": row.case in smallest,
            "href": get_case_link(machine, row.case),
            **describe_speed(row),
        }


def find_family(scenario: str, strategy: str) -> str:
    """Return what the marker of a strategy stands for."""
    axis = look_up_strategy(scenario, strategy).axis
    return axis if axis in MARKERS else OTHER


def round_up(count: float) -> float:
    """Return bytes in MiB, rounded up to a tenth: a budget of so much does fit."""
    return math.ceil(count / MIB * 10) / 10


def describe_speed(row: Any) -> dict[str, object]:
    """Return the throughput with its range over blocks, and the cost in time in words."""
    if pd.isna(row.throughput):
        return {"cost": "not timed"}
    work = row.throughput * row.step_time_s  # units of one step
    speed: dict[str, object] = {
        "rate": round(row.throughput, 2),
        "range": [round(work / row.step_high_s, 2), round(work / row.step_low_s, 2)],
        "cost": "" if row.baseline or pd.isna(row.time_ratio) else describe_cost(row),
    }
    if pd.notna(row.torch_ratio):
        speed["ratio"] = round(row.torch_ratio, 4)
    return speed


def list_pinned(results: Path) -> Iterator[Planned]:
    """Yield the predictions that the form answers from: of the pinned releases, of one device."""
    for planned in every(results):
        case = Case.from_id(planned.case)
        is_pinned = planned.framework_version == find_pinned_version(planned.framework)
        is_offered = planned.device in BY_NAME and case.workload in spec.list_workloads()
        if is_offered and is_pinned and case.ranks == 1 and find_needs(planned) is not None:
            yield planned


def list_predicted_groups(predictions: Iterable[Planned]) -> Iterator[Group]:
    """Yield what was predicted for each device, by workload, scenario, size and batch."""
    groups: dict[tuple[str, str, str, str, int], list[tuple[Case, Planned]]] = {}
    for planned in predictions:
        case = Case.from_id(planned.case)
        key = planned.device, case.workload, case.scenario, case.size, case.batch
        groups.setdefault(key, []).append((case, planned))
    for (device, workload, scenario, size, batch), group in sorted(
        groups.items(), key=lambda item: -len(item[1])
    ):
        yield {
            "place": device,
            "kind": "predicted",
            **describe_question(workload, scenario, size, batch),
            "whole": f"what {find_baseline(scenario)} needs",
            "rows": list_predicted_points(group),
        }


def list_predicted_points(group: Sequence[tuple[Case, Planned]]) -> list[dict[str, object]]:
    """Return the numbers of each predicted strategy, in the order of the catalog.

    The least of a framework saves so much of its baseline's need that it matters, and computes what
    the baseline computes.
    """
    needs = {case: find_needs(planned) or 0 for case, planned in group}
    bases = {case.framework: needs[case] for case in needs if is_baseline(case)}
    least = find_least(needs, bases)
    strategies = list_strategies(group[0][0].scenario)
    points = []
    for case, planned in sorted(group, key=lambda pair: strategies.index(pair[0].strategy)):
        base = bases.get(case.framework)
        points.append(
            {
                "framework": get_title(case.framework),
                "strategy": case.strategy,
                "family": find_family(case.scenario, case.strategy),
                "needs": round_up(needs[case]),
                "peak": round((planned.peak_bytes or planned.needs_bytes or 0) / MIB, 1),
                "share": round(needs[case] / base, 3) if base else None,
                "base": is_baseline(case),
                "least": case in least,
                "source": SOURCES.get(planned.source or "", ""),
                "error": round(max(-planned.interval.low, planned.interval.high), 3),
                "href": get_prediction_link(
                    planned.device, planned.case, f"{case.framework}-{planned.framework_version}"
                ),
            }
        )
    return points


def is_baseline(case: Case) -> bool:
    """Return whether a case is its scenario's baseline."""
    return case.strategy == case.stage.baseline


def find_least(needs: dict[Case, int], bases: dict[str, int]) -> set[Case]:
    """Return the case of each framework that needs least, where it saves memory."""
    least = set()
    for framework, base in bases.items():
        saving = [
            case
            for case, count in needs.items()
            if case.framework == framework
            and case.plan.same_loss
            and count < base * (1 - PEAK.minimum)
        ]
        if saving:
            least.add(min(saving, key=lambda case: needs[case]))
    return least


def list_questions(predictions: Iterable[Planned]) -> list[dict[str, object]]:
    """Return what can be asked about a device, each with the cases that a command would predict.

    That is training and evaluation of every full size, and what else was predicted for any device.
    """
    keys = list_full_sizes()
    for planned in predictions:
        case = Case.from_id(planned.case)
        keys.append((case.workload, case.scenario, case.size, case.batch))
    questions = []
    for workload, scenario, size, batch in dict.fromkeys(keys):  # each once, in their order
        question = describe_question(workload, scenario, size, batch)
        question["cases"] = f"{workload}/*/{scenario}/*/b{batch}/{size}"
        questions.append(question)
    return questions


def list_full_sizes() -> list[tuple[str, str, str, int]]:
    """Return workload, scenario, size and batch of what everyone asks predictions for."""
    keys = []
    for workload in spec.list_workloads():
        for size, preset in spec.load_workload(workload).sizes.items():
            if size.startswith(FULL_SIZE):
                for scenario, batch in product(ASKED, preset.batches):
                    keys.append((workload, scenario, size, batch))
    return keys
