"""What the suite itself costs: `python -m analysis.studies.cost` times reading and tabulating 1,000 to 100,000 records.

The records are copies of the committed ones under other times and machines, as files in a temporary folder. Processor time is
given beside wall time, since the machine may be shared.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from analysis import load, tables
from analysis.reports.report import report_of
from framebench.records import store
from framebench.records.provenance import ROOT
from framebench.suite.strategy import FRAMEWORKS

COUNTS = (1_000, 10_000, 100_000)


class Cost(NamedTuple):
    records: int
    read_s: float  # files to rows
    table_s: float  # rows to comparison tables
    read_cpu_s: float  # processor time of the same
    table_cpu_s: float


def copies(count: int, folder: Path) -> None:
    """`count` records on `count / 100` machines, below `folder`/records."""
    sources = [p.read_text() for p in sorted((ROOT / "results" / "records").rglob("*.json"))]
    for i, text in enumerate(islice(cycle(sources), count)):
        machine = f"machine-{i // 100}"
        where = folder / "records" / machine
        where.mkdir(parents=True, exist_ok=True)
        (where / f"{i}.json").write_text(text.replace('"machine": "', f'"machine": "{machine}-', 1))


def measure(count: int) -> Cost:
    with tempfile.TemporaryDirectory() as temporary:
        copies(count, Path(temporary))
        start = now()
        table = load.load(Path(temporary))
        middle = now()
        report_of(table)
        end = now()
        return Cost(count, middle[0] - start[0], end[0] - middle[0], middle[1] - start[1], end[1] - middle[1])


def now() -> tuple[float, float]:
    """Wall-clock and processor seconds."""
    return time.perf_counter(), time.process_time()


def reading(costs: Iterable[Cost]) -> tables.Comparison:
    rows = []
    load_before = os.getloadavg()[0]
    for c in costs:
        cpu = c.read_cpu_s, c.table_cpu_s, c.read_cpu_s + c.table_cpu_s
        seconds = (*cpu, c.read_s + c.table_s)
        rows.append((f"{c.records:,}", *(f"{s:.2f}" for s in seconds), f"{sum(cpu[:2]) / c.records * 1e6:.0f}"))
    head = ("records", "read: processor s", "tabulate: processor s", "both: processor s", "both: wall s", "us a record")
    caption = (
        "Processor seconds, as the machine may be shared: its load average (one minute) was "
        f"{load_before:.1f} before and {os.getloadavg()[0]:.1f} after, on {os.cpu_count()} processors, so wall time is an "
        "upper bound."
    )
    return tables.Comparison("Reading and tabulating records", caption, head, tuple(rows), left=0)


def measuring() -> tables.Comparison:
    """Seconds per case of the committed records, by what they went into: medians."""
    spent: dict[str, dict[str, list[float]]] = {}
    for record in store.read_all(ROOT / "results"):
        for part, seconds in record.spent_s.items():
            spent.setdefault(record.parsed.framework, {}).setdefault(part, []).append(seconds)
    parts = list(dict.fromkeys(part for found in spent.values() for part in found))
    rows = tuple((f, *(f"{statistics.median(spent[f][part]):.2f}" for part in parts)) for f in FRAMEWORKS if f in spent)
    caption = "Seconds per case, medians over the committed records; `harness` is everything but the two workers' own phases."
    return tables.Comparison("Measuring a case", caption, ("framework", *parts), rows, left=1)


def main(arguments: list[str]) -> None:
    """`[COUNT ...] [FILE.md]`: the file's text between `<!-- cost -->` and `<!-- end -->` is replaced."""
    counts = tuple(int(text) for text in arguments if text.isdigit()) or COUNTS
    text = "\n".join(tables.markdown(found) for found in (measuring(), reading(map(measure, counts))))
    for file in (Path(name) for name in arguments if not name.isdigit()):
        file.write_text(
            re.sub("(<!-- cost -->\n).*?(<!-- end -->)", lambda m: m[1] + text + m[2], file.read_text(), flags=re.S)
        )
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
