"""What `framebench explain` found, for people: tables of the peak, and the step as a figure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from framebench.analysis.comparison import MIB, Comparison, mib
from framebench.explain.record import Explanation, Holder
from framebench.suite.case import Case

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LARGEST = 12
SLIGHT = 0.01  # of the largest change: less is no cause
FINE = ",.2f"  # a hundredth of a MiB
COLOURS = {"forward": "#0173b2", "backward": "#de8f05", "optimizer": "#029e73"}  # seaborn's `colorblind`


def kept(results: Path) -> list[Explanation]:
    """What `framebench explain CASE --json` said and was put into the folder `explained`, by case and version."""
    files = sorted((results / "explained").glob("*.json"))
    explanations = [Explanation.model_validate_json(f.read_bytes()) for f in files]
    return sorted(explanations, key=lambda e: (Case.from_id(e.case), Version(release(e).partition("==")[2])))


def causes(results: Path) -> Callable[[str, str, str], str | None]:
    """Why the peak of a case changed from one version to another, such as `jax==0.9.2`, as far as steps were explained."""
    explanations = kept(results)
    return lambda case, base, change: cause(case, base, change, explanations)


def newest(explanations: Sequence[Explanation]) -> list[Explanation]:
    """Of each case the one of the newest version."""
    return list({e.case: e for e in explanations}.values())


def of_two_versions(explanations: Sequence[Explanation]) -> list[tuple[Explanation, Explanation]]:
    """Of each case that is explained in several versions the two newest, the older first."""
    of_case: dict[str, list[Explanation]] = {}
    for e in explanations:
        of_case.setdefault(e.case, []).append(e)
    return [(several[-2], several[-1]) for several in of_case.values() if len(several) > 1]


def release(explanation: Explanation) -> str:
    """Such as `jax==0.10.2`."""
    framework = Case.from_id(explanation.case).framework
    return f"{framework}=={explanation.versions[framework].partition('+')[0]}"


def cause(case: str, base: str, change: str, explanations: Sequence[Explanation]) -> str | None:
    """What the fullest moment of a step holds more or less of, most first; None unless the case is explained in both versions,
    such as `jax==0.9.2`."""
    by_release = {release(e): e for e in explanations if e.case == case}
    if base not in by_release or change not in by_release:
        return None
    grown = Counter(by_release[change].kinds)
    grown.subtract(by_release[base].kinds)
    most = max(map(abs, grown.values()))
    told = sorted(((kind, size) for kind, size in grown.items() if abs(size) > SLIGHT * most), key=lambda one: -abs(one[1]))
    return ", ".join(f"{kind} {size / MIB:+,.1f} MiB" for kind, size in told) or "the same of every kind"


def by_kind(explanation: Explanation) -> Comparison:
    """Bytes at the peak by what they are."""
    peak = explanation.peak.bytes
    rows = tuple((kind, mib(size, FINE), f"{size / peak:.1%}") for kind, size in explanation.kinds.items())
    measured = ", ".join(f"{mib(size, FINE)} MiB ({name})" for name, size in explanation.measured.items())
    where = f"at event {explanation.peak.event} of {explanation.timeline[-1][0]}, in {explanation.peak.phase}"
    notes = [f"{explanation.case}: peak {mib(peak, FINE)} MiB, {where}"]
    notes.append(f"the same process without this account of its memory: {measured}")
    if explanation.plan:
        notes.append(
            "the executable's plan: " + ", ".join(f"{mib(size, FINE)} MiB {name}" for name, size in explanation.plan.items())
        )
    notes.append(f"counted: {explanation.how}")
    return Comparison.of_text(
        f"The peak by kind: {explanation.case}", "", ("kind", "MiB", "share"), rows, left=1, notes=tuple(notes)
    )


def kept_for_nothing(explanation: Explanation) -> str:
    """Of an evaluation that keeps what only a backward pass would need; empty if nothing is."""
    saved = explanation.kinds.get("saved for backward", 0)
    if not saved or Case.from_id(explanation.case).scenario != "eval":
        return ""
    return (
        f"Nothing in an evaluation calls backward: without gradients, as by no_grad, {mib(saved, FINE)} of "
        f"{mib(explanation.peak.bytes, FINE)} MiB would not be kept"
    )


def by_layer(explanation: Explanation) -> Comparison:
    """The largest holders at the peak. Layers that differ in a number alone share a line."""
    alike: dict[tuple[str, str, str], list[Holder]] = defaultdict(list)
    for h in explanation.holders:
        alike[re.sub(r"\d+", "*", h.layer), h.kind, h.phase].append(h)
    groups = sorted(alike.items(), key=lambda group: -total(group[1]))
    rows = []
    for (layers, kind, phase), members in groups[:LARGEST]:
        layer = members[0].layer if len(members) == 1 else f"{layers} ({len(members)})"
        by = ", ".join(dict.fromkeys(name for h in members for name in h.by[:3]))
        rows.append((layer, kind, phase, by, str(sum(h.tensors for h in members)), mib(total(members), FINE)))
    if rest := [h for _, members in groups[LARGEST:] for h in members]:
        rows.append(("the rest", "", "", "", str(sum(h.tensors for h in rest)), mib(total(rest), FINE)))
    head = ("layer", "kind", "made in", "made by", "tensors", "MiB")
    return Comparison.of_text(
        f"Who holds it: {explanation.case}", f"The {LARGEST} largest, most first.", head, tuple(rows), left=4
    )


def total(holders: list[Holder]) -> int:
    return sum(h.bytes for h in holders)


def figure(explanation: Explanation) -> Figure:
    """Bytes in use over the step, coloured by phase; beside it what they are at the peak."""
    from framebench.analysis.figures import page

    return page.styled(drawn)(explanation)


def drawn(explanation: Explanation) -> Figure:
    import matplotlib.pyplot as plt
    import pandas as pd
    import seaborn as sns

    from framebench.analysis.figures import page

    made, (line, bars) = plt.subplots(1, 2, figsize=(11, 3.6), width_ratios=(3, 1))
    _over_time(explanation, line)
    kinds = pd.Series(
        {kind: size / MIB for kind, size in explanation.kinds.items() if size >= 0.001 * explanation.peak.bytes}, name="MiB"
    )
    sns.barplot(x=kinds, y=kinds.index, color="0.6", ax=bars)
    bars.bar_label(bars.containers[0], fmt="{:,.2f}", padding=2, size=7)  # type: ignore[arg-type]
    bars.set(title="at the peak", ylabel="", xlim=(0, 1.3 * kinds.max()))
    bars.grid(False)
    sns.despine(made)
    made.tight_layout()
    made.legend(loc="upper center", bbox_to_anchor=(0.5, 0.01), ncols=6, frameon=False)
    most, size = next(iter(explanation.kinds.items()))
    peak = (
        f"peak {mib(explanation.peak.bytes, FINE)} MiB in {explanation.peak.phase}, {size / explanation.peak.bytes:.0%} {most}"
    )
    versions = ", ".join(f"{name} {version}" for name, version in explanation.versions.items())
    return page.explained(made, f"{explanation.case}: {peak}", [f"One steady step on {explanation.device}; {versions}."])


def _over_time(explanation: Explanation, axes: Axes) -> None:
    """One curve in the colours of the phases, below lines for what was measured."""
    edges = [event for event, _, _ in explanation.timeline] + [explanation.timeline[-1][0] + 1]
    for name, colour in COLOURS.items():
        heights = [size / MIB * (phase == name) for _, size, phase in explanation.timeline]
        if any(heights):
            axes.stairs(heights, edges, fill=True, color=colour, label=name)
    axes.plot(explanation.peak.event, explanation.peak.bytes / MIB, "v", color="black", label="peak")
    shown = [name for name in explanation.measured if name != "allocator.reserved"]
    for name, style in zip(shown, ("--", ":")):
        axes.axhline(explanation.measured[name] / MIB, color="0.3", linestyle=style, label=f"measured: {name}")
    axes.set(xlim=(0, edges[-1]), ylim=(0, None), xlabel="event", ylabel="MiB in use")
