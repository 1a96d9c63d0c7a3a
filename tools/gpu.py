"""Measure on a GPU what tools/gpu_cases.csv lists, in its order: `python -m tools.gpu [MINUTES]`.

A block of the list is measured as a whole, since ratios need its cases alive at once; one that does
not fit into the time or the memory left waits, and a smaller one goes before it. A case that is
listed in three blocks is measured three times. What has its records is not measured again, but for
what crashed or took too long under another commit. tools/gpu.sh starts this, and docs/gpu.md tells
how it is used.
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
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from framebench.cli.measuring import measure_all
from framebench.cli.shared import BROKEN, fail, report_failures, say
from framebench.engine import installed
from framebench.engine.capacity import GPU_SHARE, read_free_gpu_memory
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.session import Session, lock_results
from framebench.instruments import nvml
from framebench.records import provenance, store
from framebench.records.provenance import ROOT
from framebench.records.record import Record
from framebench.records.record_base import ROUNDS
from framebench.suite.case import Case
from framebench.suite.selectors import parse

FOLDER = ROOT / "gpu-session"  # git ignores it
LIST = ROOT / "tools" / "gpu_cases.csv"
LIMIT_S = 300.0  # of each worker
SLACK_S = 20.0  # for the end: workers that are killed, and the archive
GIB = 2**30


@dataclass(frozen=True)
class ListedCase:
    """One line of the list.

    `seconds` and `gib` are what its two workers take, and of the GPU's memory, as far as was known.
    """

    block: str
    rounds: int  # 0: verification and memory alone
    case: Case
    seconds: float
    gib: float
    number: int = 1  # how many blocks up to this one measure the case's times


Blocks = dict[str, list[ListedCase]]


def read_list(file: Path) -> Blocks:
    """Return the lines of a list by block, in order. Raises UnknownCase."""
    blocks: Blocks = {}
    timed: Counter[Case] = Counter()
    with file.open() as lines:
        for row in csv.DictReader(lines):
            case = parse(row["case"])
            rounds = int(row["rounds"])
            if rounds:
                timed[case] += 1
            listed = ListedCase(
                block=row["block"],
                rounds=rounds,
                case=case,
                seconds=float(row["seconds"]),
                gib=float(row["gib"]),
                number=timed[case] if rounds else 1,
            )
            blocks.setdefault(listed.block, []).append(listed)
    return blocks


def shrink_for_rehearsal(blocks: Blocks) -> Blocks:
    """Return the same blocks at the smallest size and with few rounds, each case once."""
    shrunk: Blocks = {}
    for name, rows in blocks.items():
        by_case = {}
        for listed in rows:
            case = shrink_case(listed.case)
            by_case[case] = replace(listed, case=case, rounds=min(listed.rounds, ROUNDS))
        shrunk[name] = list(by_case.values())
    return shrunk


def shrink_case(case: Case) -> Case:
    """Return the case at the size `tiny`, where it has a small and a large batch, too."""
    batches = case.workload_spec.preset("tiny").batches
    is_small = case.batch <= case.workload_spec.preset(case.size).base
    return replace(case, size="tiny", batch=batches[0] if is_small else batches[-1])


def find_answers(results: Path, timed: bool) -> dict[Case, list[Record]]:
    """Return the records that count as a try of their case, with times or without.

    Under another commit, what crashed or took too long may do better.
    """
    answers: dict[Case, list[Record]] = {}
    machine = provenance.read_machine_name()
    commit = provenance.find_commit()
    for record in store.read_all(results):
        if record.provenance.machine != machine:
            continue
        has_failed = record.status in BROKEN and record.status != "wrong"
        if has_failed and record.provenance.commit != commit:
            continue
        if timed and record.status == "ok" and not record.step_s:
            continue
        answers.setdefault(record.parsed, []).append(record)
    return answers


def select_left(
    rows: list[ListedCase],
    results: Path,
    ready: dict[str, Environment],
) -> list[ListedCase]:
    """Return the cases of a block that are still to be measured, of frameworks that are there.

    A case that could not be measured in its first block is not tried again in a later one.
    """
    answers = find_answers(results, timed=rows[0].rounds > 0)
    left = []
    for listed in rows:
        records = answers.get(listed.case, [])
        has_failed = any(record.status != "ok" for record in records)
        is_answered = has_failed or len(records) >= listed.number
        if not is_answered and listed.case.framework in ready:
            left.append(listed)
    return left


def estimate_pace(blocks: Blocks, results: Path) -> float:
    """Return how many times as long as expected the measured cases took; 1 where there are none."""
    answers = find_answers(results, timed=True)
    spent = expected = 0.0
    for rows in blocks.values():
        for listed in rows:
            records = answers.get(listed.case, [])
            if not listed.rounds or len(records) < listed.number:
                continue
            record = records[listed.number - 1]
            if record.step_s and "total" in record.spent_s:
                spent += record.spent_s["total"]
                expected += listed.seconds
    return spent / expected if expected else 1.0


@contextmanager
def interrupt_at(moment: float) -> Iterator[None]:
    """Interrupt the context, as Ctrl-C does, when time.monotonic() comes to this moment."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        if moment < float("inf"):
            signal.setitimer(signal.ITIMER_REAL, max(0.1, moment - time.monotonic()))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def measure(
    name: str,
    rows: list[ListedCase],
    ready: dict[str, Environment],
    results: Path,
    free_bytes: int | None,
) -> list[str]:
    """Measure a block, and return the status of each case.

    Without times it is measured in parts. Each part is a session, since the names of its blocks are
    counted among its own cases. The next call goes on with an interrupted one.
    """
    must_be_alone = any(tunes_kernels(listed) for listed in rows)
    options = Options(rounds=rows[0].rounds, time_limit_s=LIMIT_S, first_alone=must_be_alone)
    parts = [rows] if options.rounds else split_by_memory(rows, free_bytes)
    statuses: list[str] = []
    for part in parts:
        session = Session.open(results, provenance.name_code(), f"{name} of the list for a GPU")
        cases = [listed.case for listed in part]
        statuses += measure_all(cases, session, ready, options, results)
        session.close(results)
    return statuses


