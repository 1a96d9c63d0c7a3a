"""Measure what `framebench.load()` takes for many records.

    python -m tools.reading_load 1000 10000 100000

The published records are repeated, each time in a session of its own and a day older, until there
are so many, all of one machine. They lie in a temporary folder. For each number of records another
process loads them; its processor time and its peak of resident memory are printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from framebench.records import store
from framebench.records.lines import append_lines
from framebench.records.provenance import ROOT

MACHINE = "many"
LOAD = """
import resource, sys
import framebench
rows = len(framebench.load(sys.argv[1]))
used = resource.getrusage(resource.RUSAGE_SELF)
print(f"{rows:,} rows: {used.ru_utime + used.ru_stime:.1f} s of processor time, "
      f"{used.ru_maxrss / 1024:,.0f} MiB")
"""


def repeat(line: str, machine: str, number: int) -> str:
    """Return a record as this number's repetition of its session would have made it."""
    record: dict[str, Any] = json.loads(line)
    origin = record["provenance"]
    measured_at = datetime.fromisoformat(origin["measured_at"]) - timedelta(days=number)
    origin["measured_at"] = measured_at.isoformat()
    origin["session"] += f"-{number}"
    origin["machine"] = MACHINE
    if record["turns"]:
        # by the machine too: two of them may have a block of the same name
        record["turns"]["block"] += f"-{machine}-{number}"
    return json.dumps(record, separators=(",", ":"))


def write_records(results: Path, wanted: int) -> None:
    """Write so many records of one machine into a results folder."""
    written = 0
    for number in count():
        for published in store.list_files(ROOT / "results"):
            machine, name = Path(published).parts[-2:]
            lines = Path(published).read_text().split("\n")[:-1][: wanted - written]
            repeated = [repeat(line, machine, number) for line in lines]
            append_lines(repeated, results / store.FOLDER / MACHINE / name)
            written += len(repeated)
            if written == wanted:
                return


def main() -> None:
    """Print a line for each number of records that the arguments name."""
    for argument in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            write_records(Path(folder), int(argument))
            done = subprocess.run(
                [sys.executable, "-c", LOAD, folder], capture_output=True, text=True, check=True
            )
            print(f"{int(argument):,} records, {done.stdout.strip()}")


if __name__ == "__main__":
    main()
