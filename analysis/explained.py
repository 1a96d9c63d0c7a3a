"""What `framebench explain` found, for people: tables of the peak, and the step as a figure."""

from __future__ import annotations

import re
from collections import defaultdict

from analysis.tables import Comparison
from framebench.explain import Explanation, Holder

MIB = 2**20
LARGEST = 15


def mib(size: int) -> str:
    return f"{size / MIB:,.2f}"


def by_kind(found: Explanation) -> Comparison:
    """Bytes at the peak by what they are."""
    peak = found.peak.bytes
    rows = tuple((kind, mib(size), f"{size / peak:.1%}") for kind, size in found.kinds.items())
    measured = ", ".join(f"{mib(size)} MiB ({name})" for name, size in found.measured.items())
    where = f"at event {found.peak.event} of {found.timeline[-1][0]}, in {found.peak.phase}"
    notes = [f"{found.case}: peak {mib(peak)} MiB, {where}"]
    notes.append(f"measured without the account, in the same process: {measured}")
    if found.plan:
        notes.append("the executable's plan: " + ", ".join(f"{mib(size)} MiB {name}" for name, size in found.plan.items()))
    notes.append(f"counted: {found.how}")
    return Comparison("The peak by kind", "", ("kind", "MiB", "share"), rows, left=1, notes=tuple(notes))


def by_layer(found: Explanation) -> Comparison:
    """The largest holders at the peak. Layers that differ in a number alone share a line."""
    alike: dict[tuple[str, str, str], list[Holder]] = defaultdict(list)
    for h in found.holders:
        alike[re.sub(r"\d+", "*", h.layer), h.kind, h.phase].append(h)
    groups = sorted(alike.items(), key=lambda group: -total(group[1]))
    rows = []
    for (layers, kind, phase), members in groups[:LARGEST]:
        layer = members[0].layer if len(members) == 1 else f"{layers} ({len(members)})"
        by = ", ".join(dict.fromkeys(name for h in members for name in h.by[:3]))
        rows.append((layer, kind, phase, by, str(sum(h.tensors for h in members)), mib(total(members))))
    if rest := [h for _, members in groups[LARGEST:] for h in members]:
        rows.append(("the rest", "", "", "", str(sum(h.tensors for h in rest)), mib(total(rest))))
    head = ("layer", "kind", "made in", "made by", "tensors", "MiB")
    return Comparison(f"Who holds it: the {LARGEST} largest", "", head, tuple(rows), left=4)


def total(holders: list[Holder]) -> int:
    return sum(h.bytes for h in holders)