def tunes_kernels(listed: ListedCase) -> bool:
    """Return whether the case chooses kernels by their times, so that it must be alone.

    For that it takes what it finds of the GPU's memory.
    """
    if listed.case.size == "tiny":
        return False
    return listed.case.framework == "jax" or "autotune" in listed.case.strategy


def split_by_memory(rows: list[ListedCase], free_bytes: int | None) -> list[list[ListedCase]]:
    """Return the rows in as many parts as the GPU needs to have room for each.

    A case that tunes kernels is a part of its own.
    """
    parts: list[list[ListedCase]] = []
    for listed in rows:
        if parts and fits_into(parts[-1], listed, free_bytes):
            parts[-1].append(listed)
        else:
            parts.append([listed])
    return parts


def fits_into(part: list[ListedCase], listed: ListedCase, free_bytes: int | None) -> bool:
    """Return whether another case can be alive next to those of a part."""
    if tunes_kernels(part[-1]) or tunes_kernels(listed):
        return False
    needed_bytes = sum(one.gib for one in (*part, listed)) * GIB
    return free_bytes is None or needed_bytes <= GPU_SHARE * free_bytes


def measure_blocks(
    blocks: Blocks,
    ready: dict[str, Environment],
    results: Path,
    end: float,
) -> list[str]:
    """Measure the blocks that fit into the time and memory left, and return the statuses.

    `end` is when time.monotonic() is at its end.
    """
    statuses: list[str] = []
    for name, rows in blocks.items():
        rows_left = select_left(rows, results, ready)
        if not rows_left:
            continue
        seconds = estimate_pace(blocks, results) * sum(one.seconds for one in rows_left)
        seconds_left = end - time.monotonic()
        free_bytes = read_free_gpu_memory()
        gib = max(one.gib for one in rows_left)
        is_too_large = free_bytes is not None and gib * GIB > free_bytes
        if seconds > seconds_left or is_too_large:
            takes = f"it takes about {seconds:.0f} s and {gib:g} GiB"
            say(f"-- {name} waits: {takes}; {seconds_left:.0f} s are left")
            continue
        began = time.monotonic()
        say(f"== {name}: {len(rows_left)} cases, about {seconds:.0f} s of {seconds_left:.0f}")
        statuses += measure(name, rows_left, ready, results, free_bytes)
        say(f"   {name} took {time.monotonic() - began:.0f} s")
    return statuses


