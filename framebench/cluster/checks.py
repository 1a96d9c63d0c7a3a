"""What a maintainer asks of results that somebody sends in: do they hold together, and could they have been measured?

The files are a stranger's. They are opened only if they are regular files of a limited size and where records lie, and parsed
as JSON against the schema; nothing in them is executed, and no name in them is followed. A record that is right in every check
may still be invented; one that fails a check was not written by framebench as it stands.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path

from pydantic import ValidationError

from framebench.analysis import lower_bound
from framebench.analysis.flops import step_flops
from framebench.cluster import collect
from framebench.records import store
from framebench.records.record import INSTRUMENTS, ROUNDS, Record
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION
from framebench.suite.result import Mathematics, Verification

MOST_BYTES = 2**20  # of one file; records have some 15 KiB
MOST_FILES = 200_000
NAME = re.compile(r"\d{8}T\d{12}(-\d+)?\.json")
CLOCK_S = 1e-3  # by which two clocks may disagree on a turn
FASTER = {"fp32": 2.0, "narrow": 64.0}  # than the reference product in float32 of the same round, on the same core
MOST_FLOPS = 1e16  # a second, of a card


@dataclass
class Checked:
    """What was found. Problems are reasons to refuse, notes things to know."""

    records: dict[str, Record] = field(default_factory=dict)  # by file
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(root: Path) -> Checked:
    """Everything below `root`/records."""
    report = Checked()
    for file in files(root / "records", report):
        try:
            report.records[file] = read(file)
        except store.BadRecord as error:
            report.problems.append(str(error))
    now = datetime.now(UTC)
    for file, r in report.records.items():
        report.problems += [
            f"{file}: {problem}" for problem in (*place(file, r), *_origin(r, now), *(s for c in CHECKS for s in c(r)))
        ]
    report.problems += [*blocks(report.records), *copies(report.records)]
    report.notes += notes(report.records.values())
    if not report.records:
        report.problems.append(f"{root}: no records; name the folder that has records/ in it")
    report.problems = list(map(_printable, report.problems))
    return report


def files(where: Path, report: Checked) -> Iterator[str]:
    """Those that may be opened: <machine>/<environment>/<case>/<time>.json, none of them a link. Others are problems, and so is
    a folder that cannot be looked into."""
    if where.is_symlink():
        report.problems.append(f"{where}: a link; it was not followed")
        return
    count = 0
    for folder, folders, names in os.walk(where, onerror=lambda error: _unlisted(error, report)):
        for name in [*(n for n in folders if os.path.islink(os.path.join(folder, n))), *names]:
            file = os.path.join(folder, name)
            if (count := count + 1) > MOST_FILES:
                report.problems.append(f"{where}: more than {MOST_FILES:,} files; the rest was not looked at")
                return
            if why := _unfit(file, where):
                report.problems.append(f"{file}: {why}; it was not opened")
            else:
                yield file


def _unlisted(error: OSError, report: Checked) -> None:
    if not isinstance(error, FileNotFoundError):
        report.problems.append(f"{error.filename}: {error.strerror}")


def _unfit(file: str, where: Path) -> str | None:
    """Why a file is no record by its kind, size and name, if it is none."""
    about = os.lstat(file)
    if not stat.S_ISREG(about.st_mode):
        return "no regular file"
    if about.st_size > MOST_BYTES:
        return f"{about.st_size:,} bytes, and a record has at most {MOST_BYTES:,}"
    parts = Path(os.path.relpath(file, where)).parts
    if len(parts) != 4 or not NAME.fullmatch(parts[3]):
        return "not <machine>/<framework>-<version>/<case>/<time>.json"
    return "it can be executed" if about.st_mode & 0o111 else None


def _printable(text: str) -> str:
    """A stranger's name or text, harmless on a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def read(file: str) -> Record:
    """As `store.read`, of no more bytes than were allowed, and through no link. Raises BadRecord."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as opened:
            return Record.model_validate_json(opened.read(MOST_BYTES))
    except OSError as error:
        raise store.BadRecord(f"{file}: {error.strerror}") from error
    except ValidationError as error:
        raise store.BadRecord(f"{file}: {store.explain(error)}") from error


def place(file: str, r: Record) -> Iterator[str]:
    """Whether the record lies where framebench would have put it."""
    machine, environment, case, name = Path(file).parts[-4:]
    version = r.framework_version
    if machine != r.provenance.machine:
        yield f"lies under the machine {machine}, and says {r.provenance.machine}"
    if not environment.startswith(f"{r.parsed.framework}-") or (version and environment != f"{r.parsed.framework}-{version}"):
        yield f"lies under {environment}, and was measured with {r.parsed.framework} {version}"
    if case != r.case.replace("/", "."):
        yield f"lies under the case {case}, and says {r.case}"
    if not name.startswith(r.provenance.measured_at.astimezone(UTC).strftime("%Y%m%dT%H%M%S%f")):
        yield f"its name is not when it was measured, {r.provenance.measured_at.isoformat()}"


def _origin(r: Record, now: datetime) -> Iterator[str]:
    """Provenance: what code, when, on what."""
    of = r.provenance
    if of.protocol > VERSION:
        yield f"protocol {of.protocol}, and this framebench knows {VERSION}"
    if of.commit is None or not re.fullmatch(r"[0-9a-f]{40}", of.commit):
        yield "no commit: nobody can tell which code measured"
    if of.measured_at > now + timedelta(days=1):
        yield f"measured in the future, at {of.measured_at.isoformat()}"
    if missing := [name for name in ("cpu", "cores", "memory_bytes", "system") if not of.hardware.get(name)]:
        yield f"nothing is said of the machine's {', '.join(missing)}"
    if of.planted:
        yield "a slowdown or memory was planted: no measurement of the case"


def status(r: Record) -> Iterator[str]:
    """Numbers come with a verification that passed, and a failure with a reason."""
    if r.status == "ok" and not r.verified:
        yield "ok, but nothing was verified"
    if r.status == "wrong" and (r.step_s or r.peaks):
        yield "wrong, and yet it has measurements"
    if r.status != "ok" and not r.reason:
        yield f"{r.status} for no reason that it says"
    if r.status == "ok" and r.effect is None:
        yield "ok, but nothing tells whether the strategy took effect"


def verification(r: Record) -> Iterator[str]:
    """Whether what passed could pass, by the numbers beside it."""
    if not (v := r.verification) or not v.passed:
        return
    if beyond := [n for n, e in v.relative_error.items() if n in v.tolerance and (e is None or e > v.tolerance[n])]:
        yield f"passed, though {', '.join(beyond)} is beyond its tolerance"
    if failed := [kind for kind, c in v.tensors.items() if c.failed or c.error is None or c.error > c.tolerance]:
        yield f"passed, though tensors of {', '.join(failed)} are beyond their tolerance"
    if v.margin is not None and v.margin > 1:
        yield f"passed with a margin of {v.margin:.3g}, where 1 is the most"
    if off := [name for name in v.relative_error if not _agrees(v, name)]:
        yield f"the error of {', '.join(off)} is not that of the values beside it"
    if r.provenance.protocol == VERSION and v.against is None and _foreign(r.parsed, v):
        yield "verified against other values than those of this framebench"
    if v.mathematics is not None:
        yield from check_mathematics(v.mathematics)


def check_mathematics(outcome: Mathematics) -> Iterator[str]:
    """Yield why a verification with this outcome of the float64 check could not pass."""
    if not outcome.passed:
        yield "passed, though its mathematics is wrong in float64"
    elif outcome.computed:
        error, tolerance = outcome.error, outcome.tolerance
        if error is None or tolerance is None or error > tolerance:
            yield f"passed in float64, though {outcome.worst or 'nothing that is named'} is beyond its tolerance"
    elif not outcome.reason:
        yield "its mathematics was not computed in float64, for no reason that it says"


def _agrees(v: Verification, name: str) -> bool:
    """A checksum, whose terms cancel, has an error relative to something else."""
    seen, right, error = v.observed.get(name), v.golden.get(name), v.relative_error[name]
    if seen is None or error is None or not right or name.endswith("checksum"):
        return True
    return abs(abs(seen - right) / abs(right) - error) <= 1e-6 * error + 1e-12


def _foreign(case: Case, v: Verification) -> bool:
    """Whether `golden` has values that golden.json has otherwise. What it lacks is not judged."""
    values = case.spec.golden.get(case.golden_key, {}) if case.known else {}
    return any(name in values and abs(values[name] - given) > 1e-9 * abs(given) for name, given in v.golden.items())


def memory(r: Record) -> Iterator[str]:
    """Between the parameters' bytes and what the machine has."""
    most = r.provenance.hardware.get("memory_bytes")
    least = held(r.parsed) if r.parsed.known and r.parsed.ranks == 1 else 0
    for name, peak in r.peaks.items():
        if name in INSTRUMENTS and peak < least:
            yield f"a peak of {peak:,} bytes by {name}, and its parameters alone have {least:,}"
        if name == "host.rss" and isinstance(most, int) and peak > most:
            yield f"a peak of {peak:,} bytes on a machine with {most:,}"
        from_outside = name.startswith("device.")  # by NVML, over the whole life of the process
        if r.peak_samples and not from_outside and peak not in [sample.get(name) for sample in r.peak_samples]:
            yield f"the peak by {name} is none of its samples"


