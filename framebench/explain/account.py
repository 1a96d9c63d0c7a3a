"""Collect every value of one step: from these follow the memory's timeline, its peak and holders.

The modules `<framework>_account.py` fill an account inside the frameworks' environments. This one
needs the standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from framebench.instruments.memory_timeline import Value
from framebench.suite.sequences import group_by


class Moment(NamedTuple):
    """The bytes in use from one event on, and the phase of the step."""

    event: int
    bytes: int
    phase: str


@dataclass
class Account:
    """Collect every value of one step, and the phases that the step went through.

    Events are counted from 0. Each framework's account says what an event is.
    """

    values: list[Value] = field(default_factory=list)
    phases: list[tuple[int, str]] = field(default_factory=list)  # each with its first event
    events: int = 0  # the number of events so far

    @property
    def phase(self) -> str:
        """Return the phase that the step is in; an empty text before the first."""
        return self.phases[-1][1] if self.phases else ""

    def enter_phase(self, phase: str) -> None:
        """Begin a phase at the next event, unless the step is in it already."""
        if self.phase != phase:
            self.phases.append((self.events, phase))

    def as_dict(self) -> dict[str, Any]:
        """Return timeline, peak and holders, as fields of an `Explanation`.

        The holders are the values alive at the peak, in groups.
        """
        timeline = self.make_timeline()
        peak = max(timeline, key=lambda moment: moment.bytes)
        values = [value for value in self.values if value.size]
        timeline_by_kind = {}
        for kind, of_kind in group_by(values, lambda value: value.kind).items():
            changes = self.count_changes(of_kind)
            timeline_by_kind[kind] = list(accumulate(changes[moment.event] for moment in timeline))
        alive = [value for value in values if value.is_alive(peak.event)]
        return {
            "timeline": timeline,
            "timeline_by_kind": timeline_by_kind,
            "peak": peak._asdict(),
            "holders": group_holders(alive),
        }

    def make_timeline(self) -> list[Moment]:
        """Return, in order, the moments at which the bytes in use or the phase may change."""
        changes = self.count_changes(self.values)
        phase_by_event = dict(self.phases)  # if two begin at one event, the later one counts
        timeline = []
        in_use = 0
        phase = ""
        for event in sorted(changes.keys() | phase_by_event.keys()):
            in_use += changes[event]
            phase = phase_by_event.get(event, phase)
            timeline.append(Moment(event, in_use, phase))
        return timeline

    def count_changes(self, values: Iterable[Value]) -> Counter[int]:
        """Return by event how many more bytes, or fewer, these values take from then on."""
        changes: Counter[int] = Counter()
        for value in values:
            if value.born < self.events:
                changes[int(value.born)] += value.size
            if value.died < self.events:
                changes[int(value.died)] -= value.size
        return changes


def group_holders(values: Iterable[Value]) -> list[dict[str, Any]]:
    """Return one entry for all values of one kind, layer and phase, most bytes first.

    The operators that made the values (`by`) are in the order of their bytes, too.
    """
    groups = group_by(values, lambda value: (value.kind, value.layer, value.phase))
    holders: list[dict[str, Any]] = []
    for (kind, layer, phase), members in groups.items():
        operators: Counter[str] = Counter()  # bytes
        for value in members:
            operators[value.by] += value.size
        holders.append(
            {
                "kind": kind,
                "layer": layer,
                "phase": phase,
                "bytes": operators.total(),
                "tensors": len(members),
                "by": [name for name, _ in operators.most_common() if name],
            }
        )
    holders.sort(key=lambda holder: (-holder["bytes"], holder["kind"], holder["layer"]))
    return holders
