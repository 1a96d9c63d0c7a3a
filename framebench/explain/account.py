"""Every value of one step as an account: from it follow the timeline, its peak, and who holds it.

Written by the frameworks' own accounts of a step, inside their environments: standard library only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from framebench.instruments.memory_timeline import Value


@dataclass
class Account:
    """Every value of one step, and the phases by the event at which each began."""

    values: list[Value] = field(default_factory=list)
    phases: list[tuple[int, str]] = field(default_factory=list)
    events: int = 0  # in all

    @property
    def phase(self) -> str:
        return self.phases[-1][1]

    def turn(self, phase: str) -> None:
        """From the present event on."""
        if not self.phases or self.phase != phase:
            self.phases.append((self.events, phase))

    def timeline(self) -> list[tuple[int, int, str]]:
        """(event, bytes in use from then on, phase) wherever one of them changes."""
        change: Counter[int] = Counter()
        for value in self.values:
            for event, size in ((value.born, value.size), (value.died, -value.size)):
                if event < self.events:
                    change[int(event)] += size
        begins = dict(self.phases)
        in_use, phase, line = 0, "", []
        for event in sorted(change.keys() | begins.keys()):
            in_use, phase = in_use + change[event], begins.get(event, phase)
            line.append((event, in_use, phase))
        return line

    def as_dict(self) -> dict[str, Any]:
        """The timeline, its highest point, and what is alive there by kind, layer and phase, largest first."""
        line = self.timeline()
        event, peak, phase = max(line, key=lambda moment: moment[1])
        alive = (v for v in self.values if v.size and v.is_alive(event))
        return {"timeline": line, "peak": {"event": event, "bytes": peak, "phase": phase}, "holders": holders(alive)}


def holders(values: Iterable[Value]) -> list[dict[str, Any]]:
    """Values of one kind, layer and phase as one line each; `by` names the operators, the one with most bytes first."""
    groups: dict[tuple[str, str, str], list[Value]] = defaultdict(list)
    for value in values:
        groups[value.kind, value.layer, value.phase].append(value)
    lines = []
    for (kind, layer, phase), members in groups.items():
        by: Counter[str] = Counter()
        for value in members:
            by[value.by] += value.size
        size, makers = sum(by.values()), [name for name, _ in by.most_common() if name]
        lines.append({"kind": kind, "layer": layer, "phase": phase, "bytes": size, "tensors": len(members), "by": makers})
    return sorted(lines, key=lambda h: (-h["bytes"], h["kind"], h["layer"]))
