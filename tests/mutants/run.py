"""Tries the planted bugs: `python -m tests.mutants.run` (`make mutants`).

All of them write results/study/mutants.json, as far as it goes; the next run takes up where one was interrupted, if the
sources are still the same. A part of them (`--third`, or words that their names or cases contain) writes nothing. Exit code 1
if a bug is not `wrong` and is not listed as equivalent, or if a case is `wrong` without any bug.

`--profile standard` plants nothing: it verifies each case of the profile, which takes hours, into results/study/cells.json.
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
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from framebench.measure import environments
from framebench.records import provenance
from framebench.records.provenance import ROOT
from framebench.suite.profiles import profile as cases_of
from framebench.suite.protocol import VERSION
from tests.mutants.bug import Bug
from tests.mutants.planted import BUGS
from tests.mutants.slot import SOURCES, Slot

MUTANTS, CELLS = ROOT / "results/study/mutants.json", ROOT / "results/study/cells.json"
Line = dict[str, Any]


@cache
def sources() -> str:
    """A hash of everything that workers run from."""
    files = sorted(p for name in SOURCES for p in (ROOT / name).rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return hashlib.sha256(b"".join(str(p.relative_to(ROOT)).encode() + p.read_bytes() for p in files)).hexdigest()


def key(bug: Bug) -> str:
    return hashlib.sha256((sources() + repr(bug)).encode()).hexdigest()[:16]


def controls(bugs: list[Bug]) -> list[Bug]:
    """The bugs' cases as they are: were one not `ok`, its bugs would be `wrong` for nothing."""
    return [Bug("", case, ()) for case in sorted({bug.case_id for bug in bugs})]


def line(bug: Bug, slot: Slot) -> Line:
    found = slot.verify(bug.case, bug.edited(ROOT))
    about = {"bug": bug.name, "case": bug.case_id, "precision": bug.case.plan.precision, "equivalent": bug.equivalent}
    return about | asdict(found) | {"key": key(bug)}


def cells(name: str) -> list[Bug]:
    """The cases of a profile as they are, the frameworks mixed, so that a part says something of each."""
    found = [case.id for case in cases_of(name) if case.support.supported and not case.support.gpu]
    return [Bug("", case, ()) for case in random.Random(0).sample(found, len(found))]


def tried(bugs: list[Bug], slots: int) -> Iterator[Line]:
    """What came of each, as soon as it is known."""
    waiting: queue.Queue[Bug] = queue.Queue()
    done: queue.Queue[Line | BaseException] = queue.Queue()
    for bug in bugs:
        waiting.put(bug)

    def work(folder: Path) -> None:
        try:
            with Slot(folder) as slot:
                while True:
                    done.put(line(waiting.get_nowait(), slot))
        except queue.Empty:
            pass
        except BaseException as error:
            done.put(error)

    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        threads = [threading.Thread(target=work, args=(Path(scratch) / str(i),), daemon=True) for i in range(slots)]
        for thread in threads:
            thread.start()
        for _ in bugs:
            found = done.get()
            if isinstance(found, BaseException):
                raise found
            yield found
        for thread in threads:
            thread.join()


def as_wanted(found: Line) -> bool:
    """A bug is `wrong`, unless it is equivalent; then, as without any bug, it must not be."""
    unharmed = not found["bug"] or bool(found["equivalent"])
    return found["status"] in (("ok", "not proven") if unharmed else ("wrong",))


def in_words(found: Line) -> str:
    off = "" if found["margin"] is None else f" {found['margin']:.3g} x tolerance"
    said = f"  {found['reason'][:160]}" if found["status"] not in ("ok", "wrong") else ""
    mark = "  " if as_wanted(found) else "! "
    seen = f"{found['by']}{off}, {found['seconds']} s{said}"
    return f"{mark}{found['status']:10s} {found['case']:48s} {found['bug'] or '(no bug)'}: {seen}"


def chosen(words: list[str], third: int | None) -> list[Bug]:
    bugs = [b for b in BUGS if not words or any(w in b.name or w in b.case_id for w in words)]
    return bugs if third is None else bugs[third % 3 :: 3]


def write(file: Path, lines: list[Line]) -> None:
    """In the order of the table, cases without a bug first; what was not tried with these sources is not among them."""
    order = {(b.name, b.case_id): i for i, b in enumerate(BUGS)}
    lines = sorted(lines, key=lambda found: (order.get((found["bug"], found["case"]), -1), found["case"]))
    about = {"commit": provenance.commit(), "dirty": provenance.dirty(), "machine": provenance.machine_name()}
    when = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({"measured_at": when, **about, "protocol": VERSION, "sources": sources(), "bugs": lines}, indent=1)
    file.write_text(text + "\n")


def main(
    words: Annotated[list[str] | None, typer.Argument(help="only bugs whose name or case contains one of these")] = None,
    third: Annotated[int | None, typer.Option(help="every third bug, from this one on")] = None,
    profile: Annotated[str, typer.Option(help="no bug, but every case of this profile")] = "",
    slots: Annotated[int, typer.Option(help="so many at a time")] = os.cpu_count() or 1,
    again: Annotated[bool, typer.Option(help="also those that are in the file already")] = False,
) -> None:
    """Plant bugs in copies of the source, one at a time, and see whether verification calls them wrong."""
    bugs = cells(profile) if profile else chosen(words or [], third)
    if not bugs:
        raise typer.BadParameter(f"no planted bug has {' or '.join(words or [])!r} in its name or case")
    file = CELLS if profile else MUTANTS if len(bugs) == len(BUGS) else None
    finish(every(bugs if profile else controls(bugs) + bugs, file, slots, again))


def every(bugs: list[Bug], file: Path | None, slots: int, again: bool) -> list[Line]:
    """What came of all bugs: read from the file as far as it is there, the others tried and written to it."""
    for framework in sorted({bug.case.framework for bug in bugs}):
        environments.ensure(framework)
    known = {b["key"]: b for b in json.loads(file.read_text())["bugs"]} if file and file.exists() and not again else {}
    lines = [known[key(bug)] for bug in bugs if key(bug) in known]
    for found in tried([bug for bug in bugs if key(bug) not in known], slots):
        print(in_words(found), flush=True)
        lines.append(found)
        if file:
            write(file, lines)
    return lines


def finish(lines: list[Line]) -> None:
    failed = [found for found in lines if not as_wanted(found)]
    planted = [found for found in lines if found["bug"]]
    wrong = sum(found["status"] == "wrong" for found in planted)
    equivalent = sum(bool(found["equivalent"]) for found in planted)
    print(
        f"\n{len(planted)} bugs: {wrong} wrong, {equivalent} equivalent; {len(lines) - len(planted)} cases without a bug; ",
        end="",
    )
    print(f"{len(failed)} not as they should be")
    for found in failed:
        print(in_words(found))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
