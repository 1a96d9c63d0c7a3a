"""Tables of devices, and of what was planned for them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from framebench.analysis.needs import format_needs
from framebench.analysis.rendering import (
    DETAIL,
    ESSENTIAL,
    MISSING,
    Table,
    TableColumn,
    format_mib,
    format_number,
)
from framebench.devices.catalog import BY_NAME, DEVICES, Device
from framebench.devices.found_wrong import COMPARE_GRADIENTS, WrongResult, describe_wrong
from framebench.devices.needs import find_context_bytes
from framebench.devices.plans.planned import Planned, compute_saving, find_upper_needs
from framebench.devices.plans.planning import is_reusable
from framebench.devices.tables.errors import describe_errors
from framebench.models import spec
from framebench.ranks.cases import list_rank_notes
from framebench.records.pins import find_pinned_version
from framebench.records.record_base import parse_case
from framebench.suite.case import Case

FINE = ",.2f"
SAVING, SAVING_FORM = "in use x base", ".2f"  # a column's title, and the format of its ratios
SAVING_CAPTION = (
    f" {SAVING}: relative to the baseline of the same framework and batch, by tensors in PyTorch "
    "and by the whole plan in JAX, which does not tell tensors apart."
)
# entries of a prediction's `parts` that are no parts of the peak
NO_SUMMANDS = {
    "allocated": "the sum of the parts: what tensors use at the peak",
    "reserved": "what the allocator takes of the device for them",
    "between_steps": "what tensors use when a step begins, with the last step's gradients if kept",
    "aliased": "outputs that are written over arguments, and count once",
    "host": "in the memory of the host, not of the device",
}
HEAD_OF_PARTS = (
    "part",
    "asked for by",
    "shape",
    TableColumn("buffers", priority=DETAIL),
    "MiB",
    "share",
)
SOURCE_LINE = re.compile(r".+?\.py:\d+")  # before the operator that the line calls
SOURCE_WORDS = {"compiler.plan": "planned", "allocator.simulated": "simulated"}


def tabulate_devices(devices: Sequence[Device] = DEVICES) -> Table:
    """Return a table of devices and what is assumed of them."""
    sources = TableColumn("figures from", priority=DETAIL)
    rows = []
    for device in devices:
        capability = device.capability or device.topology
        figures = (f"{device.gib:,.2f}", capability, str(device.cores), device.source)
        rows.append((device.name, device.title, *figures))
    return Table.of_text(
        "Devices that cases are planned for",
        "Memory is what a program can have. No GPU is needed here: `framebench predict CASE "
        "--device NAME`.",
        ("name", "device", "GiB", "capability", "cores", sources),
        rows,
    )


def list_cached(predictions: Iterable[Planned], title: str = "Cached predictions") -> Table | None:
    """Return a table of how many predictions are cached by device and release.

    Return None if no prediction is cached.
    """
    cached: Counter[tuple[int, str, str]] = Counter()  # by place in the catalog, and release
    older: Counter[tuple[int, str, str]] = Counter()  # of an earlier version of the planners
    names = list(BY_NAME)
    for planned in predictions:
        # a user's file is planned each time
        if Case.from_id(planned.case).workload != spec.USER_MODEL:
            release = f"{planned.framework} {planned.framework_version}"
            place = names.index(planned.device), planned.device, release
            cached[place] += 1
            older[place] += not is_known_and_reusable(planned)
    if not cached:
        return None
    rows = []
    for place, count in sorted(cached.items()):
        rows.append((*place[1:], str(count), str(older[place])))
    caption = (
        f"{older.total()} of {cached.total()} were made by an older version of the planners. "
        "`framebench predict CASES --device NAME` recomputes such a prediction."
    )
    return Table.of_text(title, caption, ("device", "release", "cases", "older"), rows)


def is_known_and_reusable(planned: Planned) -> bool:
    """Return whether `predict` would show this cached prediction.

    It would not if the case or the device no longer exists, or if it would compute the prediction
    again (`is_reusable`).
    """
    try:
        case = parse_case(planned.case)
    except (ValueError, KeyError):
        return False
    return planned.device in BY_NAME and case.is_known and is_reusable(planned)


def group_pinned(
    predictions: Iterable[Planned], device: Device
) -> dict[tuple[str, str, str], list[tuple[Case, Planned]]]:
    """Return the pinned releases' predictions of one process, by workload, scenario and size.

    Cases that this version does not have are left out.
    """
    groups = defaultdict(list)
    for planned in predictions:
        is_pinned = planned.framework_version == find_pinned_version(planned.framework)
        if planned.device == device.name and is_pinned:
            case = Case.from_id(planned.case)
            if case.ranks == 1 and case.is_known:
                groups[case.workload, case.scenario, case.size].append((case, planned))
    return dict(sorted(groups.items()))


def get_baseline(case: Case) -> Case:
    """Return the baseline of a case: the same step without a strategy."""
    return replace(case, strategy=case.scenario_spec.baseline)


def tabulate_cases(
    predictions: Sequence[Planned],
    device: Device,
    wrong: Sequence[WrongResult] = (),
    baselines: Iterable[Planned] = (),
) -> Table:
    """Return a table of what each case needs on the device, and what it saves.

    Below it stand what no prediction holds, once, and which results were `wrong` on a GPU.

    Args:
        predictions: One of each case.
        device: The target device.
        wrong: Results that were found wrong on a GPU.
        baselines: Predictions to which ratios are formed, in addition to `predictions`.
    """
    rows = []
    unplanned = {}
    missing: dict[str, None] = {}  # as an ordered set
    cases_by_note = defaultdict(list)
    by_case = {planned.case: planned for planned in (*baselines, *predictions)}
    without_ratio = []
    for planned in predictions:
        case = parse_case(planned.case)
        base = by_case.get(get_baseline(case).id)
        saving = compute_saving(planned, base)
        if base is None and planned.used_bytes and case.ranks == 1:
            without_ratio.append(case)
        if saving is not None and not case.same_mathematics:
            cases_by_note["other mathematics, so its ratio is no saving"].append(case.label)
        if planned.has_answer:
            rows.append(
                (
                    case.label,
                    format_number(saving, SAVING_FORM),
                    format_mib(planned.parts.get("allocated")),
                    describe_reserved(planned),
                    format_needs(find_upper_needs(planned)),
                    describe_share(planned, device),
                )
            )
        else:
            unplanned[case.label] = planned.reason or planned.outcome
        if planned.missing:
            release = f"{planned.framework} {planned.framework_version}"
            missing[f"not in the peaks of {release}: {'; '.join(planned.missing)}"] = None
        for note in (*planned.notes, *list_rank_notes(case)):
            cases_by_note[note].append(case.label)
        found_wrong = describe_wrong(case, wrong)
        if found_wrong:
            cases_by_note[f"{found_wrong}: {COMPARE_GRADIENTS}"].append(case.label)
    notes = [f"{', '.join(cases)}: {note}" for note, cases in cases_by_note.items()]
    if without_ratio:
        notes.append(explain_no_ratio(without_ratio))
    caption = (
        f"Not measured. in use = tensors; reserved = what the framework's allocator takes, with "
        f"the error that predictions had ({describe_errors(predictions)}); needs = its upper "
        f"end{describe_context(device)}. The device has {device.gib:,.2f} GiB."
    )
    if any(Case.from_id(planned.case).ranks > 1 for planned in predictions):
        caption += " Of a case over ranks: one of its devices."
    if any(row[1] != MISSING for row in rows):
        caption += SAVING_CAPTION
    return Table.of_text(
        f"What cases need on one {device.title}",
        caption,
        (
            TableColumn("case", priority=ESSENTIAL),
            SAVING,
            "in use MiB",
            "reserved MiB",
            TableColumn("needs MiB", priority=ESSENTIAL),
            TableColumn("of memory", priority=ESSENTIAL),
        ),
        rows,
        left=1,
        notes=(*missing, *notes, *group_by_reason(unplanned)),
    )


def explain_no_ratio(cases: Sequence[Case]) -> str:
    """Return that these cases have no ratio, and which baseline is to be named next to them."""
    baselines = {get_baseline(case).id: case.scenario_spec.baseline for case in cases}
    (example, strategy), *_ = baselines.items()
    names = f"{{{strategy},{cases[0].strategy}}}"
    return (
        f"no ratio without a prediction of the baseline, such as {example}: name it too, as in "
        f"{names}"
    )


def group_by_reason(reasons: Mapping[str, str]) -> list[str]:
    """Return lines on what was not predicted, each a reason and all names that have it."""
    names = defaultdict(list)
    for name, reason in reasons.items():
        names[reason].append(name)
    return [f"not predicted: {', '.join(those)}: {reason}" for reason, those in names.items()]


def list_unanswered(predictions: Iterable[Planned]) -> list[str]:
    """Return why no peak was predicted, a line for each reason, and what bounds each case."""
    reasons = {}
    bounds = []
    for planned in predictions:
        label = parse_case(planned.case).label
        reasons[label] = planned.reason or planned.outcome
        bounds += [f"{label}: {note}" for note in planned.notes]
    return [*group_by_reason(reasons), *bounds]


def describe_share(planned: Planned, device: Device) -> str:
    """Return which share of the device's memory the case needs.

    If even the predicted bytes are more than there are, say that it does not fit.
    """
    needs = find_upper_needs(planned)
    if planned.predicted_bytes is None or needs is None:
        return "does not fit" if planned.outcome == "refused" else MISSING
    share = f"{needs / device.memory_bytes:.1%}"
    is_too_large = planned.outcome == "refused" or planned.predicted_bytes > device.memory_bytes
    return f"{share}: does not fit" if is_too_large else share


def describe_reserved(planned: Planned) -> str:
    """Return what the framework is predicted to take in MiB, with its interval if it is judged."""
    if planned.peak_bytes is None:
        return format_mib(planned.needs_bytes)
    if not planned.error_interval.is_judged:
        return f"{format_mib(planned.peak_bytes)} (error not judged)"
    low = planned.peak_bytes * (1 + planned.error_interval.low)
    high = planned.peak_bytes * (1 + planned.error_interval.high)
    interval = f"{format_mib(low, ',.0f')} to {format_mib(high, ',.0f')}"
    return f"{format_mib(planned.peak_bytes)} ({interval})"


def describe_context(device: Device) -> str:
    """Return what a process takes next to its allocator; nothing on a device without context."""
    _, most = find_context_bytes(device)
    return f" + {format_mib(most, ',.0f')} MiB of CUDA context" if most else ""


def tabulate_parts(planned: Planned, device: Device) -> Table:
    """Return a table of what the peak of one case is made of, and the largest buffers.

    What is no part of the peak, such as `reserved`, stands below.
    """
    parts = list_summands(planned)
    total = sum(parts.values())
    rows = []
    for name, size in parts.items():
        if size:
            rows.append((name, "", "", "", format_mib(size, FINE), f"{size / total:.1%}"))
    for buffer in planned.largest:
        rows.append(
            ("", buffer.line, buffer.shape, str(buffer.count), format_mib(buffer.bytes, FINE), "")
        )
    notes = []
    for name, meaning in NO_SUMMANDS.items():
        if planned.parts.get(name):
            notes.append(f"{name}: {format_mib(planned.parts[name], FINE)} MiB, {meaning}")
    return Table.of_text(
        f"What {parse_case(planned.case).label} is made of on one {device.title}",
        f"Not measured: {planned.source}, {planned.compiler or planned.framework_version}. The "
        "parts at the peak, then what most of it is for. Of buffers that share a place the largest "
        "is named. Each name: docs/explain.md.",
        HEAD_OF_PARTS,
        rows,
        left=3,
        notes=tuple(notes),
    )


def summarize_parts(planned: Planned) -> str:
    """Return in words which part of a predicted peak is largest, and which line holds most.

    The line is that with the most bytes among the largest buffers; "" without any.
    """
    parts = list_summands(planned)
    total = sum(parts.values())
    if not total:
        return ""
    name = max(parts, key=lambda part: parts[part])
    text = (
        f"The largest part of the peak is {name}: {parts[name] / total:.1%} "
        f"({format_mib(parts[name], FINE)} of {format_mib(total, FINE)} MiB)."
    )
    bytes_by_line: Counter[str] = Counter()
    for buffer in planned.largest:
        line = SOURCE_LINE.match(buffer.line)
        if line:  # others have an operator or an argument in its place
            bytes_by_line[line[0]] += buffer.bytes
    if bytes_by_line:
        ((line_name, size),) = bytes_by_line.most_common(1)
        text += (
            f" Of the buffers below, {line_name} asked for most: {format_mib(size, FINE)} MiB "
            f"({size / total:.1%})."
        )
    return text


def list_summands(planned: Planned) -> dict[str, int]:
    """Return the parts that sum to what is in use at the peak.

    Of JAX's outputs these are the bytes that are not written over arguments.
    """
    summands = {}
    for name, size in planned.parts.items():
        if name not in NO_SUMMANDS:
            summands[name] = size
    aliased = planned.parts.get("aliased", 0)
    if aliased:
        summands["outputs, not aliased"] = summands.pop("outputs", 0) - aliased
    return summands
