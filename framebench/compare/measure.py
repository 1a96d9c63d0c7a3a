"""Two cases, each a process in every block: what disturbs the machine disturbs both alike.

`framebench.analysis.statistics` judges.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from framebench.engine import runner
from framebench.engine.blocks import SILENT, Listener, Run, measure_group
from framebench.engine.environments import Environment
from framebench.engine.groups import Group
from framebench.engine.timed_process import Variant
from framebench.records.record import Record
from framebench.suite.case import Case

BLOCKS = 6  # what they find, and what fewer would: studies/noise


class Round(NamedTuple):
    """One record of each case; `base` is what `change` is compared with."""

    base: Record
    change: Record


class NotMeasured(Exception):
    """A case gave no numbers, so there is nothing to compare; the message names it and why."""


def list_differences(base: Case, change: Case) -> list[str]:
    """Return where the cases differ in what they compute, not only in how: `batch: 4 and 8`.

    A fair comparison has none.
    """
    differences = []
    for name in ("workload", "scenario", "batch", "size"):
        one, other = getattr(base, name), getattr(change, name)
        if one != other:
            differences.append(f"{name}: {one} and {other}")
    return differences


def measure(
    pair: tuple[Case, Case],
    blocks: int,
    session: str,
    ready: dict[str, Environment],
    options: runner.Options,
    results: Path,
    listener: Listener = SILENT,
) -> list[Round]:
    """Measure the blocks that this session lacks, and return all of them; each record lies in the
    usual place.

    Raises NotMeasured, and OSError if a record cannot be written; what was measured until then is
    kept.
    """
    for case in pair:
        why = runner.explain_unsupported(case)
        if why:
            raise NotMeasured(f"{case.id} gave no numbers: unsupported: {why}")
    base, change = pair
    variants = Variant(base, ready[base.framework]), Variant(change, ready[change.framework])
    group = Group(f"compare/{base.id}/{change.id}", variants)
    rounds = []
    with Run(session, options, results, listener) as run:
        for number in range(blocks):
            measure_group(group, run, number)
            rounds.append(
                Round(find_record(run, group, number, 0), find_record(run, group, number, 1))
            )
    return rounds


def find_record(run: Run, group: Group, number: int, place: int) -> Record:
    """Return the record of the case at this place in the block of this number.

    Raises NotMeasured where it has no numbers.
    """
    variant = group.always[place]
    of_block = []
    for record in run.records(variant):
        if record.turns and record.turns.block.startswith(f"{run.id}/{group.name}/{number}."):
            of_block.append(record)
    found = of_block[-1]  # the last, if it was measured alone
    for record in of_block:
        if record.turns_taken.arm == place:
            found = record
            break
    if found.status != "ok":
        raise NotMeasured(f"{variant.case.id} gave no numbers: {found.status}: {found.reason}")
    return found
