"""Measure on a card what tools/gpu_cases.csv lists, in its order, as far as the minutes go: `python -m tools.gpu [MINUTES]`.

A block of the list is measured as a whole, since ratios need its cases alive at once; one that does not fit into the time or
the memory left waits, and a smaller one goes before it. What has a record is not measured again, but for what crashed or took
too long under another commit. tools/gpu.sh starts this, and docs/gpu.md tells how it is used.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from framebench.cli.measuring import measure_all
from framebench.cli.shared import BROKEN, fail, report_failures, say
from framebench.engine import installed
from framebench.engine.capacity import OF_CARD, free_on_card
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.session import Session, alone
from framebench.instruments import nvml
from framebench.records import provenance, store
from framebench.records.provenance import ROOT
from framebench.records.record import ROUNDS, Record
from framebench.suite.case import Case
from framebench.suite.selectors import parse

CARD = ROOT / "card"  # git ignores it
LIST = ROOT / "tools" / "gpu_cases.csv"
LIMIT_S = 300.0  # of each worker
SLACK_S = 20.0  # for the end: workers that are killed, and the archive
GIB = 2**30


@dataclass(frozen=True)
class Planned:
    """One line of the list. `seconds` and `gib` are what its two workers take, and the card's memory, as far as was known."""

    half: str  # the half hour that it was planned for
    block: str
    rounds: int  # 0: verification and memory alone
    case: Case
    seconds: float
    gib: float


Blocks = dict[str, list[Planned]]


def planned(file: Path) -> Blocks:
    """By block, in order. Raises UnknownCase."""
    rows_by_block: Blocks = {}
    with file.open() as lines:
        for row in csv.DictReader(lines):
            one = Planned(
                row["half"], row["block"], int(row["rounds"]), parse(row["case"]), float(row["seconds"]), float(row["gib"])
            )
            rows_by_block.setdefault(one.block, []).append(one)
    return rows_by_block


def rehearsed(blocks: Blocks) -> Blocks:
    """The same at the smallest size, with three rounds for eight."""

    def small(one: Planned) -> Planned:
        base, tiny = one.case.spec.preset(one.case.size).base, one.case.spec.preset("tiny").batches
        case = replace(one.case, size="tiny", batch=tiny[0] if one.case.batch <= base else tiny[-1])
        return replace(one, case=case, rounds=min(one.rounds, ROUNDS))

    return {name: list({small(one).case: small(one) for one in rows}.values()) for name, rows in blocks.items()}


def answered(results: Path, timed: bool) -> dict[Case, Record]:
    """What needs no other try, with times or without. Under another commit, what crashed or took too long may do better."""
    every = (r for r in store.read_all(results) if r.provenance.machine == provenance.read_machine_name())
    final = (
        r for r in every if r.status not in BROKEN or r.status == "wrong" or r.provenance.commit == provenance.find_commit()
    )
    return {r.parsed: r for r in final if not timed or r.status != "ok" or r.step_s}


def left_of(rows: list[Planned], results: Path, ready: dict[str, Environment]) -> list[Planned]:
    answered_cases = answered(results, timed=rows[0].rounds > 0)
    return [one for one in rows if one.case not in answered_cases and one.case.framework in ready]


def pace(blocks: Blocks, results: Path) -> float:
    """How many times as long as expected what is there took; 1 where nothing is."""
    spent = {r.parsed: r.spent_s["total"] for r in answered(results, timed=True).values() if r.step_s and "total" in r.spent_s}
    pairs = [(spent[one.case], one.seconds) for rows in blocks.values() for one in rows if one.rounds and one.case in spent]
    return sum(took for took, _ in pairs) / sum(expected for _, expected in pairs) if pairs else 1.0


