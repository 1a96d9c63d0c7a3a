"""Two cases, each a process in every block: what disturbs the machine disturbs both alike.

`framebench.analysis.statistics` judges.
"""

from __future__ import annotations

from pathlib import Path

from framebench.engine import runner
from framebench.engine.blocks import SILENT, Listener, Run, measure_group
from framebench.engine.environments import Environment
from framebench.engine.groups import Group, make_variants
from framebench.records.record import Record
from framebench.suite.case import Case

BLOCKS = 6  # studies/noise tells which differences so many blocks find, and fewer would


class NotMeasured(Exception):
    """A case gave no numbers, so there is nothing to compare; the message names it and why."""


def list_differences(base: Case, change: Case) -> list[str]:
    """Return the fields in which the cases differ, strategy apart: `batch: 4 and 8`.

    A fair comparison has none.
    """
    differences = []
    for name in ("workload", "scenario", "batch", "size"):
        of_base, of_change = getattr(base, name), getattr(change, name)
        if of_base != of_change:
            differences.append(f"{name}: {of_base} and {of_change}")
    return differences


def measure(
    pair: tuple[Case, Case],
    blocks: int,
    session: str,
    environments: dict[str, Environment],
    options: runner.Options,
    results: Path,
    listener: Listener = SILENT,
) -> tuple[list[Record], list[Record]]:
    """Measure the blocks that this session lacks; return each case's records, one of every block.

    `environments` are by framework. Raises NotMeasured if a case has no numbers, and OSError if a
    record cannot be written; the records that were written before stay.
    """
    for case in pair:
        why = runner.explain_unsupported(case)
        if why:
            raise NotMeasured(f"{case.id} gave no numbers: unsupported: {why}")
    base, change = pair
    group = Group(f"compare/{base.id}/{change.id}", make_variants(pair, environments))
    base_records, change_records = [], []
    with Run(session, options, results, listener) as run:
        for number in range(blocks):
            measure_group(group, run, number)
            base_records.append(find_record(run, group, number, 0))
            change_records.append(find_record(run, group, number, 1))
    return base_records, change_records


def find_record(run: Run, group: Group, number: int, place: int) -> Record:
    """Return the record of the case at this place in the block of this number.

    Raises NotMeasured if it has no numbers.
    """
    variant = group.always[place]
    records_of_block = []
    for record in run.get_records(variant):
        if record.turns and record.turns.block.startswith(f"{run.id}/{group.name}/{number}."):
            records_of_block.append(record)
    chosen = records_of_block[-1]  # its place is another one where it was measured alone
    for record in records_of_block:
        if record.turns_taken.arm == place:
            chosen = record  # the newest: an interrupted block is measured again
    if chosen.status != "ok":
        raise NotMeasured(f"{variant.case.id} gave no numbers: {chosen.status}: {chosen.reason}")
    return chosen