@cache
def held(case: Case) -> int:
    return sum(lower_bound.held(case, trainable=trainable) for trainable in (True, False))


def times(r: Record) -> Iterator[str]:
    """Between what a processor can do and the time that went by."""
    if not r.step_s:
        return
    total = r.spent_s.get("total")
    t = r.turns_taken
    if total is not None and t.steps * sum(r.step_s) > total + CLOCK_S:
        yield f"{t.steps * len(r.step_s)} steps took {t.steps * sum(r.step_s):.3g} s of a process that took {total:.3g} s"
    if len(r.step_s) >= 4 and len(set(r.step_s)) == 1:
        yield f"{len(r.step_s)} steps of exactly the same time"
    if (fastest := rate(r)) and fastest[0] > fastest[1]:
        yield f"{fastest[0]:.3g} floating-point operations a second, where at most {fastest[1]:.3g} are possible"
    lists = {len(r.step_s), len(t.round), len(t.at_s)}
    if len(lists) != 1 or t.round != sorted(set(t.round)) or t.at_s != sorted(t.at_s):
        yield "rounds, their times and when they began do not belong together"
    if not 0 <= t.arm < len(t.arms) or t.arms[t.arm] != r.case:
        yield f"is no arm {t.arm} of its block"


def rate(r: Record) -> tuple[float, float] | None:
    """Operations of the fastest step a second, and the most that can be. None where they cannot be counted."""
    flops = step_flops(r.parsed)
    if flops is None:
        return None
    fastest = flops / min(r.step_s)
    if r.provenance.hardware.get("device") != "cpu":
        return fastest, MOST_FLOPS
    t = r.turns_taken
    if not t.reference_s or not r.provenance.threads:
        return None
    reference = t.reference_flop / min(t.reference_s)
    most = reference * FASTER["fp32" if r.parsed.plan.precision == "fp32" else "narrow"] * r.provenance.threads
    return fastest, min(most, MOST_FLOPS)