@contextmanager
def until(moment: float) -> Iterator[None]:
    """Interrupted, as by Ctrl-C, when time.monotonic() comes to this moment."""

    def over(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, over)
    if moment < float("inf"):
        signal.setitimer(signal.ITIMER_REAL, max(0.1, moment - time.monotonic()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def measure(name: str, rows: list[Planned], ready: dict[str, Environment], results: Path, room: int | None) -> list[str]:
    """Each case's status. Each part is a session, since the names of its blocks are counted among its own cases. The next call
    goes on with an interrupted one."""
    options, statuses = Options(rounds=rows[0].rounds, time_limit_s=LIMIT_S, first_alone=any(map(tunes, rows))), list[str]()
    for part in [rows] if options.rounds else alive_at_once(rows, room):
        opened = Session.open(results, provenance.name_code(), f"{name} of the list for a card")
        statuses += measure_all([one.case for one in part], opened, ready, options, results)
        opened.close(results)
    return statuses


def tunes(one: Planned) -> bool:
    """Whether it chooses kernels by their times, and takes what it finds of the card for that: it must be alone."""
    return one.case.size != "tiny" and (one.case.framework == "jax" or "autotune" in one.case.strategy)


def alive_at_once(rows: list[Planned], room: int | None) -> list[list[Planned]]:
    """In as many parts as the card needs to have room for each, and calm for those that tune."""
    parts: list[list[Planned]] = [[]]
    for one in rows:
        full = room is not None and sum(p.gib for p in [*parts[-1], one]) * GIB > OF_CARD * room
        if parts[-1] and (full or any(map(tunes, [parts[-1][-1], one]))):
            parts.append([])
        parts[-1].append(one)
    return parts


def work(blocks: Blocks, ready: dict[str, Environment], results: Path, end: float) -> list[str]:
    """Statuses of what was measured until the end."""
    statuses: list[str] = []
    for name, rows in blocks.items():
        if not (rows := left_of(rows, results, ready)):
            continue
        seconds = pace(blocks, results) * sum(one.seconds for one in rows)
        left, room, gib = end - time.monotonic(), free_on_card(), max(one.gib for one in rows)
        if seconds > left or (room is not None and gib * GIB > room):
            say(f"-- {name} waits: it takes about {seconds:.0f} s and {gib:g} GiB; {left:.0f} s are left")
            continue
        began = time.monotonic()
        say(f"== {name}: {len(rows)} cases, about {seconds:.0f} s of {left:.0f}")
        statuses += measure(name, rows, ready, results, room)
        say(f"   {name} took {time.monotonic() - began:.0f} s")
    return statuses


def tell(blocks: Blocks, ready: dict[str, Environment], results: Path) -> None:
    """What is left of the list, and how long it would take."""
    factor = pace(blocks, results)
    for name, rows in blocks.items():
        if left := left_of(rows, results, ready):
            seconds = factor * sum(one.seconds for one in left)
            say(f"left, half hour {rows[0].half}: {name}, {len(left)} of {len(rows)} cases, about {seconds:.0f} s")
    every = [one for rows in blocks.values() for one in rows if one.case.framework in ready]
    count = len([one for rows in blocks.values() for one in left_of(rows, results, ready)])
    if absent := {one.case.framework for rows in blocks.values() for one in rows} - ready.keys():
        say(f"not counted, since this Python does not have it: {', '.join(sorted(absent))}")
    say(f"{len(every) - count} of {len(every)} cases need no more; steps took {factor:.2f} times as long as the list expects")


def frameworks(blocks: Blocks, rehearse: bool) -> dict[str, Environment]:
    """Here the pinned ones, as if they could launch to a card; there what its Python has. Raises SetupError."""
    named = [one.case.framework for rows in blocks.values() for one in rows]
    ready = installed.ready(named, None if rehearse else installed.INSTALLED, say)
    return {name: replace(e, installed=True) for name, e in ready.items()} if rehearse else ready


def pack(results: Path) -> Path:
    """What travels home: the records, and the sessions that go on."""
    to = results.with_suffix(".tgz")
    with tarfile.open(to, "w:gz") as archive:
        archive.add(results, results.name)
    return to


def show(results: Path) -> bool:
    """Tables, figures and pages of a rehearsal's records, beside them; whether the records hold together, and all was made."""
    framebench = [sys.executable, "-m", "framebench.cli"]
    report = [*framebench, "report", "--results", str(results), "--machine", provenance.read_machine_name()]
    figures, site = (["--to", str(results / name)] for name in ("figures", "site"))
    ways = [report, [*report, "--figures", "all", *figures], [*report, "--html", *site]]
    made = [subprocess.run(way, stdout=subprocess.DEVNULL).returncode == 0 for way in ways]
    seen = [
        [*framebench, "check-results", str(results)],
        [sys.executable, "-m", "studies.gpu_session", str(results)],
    ]
    return all([*made, *(subprocess.run(command).returncode == 0 for command in seen)])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/gpu.sh", description="docs/gpu.md tells how this is used")
    parser.add_argument("minutes", nargs="?", type=float, default=float("inf"), help="after which it ends; by default none")
    parser.add_argument("--rehearse", action="store_true", help="without a card, at the smallest size")
    parser.add_argument("--list", type=Path, default=LIST, help="of cases, as tools/gpu_cases.csv")
    parser.add_argument("--results", type=Path, help="folder of the records; by default card/results, or card/rehearsal")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    end = time.monotonic() + 60 * asked.minutes - SLACK_S
    if not nvml.list_gpus():
        fail("NVML finds no card here; `framebench doctor --env installed` says what is missing, --rehearse needs none", 2)
    if not asked.rehearse:  # a host's name says nothing about a card
        os.environ.setdefault("FRAMEBENCH_MACHINE", re.sub(r"\W+", "-", nvml.list_gpus()[0]).strip("-").lower())
    results = (asked.results or CARD / ("rehearsal" if asked.rehearse else "results")).absolute()
    results.mkdir(parents=True, exist_ok=True)
    blocks = rehearsed(planned(asked.list)) if asked.rehearse else planned(asked.list)
    statuses: list[str] = []
    ready: dict[str, Environment] = {}
    try:
        with alone(results), until(end):
            ready = frameworks(blocks, asked.rehearse)
            statuses = work(blocks, ready, results, end)
    except KeyboardInterrupt:
        say("out of time, or interrupted: the same command goes on from there")
    tell(blocks, ready, results)
    say(f"to take home: {pack(results)}")
    shown = not asked.rehearse or show(results)
    return int(report_failures(statuses) or not shown)


if __name__ == "__main__":
    sys.exit(main())
