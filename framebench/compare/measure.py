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

BLOCKS = 6  # studies/noise says how small a difference so many blocks find


class NotMeasured(Exception):
    """A case gave no numbers, so there is nothing to compare; the message names it and why."""


def list_differences(base: Case, change: Case) -> list[str]:
    """Return the fields other than the strategy in which the cases differ: `batch: 4 and 8`.

    A fair comparison has none.
    """
    differences = []
    for name in ("workload", "scenario", "batch", "size"):
        base_value, change_value = getattr(base, name), getattr(change, name)
        if base_value != change_value:
            differences.append(f"{name}: {base_value} and {change_value}")
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
            base_records.append(find_record(run, group, number, variant_index=0))
            change_records.append(find_record(run, group, number, variant_index=1))
    return base_records, change_records


def find_record(run: Run, group: Group, number: int, variant_index: int) -> Record:
    """Return the record of a variant of the group in the block of this number.

    Raises NotMeasured if it has no numbers.
    """
    variant = group.always[variant_index]
    block_records = []
    for record in run.get_records(variant):
        if record.turns and record.turns.block.startswith(f"{run.id}/{group.name}/{number}."):
            block_records.append(record)
    chosen = block_records[-1]
    # both variants may be the same case, so that the index tells them apart; a variant that was
    # measured alone has another index
    for record in block_records:
        if record.turns_taken.arm == variant_index:
            chosen = record  # the newest: an interrupted block is measured again
    if chosen.status != "ok":
        raise NotMeasured(f"{variant.case.id} gave no numbers: {chosen.status}: {chosen.reason}")
    return chosen