CHECKS: tuple[Callable[[Record], Iterable[str]], ...] = (status, verification, memory, times)


def blocks(records: dict[str, Record]) -> Iterator[str]:
    """The records of a block were alive at once: one machine, one seed, one reference product, turns one after the other."""
    every: dict[str, list[tuple[str, Record]]] = defaultdict(list)
    for file, r in records.items():
        if r.turns:
            every[r.turns.block].append((file, r))
    for name, block_records in every.items():
        shared: dict[str, set[object]] = {
            "machine": {(r.provenance.machine, collect.fingerprint(r.provenance.hardware)) for _, r in block_records},
            "session": {r.provenance.session for _, r in block_records},
            "seed": {r.turns.seed for _, r in block_records if r.turns},
            "list of arms": {tuple(r.turns.arms) for _, r in block_records if r.turns},
        }
        differ = [what for what, values in shared.items() if len(values) > 1]
        if any(len(seconds) > 1 for seconds in references(r for _, r in block_records).values()):
            differ.append("time of the reference product")
        for what in differ:
            yield f"{block_records[0][0]}: the records of its block differ in their {what}"
        turns = sorted(
            (at, at + r.turns.steps * step, file)
            for file, r in block_records
            if r.turns
            for at, step in zip(r.turns.at_s, r.step_s)
        )
        if clash := next((b for a, b in pairwise(turns) if a[1] > b[0] + CLOCK_S), None):
            yield f"{clash[2]}: a step began while another of the block {name} was not over"


def references(records: Iterable[Record]) -> dict[int, list[float]]:
    """By round the different times of the one reference product."""
    every: dict[int, dict[float, None]] = defaultdict(dict)
    for r in records:
        if r.turns:
            for number, seconds in zip(r.turns.round, r.turns.reference_s):
                every[number][seconds] = None
    return {number: list(seconds) for number, seconds in every.items()}


def copies(records: dict[str, Record]) -> Iterator[str]:
    """No two measurements take the same times to the last digit, and each is one file."""
    keys: dict[object, str] = {}
    for file, r in records.items():
        marks: list[object] = [collect.key(r), *([("times", *r.step_s)] if len(r.step_s) >= ROUNDS else [])]
        for mark in marks:
            if (first := keys.setdefault(mark, file)) != file:
                yield f"{file}: the same measurement as {first}"
                break


def has_float64_answer(r: Record) -> bool:
    """Say whether the strategy's own step was computed in float64."""
    return r.verification is not None and r.verification.mathematics is not None and r.verification.mathematics.computed


def notes(records: Iterable[Record]) -> Iterator[str]:
    """What is no reason to refuse them."""
    all_records = list(records)
    counts = {
        f"of an older protocol than {VERSION}, whose numbers are in no table with newer ones": [
            r for r in all_records if r.provenance.protocol < VERSION
        ],
        "of cases that this framebench does not have, whose numbers were not compared with its models": [
            r for r in all_records if not r.parsed.known
        ],
        "by code that differs from its commit": [r for r in all_records if r.provenance.dirty],
        "on a machine whose instruments were not calibrated (framebench doctor)": [
            r for r in all_records if r.step_s and r.provenance.calibration is None
        ],
        "on a machine whose calibration failed": [
            r for r in all_records if r.step_s and r.provenance.calibration and not r.provenance.calibration.passed
        ],
        "whose strategy was not seen to take effect": [r for r in all_records if r.effect and not r.effect.proven],
        "whose mathematics was not computed in float64": [
            r for r in all_records if r.status == "ok" and not has_float64_answer(r)
        ],
    }
    for what, those in counts.items():
        if those:
            yield f"{len(those)} of {len(all_records)} records {what}"
