"""Make tables of explained steps: what the peak is made of, by kind and by layer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from packaging.version import Version

from framebench.analysis.rendering import MIB, Table, format_mib
from framebench.analysis.rows import join_words
from framebench.explain.record import Explanation, LayerMemory
from framebench.records import store
from framebench.suite.case import Case
from framebench.suite.sequences import drop_duplicates, group_by

LARGEST = 12  # rows of a table; the others are summed
# A kind whose change is a smaller share of the largest is no cause, and layers that differ by less
# hold as much.
SLIGHT = 0.01
FINE = ",.2f"  # a hundredth of a MiB
# What the peak's bytes of a kind are, in words that end a sentence. Other kinds end it by their
# names.
KIND_WORDS = {
    "saved for backward": "is kept for the backward pass",
    "temporary": "is temporary",
    "optimizer state": "is the optimizer's state",
    "parameter": "is parameters",
    "gradient": "is gradients",
    "recomputed": "was recomputed for the backward pass",
}
OUTSIDE = {  # what an account names in the place of a layer
    "(loss)": "the loss",
    "(optimizer)": "the optimizer",
    "(compiler)": "the compiler",
    "(beside the step)": "what lies beside the step",
}
MOST_NAMED = 3  # of layers that hold as much


def load_explanations(results: Path) -> list[Explanation]:
    """Return the explanations in the folder `explained`, by case and version.

    What `framebench explain CASE --json` printed is put there by hand. Other files are named in
    RecordWarnings.
    """

    def rank(explanation: Explanation) -> tuple[Case, Version]:
        return Case.from_id(explanation.case), Version(explanation.framework_version)

    files = sorted((results / "explained").glob("*.json"))
    return sorted(store.read_models(Explanation, files), key=rank)


def select_newest_version(explanations: Sequence[Explanation]) -> list[Explanation]:
    """Return each case's explanation in the newest version.

    `explanations` are in the order of versions.
    """
    newest = {explanation.case: explanation for explanation in explanations}
    return list(newest.values())


def load_causes(results: Path) -> Callable[[str, str, str], str | None]:
    """Return a function that says why a case's peak changed from one release to another.

    A release is written as in `jax==0.9.2`, and a cause as in `saved for backward +10.0 MiB,
    gradient -2.0 MiB`. The function returns None unless the case was explained in both releases.
    """
    stored = {}
    for explanation in load_explanations(results):
        stored[explanation.case, explanation.release] = explanation

    def find_cause(case: str, base: str, change: str) -> str | None:
        """Return the cause of a change of the peak of `case` from `base` to `change`, or None."""
        if (case, base) not in stored or (case, change) not in stored:
            return None
        return describe_cause(stored[case, base], stored[case, change])

    return find_cause


def describe_cause(base: Explanation, change: Explanation) -> str:
    """Return by how much each kind of bytes grew or shrank, the largest difference first.

    Slight differences are left out.
    """
    # a kind that only one release has counts as 0 in the other
    differences = Counter(change.kinds)  # bytes by kind
    differences.subtract(base.kinds)
    largest_first = sorted(differences.items(), key=lambda item: abs(item[1]), reverse=True)
    _kind, largest = largest_first[0]
    texts = []
    for kind, difference in largest_first:
        if abs(difference) > SLIGHT * abs(largest):
            texts.append(f"{kind} {difference / MIB:+,.1f} MiB")
    return ", ".join(texts) or "the same of every kind"


def summarize_peak(explanation: Explanation) -> str:
    """Return in words what most of the peak is, and which layers hold most of it."""
    peak = explanation.peak.bytes
    kind, size = next(iter(explanation.kinds.items()))
    words = KIND_WORDS.get(kind, f"is {kind}")
    most = (
        f"{size / peak:.1%} of the peak {words}: {format_mib(size, FINE)} of "
        f"{format_mib(peak, FINE)} MiB."
    )
    return f"{most} {describe_largest_layers(explanation)}".rstrip()


def describe_largest_layers(explanation: Explanation) -> str:
    """Return which layers hold most, and what outside of the layers holds more; "" without layers.

    A layer's bytes are the sum over all kinds. Those of the modules inside it are not counted.
    """
    bytes_by_layer: Counter[str] = Counter()
    bytes_outside: Counter[str] = Counter()
    for holder in explanation.holders:
        if holder.layer in OUTSIDE:
            bytes_outside[OUTSIDE[holder.layer]] += holder.bytes
        elif holder.layer:
            bytes_by_layer[holder.layer] += holder.bytes
    if not bytes_by_layer:
        return ""
    most = max(bytes_by_layer.values())
    # copies of a block hold nearly as much as each other, and none of them stands out
    largest = [name for name, size in bytes_by_layer.items() if size >= (1 - SLIGHT) * most]
    amount = f"{format_mib(most, FINE)} MiB ({most / explanation.peak.bytes:.1%})"
    if len(largest) == 1:
        text = f"Of the layers {largest[0]} holds most: {amount}"
    else:
        text = f"Of the layers {name_equal_layers(largest)} hold most: up to {amount} each"
    larger = []
    for place, size in bytes_outside.most_common():
        if size > most:
            larger.append(f"{place} holds {format_mib(size, FINE)} MiB")
    if larger:
        text += f". Outside of them {join_words(larger)}"
    return f"{text}."


def name_equal_layers(layers: Sequence[str]) -> str:
    """Return two or more layers by name; many as one name with `*` for numbers, or by a count."""
    if len(layers) <= MOST_NAMED:
        return join_words(list(layers))
    folded = {fold_numbers(layer) for layer in layers}
    if len(folded) == 1:
        return f"{folded.pop()} ({len(layers)})"
    return f"{layers[0]} and {len(layers) - 1} others"


def tabulate_kinds(explanation: Explanation) -> Table:
    """Return a table of the bytes at the peak by kind."""
    peak = explanation.peak
    rows = []
    for kind, size in explanation.kinds.items():
        rows.append((kind, format_mib(size, FINE), f"{size / peak.bytes:.1%}"))
    measured = []
    for instrument, size in explanation.measured.items():
        measured.append(f"{format_mib(size, FINE)} MiB ({instrument})")
    notes = [
        f"{explanation.case}: peak {format_mib(peak.bytes, FINE)} MiB, at event {peak.event} of "
        f"{explanation.timeline[-1].event}, in {peak.phase}",
        f"the same process without this account of its memory: {', '.join(measured)}",
    ]
    if explanation.plan:
        planned = []
        for part, size in explanation.plan.items():
            planned.append(f"{format_mib(size, FINE)} MiB {part}")
        notes.append(f"the executable's plan: {', '.join(planned)}")
    notes.append(f"counted: {explanation.how}")
    title = f"The peak by kind: {explanation.case}"
    return Table.of_text(title, "", ("kind", "MiB", "share"), rows, left=1, notes=tuple(notes))


def tabulate_layers(explanation: Explanation) -> Table:
    """Return a table of the layers whose tensors take most of the peak, one row for the rest.

    Layers that differ only in a number share a row, which has their count in brackets.
    """
    groups = group_by(
        explanation.holders,
        lambda holder: (fold_numbers(holder.layer), holder.kind, holder.phase),
    )
    largest_first = sorted(groups, key=lambda key: count_bytes(groups[key]), reverse=True)
    rows = []
    for key in largest_first[:LARGEST]:
        layer, kind, phase = key
        holders = groups[key]
        if len(holders) == 1:
            layer = holders[0].layer  # with its numbers
        else:
            layer += f" ({len(holders)})"
        operators: list[str] = []
        for holder in holders:
            operators += holder.by[:3]
        made_by = ", ".join(drop_duplicates(operators))
        rows.append((layer, kind, phase, made_by, *sum_holders(holders)))
    others: list[LayerMemory] = []
    for key in largest_first[LARGEST:]:
        others += groups[key]
    if others:
        rows.append(("the rest", "", "", "", *sum_holders(others)))
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
