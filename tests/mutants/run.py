"""Try the planted bugs: `python -m tests.mutants.run` (`make mutants`).

All of them write studies/planted_bugs/data/mutants.json, as far as it goes; the next run takes up
where one was interrupted, if the sources are still the same. A part of them (`--minutes`, or words
that their names or cases contain) writes nothing. Exit code 1 if a bug is not `wrong` and is not
listed as equivalent or as beyond verification, or if a case is `wrong` without any bug.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from framebench.engine import environments
from framebench.records import provenance
from framebench.suite.protocol import VERSION
from tests.mutants.bug import Bug, read_bugs
from tests.mutants.outcomes import MUTANTS, Campaign, Row, read
from tests.mutants.trial import make_key, try_bug


def make_control(case: str) -> Bug:
    """Return a case as it is: were it not `ok`, its bugs would be `wrong` for nothing."""
    return Bug(name="", case=case)


def add_controls(bugs: list[Bug]) -> list[Bug]:
    """Return each case without a bug, before the first of its bugs."""
    result: list[Bug] = []
    for bug in bugs:
        control = make_control(bug.case)
        if control not in result:
            result.append(control)
        result.append(bug)
    return result


def try_bugs(bugs: list[Bug], processes: int, minutes: float) -> Iterator[Row]:
    """Yield what came of each bug, as soon as it is known.

    None is begun when so many minutes have passed.
    """
    deadline = time.monotonic() + 60 * minutes
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as scratch,
        ProcessPoolExecutor(processes, mp_context=spawn) as pool,
    ):
        futures = [pool.submit(try_bug, bug, Path(scratch)) for bug in bugs]
        for future in as_completed(futures):
            yield future.result()
            if time.monotonic() > deadline:
                pool.shutdown(cancel_futures=True)
                return


def describe(row: Row) -> str:
    """Return a line on what came of a bug, marked if it should not be so."""
    mark = "  " if row.as_wanted else "! "
    largest = "" if row.margin is None else f", {row.margin:.3g} x tolerance"
    name = row.bug or "(no bug)"
    return f"{mark}{row.status:10s} {row.case:48s} {name}: {row.by}{largest}, {row.seconds} s"


def write(file: Path, rows: list[Row], cases: int) -> None:
    """Write rows in the order of the table, cases without a bug first."""
    order = {(bug.name, bug.case): i for i, bug in enumerate(read_bugs())}
    rows = sorted(rows, key=lambda row: (order.get((row.bug, row.case), -1), row.case))
    campaign = Campaign(
        measured_at=datetime.now(UTC).replace(microsecond=0),
        commit=provenance.find_commit(),
        dirty=provenance.is_dirty(),
        machine=provenance.read_machine_name(),
        protocol=VERSION,
        cases=cases,
        bugs=tuple(rows),
    )
    file.write_text(json.dumps(campaign.model_dump(mode="json"), indent=1) + "\n")


def read_known(file: Path, bugs: list[Bug]) -> list[Row]:
    """Return the file's rows of these bugs that were tried with the sources as they are.

    Crashes are left out: memory may have run out.
    """
    if not file.exists():
        return []
    keys = {make_key(bug) for bug in bugs}
    return [row for row in read(file).bugs if row.key in keys and row.status != "crashed"]


def main(
    words: Annotated[
        list[str] | None, typer.Argument(help="Only bugs whose name or case contains one of these.")
    ] = None,
    minutes: Annotated[
        float, typer.Option(help="Begin none after so many minutes, in random order.")
    ] = math.inf,
    processes: Annotated[int, typer.Option(help="So many at a time.")] = os.cpu_count() or 1,
) -> None:
    """Plant bugs in copies of the source, and see whether verification calls them wrong."""
    bugs = read_bugs()
    if words:
        bugs = select_bugs(bugs, words)
    if minutes < math.inf:
        random.shuffle(bugs)
    bugs = add_controls(bugs)
    for framework in sorted({bug.parsed.framework for bug in bugs}):
        environments.ensure(framework)
    rows = []
    if words or minutes < math.inf:
        for row in try_bugs(bugs, processes, minutes):
            print(describe(row), flush=True)
            rows.append(row)
    else:
        rows = try_every_bug(bugs, processes)
    sys.exit(summarize(rows, len(bugs) - len(rows)))


def try_every_bug(bugs: list[Bug], processes: int) -> list[Row]:
    """Try what the file of all bugs lacks; write it after each, and return what it has then."""
    rows = read_known(MUTANTS, bugs)
    known = {row.key for row in rows}
    remaining = [bug for bug in bugs if make_key(bug) not in known]
    for row in try_bugs(remaining, processes, math.inf):
        print(describe(row), flush=True)
        rows.append(row)
        write(MUTANTS, rows, len(bugs))
    return rows


def select_bugs(bugs: list[Bug], words: list[str]) -> list[Bug]:
    """Return the bugs whose name or case contains one of these words. Raises BadParameter."""
    selected = []
    for bug in bugs:
        if any(word in bug.name or word in str(bug.case) for word in words):
            selected.append(bug)
    if not selected:
        raise typer.BadParameter(f"no planted bug has {' or '.join(words)} in name or case")
    return selected


def summarize(rows: list[Row], untried: int) -> int:
    """Print how many bugs came out how, and return the exit code."""
    counts: Counter[str] = Counter()
    failed = []
    for row in rows:
        if not row.as_wanted:
            failed.append(row)
        if not row.bug:
            counts["controls"] += 1
            continue
        counts["bugs"] += 1
        counts["wrong"] += row.status == "wrong"
        counts["equivalent"] += bool(row.equivalent)
        counts["missed"] += row.missed
    print(
        f"\n{counts['bugs']} bugs: {counts['wrong']} wrong, {counts['equivalent']} equivalent, "
        f"{counts['missed']} beyond verification; {counts['controls']} cases without a bug; "
        f"{untried} not tried; {len(failed)} not as they should be"
    )
    for row in failed:
        print(f"{describe(row)}\n    {row.reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    typer.run(main)