def report_left(blocks: Blocks, ready: dict[str, Environment], results: Path) -> None:
    """Print what is left of the list, and how long it would take."""
    pace = estimate_pace(blocks, results)
    count = count_left = 0
    absent = set()
    for name, rows in blocks.items():
        rows_left = select_left(rows, results, ready)
        count += sum(row.case.framework in ready for row in rows)
        count_left += len(rows_left)
        absent |= {row.case.framework for row in rows} - ready.keys()
        if rows_left:
            seconds = pace * sum(one.seconds for one in rows_left)
            cases = f"{len(rows_left)} of {len(rows)} cases"
            say(f"left: {name}, {cases}, about {seconds:.0f} s")
    if absent:
        say(f"not counted, since this Python does not have it: {', '.join(sorted(absent))}")
    took = f"steps took {pace:.2f} times as long as the list expects"
    say(f"{count - count_left} of {count} cases need no more; {took}")


def find_environments(blocks: Blocks, rehearse: bool) -> dict[str, Environment]:
    """Return the environments by framework. Raises SetupError.

    On a GPU they are what its Python has; in a rehearsal the pinned ones, as if they could launch
    to a GPU.
    """
    frameworks = [row.case.framework for rows in blocks.values() for row in rows]
    if not rehearse:
        return installed.find_environments(frameworks, installed.INSTALLED, say)
    pinned = installed.find_environments(frameworks, None, say)
    return {name: replace(environment, installed=True) for name, environment in pinned.items()}


def pack(results: Path) -> Path:
    """Write an archive of what travels home: the records, and the sessions that go on."""
    target = results.with_suffix(".tgz")
    with tarfile.open(target, "w:gz") as archive:
        archive.add(results, results.name)
    return target


def try_reports(results: Path) -> bool:
    """Make tables, figures and pages of a rehearsal's records, next to them.

    Return whether all could be made, and the records hold together.
    """
    python = [sys.executable, "-m"]
    framebench = [*python, "framebench.cli"]
    machine = provenance.read_machine_name()
    report = [*framebench, "report", "--results", str(results), "--machine", machine]
    reports = [
        report,
        [*report, "--figures", "all", "--to", str(results / "figures")],
        [*report, "--html", "--to", str(results / "site")],
    ]
    checks = [
        [*framebench, "check-results", str(results)],
        [*python, "studies.gpu_session", str(results)],
    ]
    codes = []
    for command in reports:
        codes.append(subprocess.run(command, stdout=subprocess.DEVNULL).returncode)
    for command in checks:
        codes.append(subprocess.run(command).returncode)
    return not any(codes)


def parse_arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="tools/gpu.sh",
        description="docs/gpu.md tells how this is used",
    )
    parser.add_argument(
        "minutes",
        nargs="?",
        type=float,
        default=float("inf"),
        help="after which it ends; by default none",
    )
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="without a GPU, at the smallest size",
    )
    parser.add_argument("--list", type=Path, default=LIST, help="of cases, as tools/gpu_cases.csv")
    parser.add_argument(
        "--results",
        type=Path,
        help="folder of the records; by default gpu-session/results, or gpu-session/rehearsal",
    )
    return parser.parse_args()


def main() -> int:
    """Measure what fits into the minutes, and return the exit code."""
    options = parse_arguments()
    end = time.monotonic() + 60 * options.minutes - SLACK_S
    gpus = nvml.list_gpus()
    if not gpus:
        fail(
            "NVML finds no GPU here; `framebench doctor --env installed` says what is missing, "
            "--rehearse needs none",
            2,
        )
    if not options.rehearse:  # a host's name says nothing about its GPU
        machine = re.sub(r"\W+", "-", gpus[0]).strip("-").lower()
        os.environ.setdefault("FRAMEBENCH_MACHINE", machine)
    folder = options.results or FOLDER / ("rehearsal" if options.rehearse else "results")
    results: Path = folder.absolute()
    results.mkdir(parents=True, exist_ok=True)
    blocks = read_list(options.list)
    if options.rehearse:
        blocks = shrink_for_rehearsal(blocks)
    statuses: list[str] = []
    ready: dict[str, Environment] = {}
    try:
        with lock_results(results), interrupt_at(end):
            ready = find_environments(blocks, options.rehearse)
            statuses = measure_blocks(blocks, ready, results, end)
    except KeyboardInterrupt:
        say("out of time, or interrupted: the same command goes on from there")
    report_left(blocks, ready, results)
    say(f"to take home: {pack(results)}")
    are_reported = not options.rehearse or try_reports(results)
    return int(report_failures(statuses) or not are_reported)


if __name__ == "__main__":
    sys.exit(main())
