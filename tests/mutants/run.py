"""Tries the planted bugs: `python -m tests.mutants.run` (`make mutants`).

All of them write studies/planted_bugs/data/mutants.json, as far as it goes; the next run takes up
where one was interrupted, if the sources are still the same. A part of them (`--third`, or words
that their names or cases contain) writes nothing. Exit code 1 if a bug is not `wrong` and is not
listed as equivalent or as beyond verification, or if a case is `wrong` without any bug.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from framebench.engine import environments
from framebench.records import provenance
from framebench.records.provenance import ROOT
from framebench.suite.protocol import VERSION
from tests.mutants.bug import Bug
from tests.mutants.outcomes import MUTANTS, Campaign, Row, read
from tests.mutants.planted import BUGS
from tests.mutants.slot import SOURCES, STEPS, Slot


@cache
def sources() -> str:
    """A hash of everything that workers run from."""
    files = sorted(
        p
        for name in SOURCES
        for p in (ROOT / name).rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    )
    return hashlib.sha256(
        b"".join(str(p.relative_to(ROOT)).encode() + p.read_bytes() for p in files)
    ).hexdigest()


def key(bug: Bug) -> str:
    return hashlib.sha256(
        (sources() + repr((bug.name, bug.case_id, bug.edits))).encode()
    ).hexdigest()[:16]


def control(case_id: str) -> Bug:
    """The case as it is: were it not `ok`, its bugs would be `wrong` for nothing."""
    return Bug("", case_id, ())


def with_controls(bugs: list[Bug]) -> list[Bug]:
    """Each case without a bug, before the first of its bugs."""
    found: dict[Bug, None] = {}
    for bug in bugs:
        found |= {control(bug.case_id): None, bug: None}
    return list(found)


def mixed(bugs: list[Bug], seed: int) -> list[Bug]:
    """In random order, but for the frameworks: a part from the beginning has of each about the
    share that all have.
    """
    shuffled = random.Random(seed).sample(bugs, len(bugs))
    lists: dict[str, list[Bug]] = defaultdict(list)
    for bug in shuffled:
        lists[bug.case.framework].append(bug)
    places = {
        bug: (i + 0.5) / len(group) for group in lists.values() for i, bug in enumerate(group)
    }
    return sorted(shuffled, key=lambda bug: places[bug])


def row(bug: Bug, slot: Slot) -> Row:
    found = slot.verify(bug.case, bug.edited(ROOT), STEPS)
    precision = bug.case.plan.precision
    about = {
        "bug": bug.name,
        "case": bug.case_id,
        "precision": precision,
        "equivalent": bug.equivalent,
    }
    return Row.model_validate(about | {"beyond": bug.beyond, "key": key(bug)} | asdict(found))


def settled(bug: Bug, slot: Slot) -> Row:
    """A crash says nothing of the bug: what crashed is tried once more, by a process without a
    past.
    """
    found = row(bug, slot)
    if found.status == "crashed":
        slot.end(bug.case.framework)
        found = row(bug, slot)
    return found


def tried(bugs: list[Bug], slots: int, minutes: float | None = None) -> Iterator[Row]:
    """What came of each, as soon as it is known; none is begun when so many minutes have passed."""
    waiting: queue.Queue[Bug] = queue.Queue()
    done: queue.Queue[Row | BaseException | None] = queue.Queue()
    ends = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    for bug in bugs:
        waiting.put(bug)

    def work(folder: Path) -> None:
        try:
            with Slot(folder) as slot:
                while time.monotonic() < ends:
                    done.put(settled(waiting.get_nowait(), slot))
        except queue.Empty:
            pass
        except BaseException as error:
            done.put(error)
        done.put(None)

    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        threads = [
            threading.Thread(target=work, args=(Path(scratch) / str(i),), daemon=True)
            for i in range(slots)
        ]
        for thread in threads:
            thread.start()
        working = len(threads)
        while working:
            found = done.get()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                working -= 1
            else:
                yield found
        for thread in threads:
            thread.join()


def in_words(found: Row) -> str:
    off = "" if found.margin is None else f" {found.margin:.3g} x tolerance"
    said = f"  {' '.join(found.reason.split())}" if found.status not in ("ok", "wrong") else ""
    mark = "  " if found.as_wanted else "! "
    seen = f"{found.by}{off}, {found.seconds} s{said}"
    return f"{mark}{found.status:10s} {found.case:48s} {found.bug or '(no bug)'}: {seen}"


def chosen(words: list[str], third: int | None) -> list[Bug]:
    """In the order of the table; a third of them, which any number chooses, mixed in an order of
    that number's own.
    """
    bugs = [b for b in BUGS if not words or any(w in b.name or w in b.case_id for w in words)]
    return bugs if third is None else mixed(bugs[third % 3 :: 3], third)


def write(file: Path, rows: list[Row], wanted: int) -> None:
    """In the order of the table, cases without a bug first; what was not tried with these sources
    is not among them.
    """
    order = {(b.name, b.case_id): i for i, b in enumerate(BUGS)}
    rows = sorted(rows, key=lambda found: (order.get((found.bug, found.case), -1), found.case))
    found = Campaign(
        measured_at=datetime.now(UTC).replace(microsecond=0),
        commit=provenance.find_commit(),
        dirty=provenance.is_dirty(),
        machine=provenance.read_machine_name(),
        protocol=VERSION,
        cases=wanted,
        bugs=tuple(rows),
    )
    file.write_text(json.dumps(found.model_dump(mode="json"), indent=1) + "\n")


def known(file: Path, bugs: list[Bug]) -> list[Row]:
    """What the file has of these bugs, with the sources as they are; not what crashed: memory may
    have run out.
    """
    keys = {key(bug) for bug in bugs}
    return (
        [found for found in read(file).bugs if found.key in keys and found.status != "crashed"]
        if file.exists()
        else []
    )


def main(
    words: Annotated[
        list[str] | None, typer.Argument(help="only bugs whose name or case contains one of these")
    ] = None,
    third: Annotated[
        int | None,
        typer.Option(help="every third bug, from the place that this number divided by 3 leaves"),
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="begin none after so many minutes")] = None,
    slots: Annotated[int, typer.Option(help="so many at a time")] = os.cpu_count() or 1,
    again: Annotated[bool, typer.Option(help="also those that are in the file already")] = False,
) -> None:
    """Plant bugs in copies of the source, one at a time, and see whether verification calls them
    wrong.
    """
    chosen_bugs = with_controls(chosen(words or [], third))
    if not chosen_bugs:
        raise typer.BadParameter(
            f"no planted bug has {' or '.join(words or [])!r} in its name or case"
        )
    everything = not words and third is None
    file = MUTANTS if everything else None
    for framework in sorted({bug.case.framework for bug in chosen_bugs}):
        environments.ensure(framework)
    rows = known(file, chosen_bugs) if file and not again else []
    there = {found.key for found in rows}
    left = [bug for bug in chosen_bugs if key(bug) not in there]
    for found in tried(left, slots, minutes):
        print(in_words(found), flush=True)
        rows.append(found)
        if file:
            write(file, rows, len(chosen_bugs))
    finish(rows, len(chosen_bugs) - len(rows))


def finish(rows: list[Row], untried: int) -> None:
    failed = [found for found in rows if not found.as_wanted]
    planted = [found for found in rows if found.bug]
    wrong = sum(found.status == "wrong" for found in planted)
    said = [
        f"{len(planted)} bugs: {wrong} wrong, {sum(bool(found.equivalent) for found in planted)} "
        "equivalent, "
        f"{sum(found.missed for found in planted)} beyond verification",
        f"{len(rows) - len(planted)} cases without a bug",
        *([f"{untried} not tried, the time being up"] if untried else []),
        f"{len(failed)} not as they should be",
    ]
    print(f"\n{'; '.join(said)}")
    for found in failed:
        print(in_words(found))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
