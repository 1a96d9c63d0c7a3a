"""Tables of explained steps: what the peak is made of, by kind and by layer."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from packaging.version import Version

from framebench.analysis.rendering import MIB, Table, format_mib
from framebench.explain.record import Explanation, LayerMemory
from framebench.records import store
from framebench.suite.case import Case

LARGEST = 12  # rows of a table; the others are summed
SLIGHT = 0.01  # of the largest change: less is no cause
FINE = ",.2f"  # a hundredth of a MiB


def load_explanations(results: Path) -> list[Explanation]:
    """Return the explanations in the folder `explained`, by case and version.

    What `framebench explain CASE --json` printed is put there by hand.
    """

    def rank(explanation: Explanation) -> tuple[Case, Version]:
        return Case.from_id(explanation.case), Version(find_release(explanation).partition("==")[2])

    files = (results / "explained").glob("*.json")
    return sorted((store.read_model(Explanation, file) for file in sorted(files)), key=rank)


def find_release(explanation: Explanation) -> str:
    """Return the framework and its version, such as `jax==0.10.2`."""
    framework = Case.from_id(explanation.case).framework
    return f"{framework}=={explanation.versions[framework].partition('+')[0]}"


def select_newest(explanations: Sequence[Explanation]) -> list[Explanation]:
    """Return each case's explanation in the newest version.

    `explanations` are in the order of versions.
    """
    newest = {explanation.case: explanation for explanation in explanations}
    return list(newest.values())


def pair_versions(explanations: Sequence[Explanation]) -> list[tuple[Explanation, Explanation]]:
    """Return the two newest explanations, older first, of each case that is explained in several
    versions.

    `explanations` are in the order of versions.
    """
    by_case: dict[str, list[Explanation]] = defaultdict(list)
    for explanation in explanations:
        by_case[explanation.case].append(explanation)
    return [(several[-2], several[-1]) for several in by_case.values() if len(several) > 1]


def load_causes(results: Path) -> Callable[[str, str, str], str | None]:
    """Return a function of a case and two releases that says why the peak changed.

    It is `describe_cause` with the stored explanations.
    """
    explanations = load_explanations(results)

    def describe(case: str, base: str, change: str) -> str | None:
        return describe_cause(case, base, change, explanations)

    return describe


def describe_cause(
    case: str, base: str, change: str, explanations: Sequence[Explanation]
) -> str | None:
    """Return how the peak of a case differs between two releases, by kind, in words.

    An example is `saved for backward +10.0 MiB, gradient -2.0 MiB`; the largest difference comes
    first, and slight ones are left out. None unless the case is explained in both releases.

    Args:
        case: The id of the case.
        base: The release that is compared with, such as `jax==0.9.2`.
        change: The other release.
        explanations: Of any cases and releases.
    """
    by_release = {}
    for explanation in explanations:
        if explanation.case == case:
            by_release[find_release(explanation)] = explanation
    if base not in by_release or change not in by_release:
        return None
    increases = Counter(by_release[change].kinds)  # bytes by kind
    increases.subtract(by_release[base].kinds)
    largest = max(map(abs, increases.values()))
    notable = [(kind, size) for kind, size in increases.items() if abs(size) > SLIGHT * largest]
    notable.sort(key=lambda pair: -abs(pair[1]))
    if not notable:
        return "the same of every kind"
    return ", ".join(f"{kind} {size / MIB:+,.1f} MiB" for kind, size in notable)


def tabulate_kinds(explanation: Explanation) -> Table:
    """Return a table of the bytes at the peak by kind."""
    peak = explanation.peak
    rows = [
        (kind, format_mib(size, FINE), f"{size / peak.bytes:.1%}")
        for kind, size in explanation.kinds.items()
    ]
    last_event = explanation.timeline[-1].event
    measured = ", ".join(
        f"{format_mib(size, FINE)} MiB ({name})" for name, size in explanation.measured.items()
    )
    notes = [
        f"{explanation.case}: peak {format_mib(peak.bytes, FINE)} MiB, at event {peak.event} of "
        f"{last_event}, in {peak.phase}",
        f"the same process without this account of its memory: {measured}",
    ]
    if explanation.plan:
        parts = ", ".join(
            f"{format_mib(size, FINE)} MiB {name}" for name, size in explanation.plan.items()
        )
        notes.append(f"the executable's plan: {parts}")
    notes.append(f"counted: {explanation.how}")
    title = f"The peak by kind: {explanation.case}"
    return Table.of_text(title, "", ("kind", "MiB", "share"), rows, left=1, notes=tuple(notes))


def tabulate_layers(explanation: Explanation) -> Table:
    """Return a table of the largest holders at the peak.

    Layers that differ in a number only share a row.
    """
    groups: dict[tuple[str, str, str], list[LayerMemory]] = defaultdict(list)
    for holder in explanation.holders:
        groups[fold_numbers(holder.layer), holder.kind, holder.phase].append(holder)
    by_size = sorted(groups.items(), key=lambda group: -total_bytes(group[1]))
    rows = []
    for (layers, kind, phase), holders in by_size[:LARGEST]:
        layer = holders[0].layer if len(holders) == 1 else f"{layers} ({len(holders)})"
        operators: dict[str, None] = {}  # an ordered set
        for holder in holders:
            operators |= dict.fromkeys(holder.by[:3])
        rows.append((layer, kind, phase, ", ".join(operators), *tensors_and_size(holders)))
    rest = [holder for _, holders in by_size[LARGEST:] for holder in holders]
    if rest:
        rows.append(("the rest", "", "", "", *tensors_and_size(rest)))
    return Table.of_text(
        f"Who holds it: {explanation.case}",
        f"The {LARGEST} largest, most first.",
        ("layer", "kind", "made in", "made by", "tensors", "MiB"),
        rows,
        left=4,
    )


def fold_numbers(layer: str) -> str:
    """Return the layer with `*` for each number, so that `blocks.0.fc1` and `blocks.1.fc1` are
    one.
    """
    return re.sub(r"\d+", "*", layer)


def tensors_and_size(holders: Sequence[LayerMemory]) -> tuple[str, str]:
    """Return the cells that holders have together: the number of tensors, and MiB."""
    return str(sum(holder.tensors for holder in holders)), format_mib(total_bytes(holders), FINE)


def total_bytes(holders: Sequence[LayerMemory]) -> int:
    """Return the bytes of some holders."""
    return sum(holder.bytes for holder in holders)


def advise_no_grad(explanation: Explanation) -> str:
    """Return a hint for an evaluation that keeps what only a backward pass would need; empty if it
    keeps nothing.
    """
    saved = explanation.kinds.get("saved for backward", 0)
    if not saved or Case.from_id(explanation.case).scenario != "eval":
        return ""
    return (
        "Nothing in an evaluation calls backward: without gradients, as by no_grad, "
        f"{format_mib(saved, FINE)} of {format_mib(explanation.peak.bytes, FINE)} MiB would not "
        "be kept"
    )
