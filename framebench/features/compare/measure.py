"""Two cases, each a process in every block: what disturbs the machine disturbs both alike. `framebench.analysis.statistics`
judges."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from framebench.engine import runner
from framebench.engine.blocks import NOBODY, Listener, Run, measure_group
from framebench.engine.environments import Environment
from framebench.engine.groups import Group
from framebench.engine.timed_process import Arm
from framebench.records.record import Record
from framebench.suite.case import Case

BLOCKS = 6  # what they find, and what fewer would: studies/noise


class Round(NamedTuple):
    """One record of each arm; `base` is what `change` is compared with."""

    base: Record
    change: Record


class NotMeasured(Exception):
    """A case gave no numbers, so there is nothing to compare; the message names it and why."""


def differences(base: Case, change: Case) -> list[str]:
    """Where the cases differ in what they compute, not only in how: `batch: 4 and 8`. Empty for a fair comparison."""
    pairs = {name: (getattr(base, name), getattr(change, name)) for name in ("workload", "scenario", "batch", "size")}
    return [f"{name}: {a} and {b}" for name, (a, b) in pairs.items() if a != b]


def measure(
    pair: tuple[Case, Case],
    blocks: int,
    session: str,
    ready: dict[str, Environment],
    options: runner.Options,
    results: Path,
    listener: Listener = NOBODY,
) -> list[Round]:
    """The blocks, each arm a record of its own in the usual place; what this session has measured already is not repeated.

    Raises NotMeasured, OSError if a record cannot be written; what was measured until then is kept.
    """
    for case in pair:
        if why := runner.unsupported(case):
            raise NotMeasured(f"{case.id} gave no numbers: unsupported: {why}")
    base, change = (Arm(case, ready[case.framework]) for case in pair)
    group, rounds = Group(f"compare/{base.case.id}/{change.case.id}", (base, change)), []
    with Run(session, options, results, listener) as run:
        for number in range(blocks):
            measure_group(group, run, number)
            rounds.append(Round(*(_record_of(run, arm, i, number, group) for i, arm in enumerate((base, change)))))
    return rounds


def _record_of(run: Run, arm: Arm, place: int, number: int, group: Group) -> Record:
    """Of the arm at this place in the block of this number. Raises NotMeasured where it has no numbers."""
    name = f"{run.id}/{group.name}/{number}."
    records = [r for r in run.records(arm) if r.turns and r.turns.block.startswith(name)]
    record = next((r for r in records if r.turns and r.turns.arm == place), records[-1])  # the last: it was measured alone
    if record.status != "ok":
        raise NotMeasured(f"{arm.case.id} gave no numbers: {record.status}: {record.reason}")
    return record
