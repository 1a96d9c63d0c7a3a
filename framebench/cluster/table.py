"""Make the table of docs/cluster.md: the time of a run on many machines, from blocks here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from framebench.analysis.rendering import Table, TableColumn
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS

# the run whose time is estimated
CASES = 10_000
MACHINES = 100
BLOCKS = 5  # blocks of each case
COLUMNS = {
    "blocks_of": TableColumn("blocks of"),
    "measured": TableColumn("measured"),
    "cases": TableColumn("cases in a block", ".1f"),
    "minutes": TableColumn("minutes of a block", ".1f"),
    "slowest": TableColumn("slowest", ".1f"),
    "units": TableColumn(f"units of {CASES:,} cases", ",.0f"),
    "hours": TableColumn("hours", ".1f"),
}
ORIGIN = ["machine", "protocol"]


def make_tables(records: Sequence[Record]) -> Iterator[Table]:
    """Yield a table of the machine and protocol with the most timed blocks; nothing without blocks.

    A row has the cost of the blocks that compare one framework's strategies, and the last row the
    cost of all blocks.
    """
    df = list_costs(records)
    if df.empty:
        return
    counts = df.groupby(ORIGIN, sort=False)["block"].nunique().reset_index()
    most = counts.sort_values("block", ascending=False, kind="stable").iloc[0]
    machine, protocol = most["machine"], most["protocol"]
    df = df[(df["machine"] == machine) & (df["protocol"] == protocol)]
    # PyTorch's baseline is in other frameworks' blocks too: such a block counts for the other one
    compared = df.groupby("block")["framework"].transform("max")
    df = df.assign(compared=compared, is_own=df["framework"] == compared)
    blocks = df.groupby("block").agg(
        compared=("compared", "first"), cases=("is_own", "sum"), minutes=("minutes", "sum")
    )
    rows = []
    for number, framework in enumerate(FRAMEWORKS):
        of_framework = blocks[blocks["compared"] == number]
        if not of_framework.empty:
            rows.append(make_row(framework, of_framework))
    rows.append(make_row("all", blocks))
    caption = (
        f"Blocks with times on {machine} under protocol {protocol}. A block's minutes are the sum "
        "of what its processes took, for the time and, in a session's first block, for the memory; "
        "cases are those beside PyTorch's baseline, which JAX's and Jittor's blocks have too. "
        f"Hours are those of {CASES:,} cases of the kind, {BLOCKS} blocks each, on {MACHINES} "
        "machines that are never idle, without the environments, which each kind of machine builds "
        "once, and a minute of calibration on each."
    )
    yield Table("What a run on many machines takes", caption, pd.DataFrame(rows), COLUMNS, left=1)


def list_costs(records: Sequence[Record]) -> pd.DataFrame:
    """Return the minutes that each case of a timed block took, by its place in FRAMEWORKS.

    Blocks without times do not count: they were not alone on their machine.
    """
    rows = []
    for record in records:
        seconds = record.spent_s.get("total")
        if record.turns is None or not seconds or record.parsed.size == "tiny":
            continue
        row = {
            "machine": record.provenance.machine,
            "protocol": record.provenance.protocol,
            "block": record.turns.block,
            "framework": FRAMEWORKS.index(record.parsed.framework),
            "minutes": seconds / 60,
            "timed": record.timed,
        }
        rows.append(row)
    if not rows:
        return pd.DataFrame()
    df = pd.DataFrame(rows)
    return df[df.groupby([*ORIGIN, "block"])["timed"].transform("any")]


def make_row(name: str, blocks: pd.DataFrame) -> dict[str, object]:
    """Return a row: the mean minutes of the blocks, and an estimate of the hours for all cases.

    `name` says which blocks they are.
    """
    cases = blocks["cases"].mean()
    minutes = blocks["minutes"].mean()
    units = BLOCKS * CASES / cases
    return {
        "blocks_of": name,
        "measured": len(blocks),
        "cases": cases,
        "minutes": minutes,
        "slowest": blocks["minutes"].max(),
        "units": units,
        "hours": units * minutes / 60 / MACHINES,
    }
