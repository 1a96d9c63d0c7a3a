"""Make tables of explained steps: what the peak is made of, by kind and by layer."""

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
SLIGHT = 0.01  # a kind whose change is a smaller share of the largest is no cause
FINE = ",.2f"  # a hundredth of a MiB


def load_explanations(results: Path) -> list[Explanation]:
    """Return the explanations in the folder `explained`, by case and version.

    What `framebench explain CASE --json` printed is put there by hand. Other files are named in
    RecordWarnings.
    """

    def rank(explanation: Explanation) -> tuple[Case, Version]:
        return Case.from_id(explanation.case), Version(explanation.framework_version)

    files = sorted((results / "explained").glob("*.json"))
    return sorted(store.read_models(Explanation, files), key=rank)


def select_newest(explanations: Sequence[Explanation]) -> list[Explanation]:
    """Return each case's explanation in the newest version.

    `explanations` are in the order of versions.
    """
    newest = {explanation.case: explanation for explanation in explanations}
    return list(newest.values())


def load_causes(results: Path) -> Callable[[str, str, str], str | None]:
    """Return a function that says why a case's peak changed from one release to another.

    A release is written as in `jax==0.9.2`, and a cause as in `saved for backward +10.0 MiB,
    gradient -2.0 MiB`. The largest difference comes first, and slight ones are left out. The
    function returns None unless the case was explained in both releases.
    """
    stored = {
        (explained.case, explained.release): explained for explained in load_explanations(results)
    }

    def describe_cause(case: str, base: str, change: str) -> str | None:
        """Return by how much each kind of bytes grew or shrank, the largest difference first."""
        if (case, base) not in stored or (case, change) not in stored:
            return None
        # a kind that only one release has counts as 0 in the other
        increases = Counter(stored[case, change].kinds)  # bytes by kind
        increases.subtract(stored[case, base].kinds)
        least = SLIGHT * max(map(abs, increases.values()))
        notable = []
        for kind in sorted(increases, key=lambda kind: -abs(increases[kind])):
            if abs(increases[kind]) > least:
                notable.append(f"{kind} {increases[kind] / MIB:+,.1f} MiB")
        return ", ".join(notable) or "the same of every kind"

    return describe_cause


def tabulate_kinds(explanation: Explanation) -> Table:
    """Return a table of the bytes at the peak by kind."""
    peak = explanation.peak
    rows = [
        (kind, format_mib(size, FINE), f"{size / peak.bytes:.1%}")
        for kind, size in explanation.kinds.items()
    ]
    measured = [
        f"{format_mib(size, FINE)} MiB ({name})" for name, size in explanation.measured.items()
    ]
    notes = [
        f"{explanation.case}: peak {format_mib(peak.bytes, FINE)} MiB, at event {peak.event} of "
        f"{explanation.timeline[-1].event}, in {peak.phase}",
        f"the same process without this account of its memory: {', '.join(measured)}",
    ]
    if explanation.plan:
        parts = [f"{format_mib(size, FINE)} MiB {name}" for name, size in explanation.plan.items()]
        notes.append(f"the executable's plan: {', '.join(parts)}")
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
    ordered = sorted(groups.items(), key=lambda group: -count_bytes(group[1]))
    rows = []
    for (layers, kind, phase), holders in ordered[:LARGEST]:
        layer = holders[0].layer if len(holders) == 1 else f"{layers} ({len(holders)})"
        operators: dict[str, None] = {}  # an ordered set
        for holder in holders:
            operators |= dict.fromkeys(holder.by[:3])
        rows.append((layer, kind, phase, ", ".join(operators), *sum_holders(holders)))
    rest = [holder for _, holders in ordered[LARGEST:] for holder in holders]
    if rest:
        rows.append(("the rest", "", "", "", *sum_holders(rest)))
    return Table.of_text(
        f"Who holds it: {explanation.case}",
        f"The {LARGEST} largest, most first.",
        ("layer", "kind", "made in", "made by", "tensors", "MiB"),
        rows,
        left=4,
    )


def fold_numbers(layer: str) -> str:
    """Return the layer with `*` for each number: `blocks.0.fc1` and `blocks.1.fc1` are one."""
    return re.sub(r"\d+", "*", layer)


def sum_holders(holders: Sequence[LayerMemory]) -> tuple[str, str]:
    """Return the cells of the sum of some holders: the number of tensors, and MiB."""
    tensors = sum(holder.tensors for holder in holders)
    return str(tensors), format_mib(count_bytes(holders), FINE)


def count_bytes(holders: Sequence[LayerMemory]) -> int:
    """Return the bytes of some holders."""
    return sum(holder.bytes for holder in holders)


def advise_no_grad(explanation: Explanation) -> str:
    """Return a hint for an evaluation that keeps what only a backward pass needs.

    The text is empty if it keeps nothing of the kind.
    """
    saved = explanation.kinds.get("saved for backward", 0)
    if not saved or Case.from_id(explanation.case).scenario != "eval":
        return ""
    return (
        "Nothing in an evaluation calls backward: without gradients, as by no_grad, "
        f"{format_mib(saved, FINE)} of {format_mib(explanation.peak.bytes, FINE)} MiB would not "
        "be kept"
    )
