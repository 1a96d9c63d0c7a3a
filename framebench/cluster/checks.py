"""What a maintainer asks of results that somebody sends in: are they consistent, and could they
have been measured?

The files are a stranger's. They are opened only if they are regular files of a limited size and
where records lie, and parsed as JSON against the schema; nothing in them is executed, and no name
in them is followed. A record that passes every check may still be invented; one that fails a check
was not written by framebench as it stands.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from framebench.analysis import lower_bound
from framebench.analysis.flops import count_step_flops
from framebench.cluster import collect
from framebench.records import store
from framebench.records.lines import MOST_FILE_BYTES
from framebench.records.provenance import hash_hardware
from framebench.records.record import INSTRUMENTS, ROUNDS, Record
from framebench.suite.case import Case
from framebench.suite.protocol import REFERENCE_FLOP, VERSION
from framebench.suite.result import Mathematics, Verification

MOST_FILES = 200_000
CLOCK_S = 1e-3  # by which two clocks may disagree on a turn
# than the reference matmul in float32 of the same round, on the same core
FASTER = {"fp32": 2.0, "narrow": 64.0}
MOST_FLOPS = 1e16  # a second, of a GPU
# of a machine, what numbers rest on, and as what it is said
HARDWARE = {"cpu": str, "cores": int, "memory_bytes": int, "system": str}
EVIDENCE_DEPTH = 3  # of lists in lists
MOST_COUNTED = 2**63


@dataclass
class CheckReport:
    """The outcome of all checks. Problems are reasons to refuse, notes things to know."""

    records: dict[str, Record] = field(default_factory=dict)  # by file and line
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(root: Path) -> CheckReport:
    """Check everything below `root`/records."""
    report = CheckReport()
    for file in list_files(root / store.FOLDER, report):
        for place, record in store.parse_file(Record, file):
            if isinstance(record, Record):
                report.records[place] = record
            else:
                report.problems.append(str(record))
    now = datetime.now(UTC)
    for file, record in report.records.items():
        problems = [*check_place(file, record), *check_origin(record, now)]
        for check_record in RECORD_CHECKS:
            problems += check_record(record)
        report.problems += [f"{file}: {problem}" for problem in problems]
    report.problems += check_blocks(report.records)
    report.problems += find_copies(report.records)
    report.notes += list_notes(list(report.records.values()))
    if not report.records:
        report.problems.append(f"{root}: no records; name the folder that has records/ in it")
    report.problems = [make_printable(problem) for problem in report.problems]
    return report


def list_files(folder: Path, report: CheckReport) -> Iterator[str]:
    """Yield the files that may be opened: <machine>/<environment>.jsonl, none of them a link.

    Others are problems, and so is a folder that cannot be looked into.
    """
    if folder.is_symlink():
        report.problems.append(f"{folder}: a link; it was not followed")
        return

    def report_unlisted(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            report.problems.append(f"{error.filename}: {error.strerror}")

    count = 0
    for parent, folders, names in os.walk(folder, onerror=report_unlisted):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in [*links, *names]:
            file = os.path.join(parent, name)
            count += 1
            if count > MOST_FILES:
                report.problems.append(
                    f"{folder}: more than {MOST_FILES:,} files; the rest was not looked at"
                )
                return
            fault = find_file_fault(file, folder)
            if fault:
                report.problems.append(f"{file}: {fault}; it was not opened")
            else:
                yield file


def find_file_fault(file: str, folder: Path) -> str | None:
    """Return why a file is no record by its kind, size and name, if it is none."""
    about = os.lstat(file)
    if not stat.S_ISREG(about.st_mode):
        return "no regular file"
    if about.st_size > MOST_FILE_BYTES:
        return f"{about.st_size:,} bytes, where at most {MOST_FILE_BYTES:,} are read"
    parts = Path(os.path.relpath(file, folder)).parts
    if len(parts) == 4 and parts[3].endswith(".json"):
        return "a record in a file of its own; `framebench collect` takes such to another folder"
    if len(parts) != 2 or not parts[1].endswith(store.SUFFIX):
        return f"not <machine>/<framework>-<version>{store.SUFFIX}"
    return "it can be executed" if about.st_mode & 0o111 else None


def make_printable(text: str) -> str:
    """Return a stranger's name or text, harmless on a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def check_place(place: str, record: Record) -> Iterator[str]:
    """Yield where a record lies elsewhere than framebench would have put it."""
    file, _, _ = place.rpartition(":")
    machine, environment = Path(file).parent.name, Path(file).stem
    framework, version = record.parsed.framework, record.framework_version
    origin = record.provenance
    if not version and (record.peaks or record.step_s):
        yield f"it has measurements, and says no version of {framework}"
    if machine != origin.machine:
        yield f"lies under the machine {machine}, and says {origin.machine}"
    if not environment.startswith(f"{framework}-") or (
        version and environment != f"{framework}-{version}"
    ):
        yield f"lies under {environment}, and was measured with {framework} {version}"


def check_origin(record: Record, now: datetime) -> Iterator[str]:
    """Yield what is wrong with the provenance: what code, when, on what."""
    origin = record.provenance
    if origin.protocol > VERSION:
        yield f"protocol {origin.protocol}, and this framebench knows {VERSION}"
    if origin.commit is None or not re.fullmatch(r"[0-9a-f]{40}", origin.commit):
        yield f"no commit ({origin.commit}): nobody can tell which code measured"
    if origin.measured_at > now + timedelta(days=1):
        yield f"measured in the future, at {origin.measured_at.isoformat()}"
    missing = [name for name in HARDWARE if not origin.hardware.get(name)]
    if missing:
        yield f"nothing is said of the machine's {', '.join(missing)}"
    for name, kind in HARDWARE.items():
        fact = origin.hardware.get(name)
        is_negative = isinstance(fact, int) and fact < 0
        if fact and (type(fact) is not kind or is_negative):
            yield f"the machine's {name} is {describe_value(fact)}, which is no {kind.__name__}"
    if origin.calibration and origin.calibration.measured_at.tzinfo is None:
        yield f"calibrated at {origin.calibration.measured_at.isoformat()}, in no time zone"
    if origin.planted:
        yield "a slowdown or memory was planted: no measurement of the case"


def check_status(record: Record) -> Iterator[str]:
    """Yield numbers without a verification that passed, and a failure without a reason."""
    if record.status == "ok" and not record.verified:
        yield "ok, but nothing was verified"
    if record.status == "wrong" and (record.step_s or record.peaks):
        yield "wrong, and yet it has measurements"
    if record.status != "ok" and not record.reason:
        yield f"{record.status} for no reason that it says"
    if record.status == "ok" and record.effect is None:
        yield "ok, but nothing tells whether the strategy took effect"
    for name, count in (record.effect.evidence if record.effect else {}).items():
        if not is_evidence(count):
            yield f"its evidence {name!r} is {describe_value(count)}, which counts nothing"


def is_evidence(value: object, depth: int = 0) -> bool:
    """Return whether a proof could have counted, named or answered this.

    What is counted is not below zero; several are in a list or by name.
    """
    if isinstance(value, list):
        return depth < EVIDENCE_DEPTH and all(is_evidence(each, depth + 1) for each in value)
    if isinstance(value, dict):
        return is_evidence([*value.values()], depth)
    if isinstance(value, (int, float)):
        return 0 <= value <= MOST_COUNTED
    return value is None or isinstance(value, str)


def describe_value(value: object) -> str:
    """Return a stranger's value, shortened."""
    return repr(value)[:40]


def check_verification(record: Record) -> Iterator[str]:
    """Yield why a verification that passed could not pass, by the numbers in it."""
    verification = record.verification
    if not verification or not verification.passed:
        return
    if not (verification.relative_error or verification.tensors or verification.reason):
        yield "passed, though nothing was compared"
    beyond = list_beyond_tolerance(verification)
    if beyond:
        yield f"passed, though {', '.join(beyond)} is beyond its tolerance"
    failed_tensors = []
    for kind, tensors in verification.tensors.items():
        if tensors.failed or tensors.error is None or tensors.error > tensors.tolerance:
            failed_tensors.append(kind)
    if failed_tensors:
        yield f"passed, though tensors of {', '.join(failed_tensors)} are beyond their tolerance"
    if verification.margin is not None and verification.margin > 1:
        yield f"passed with a margin of {verification.margin:.3g}, where 1 is the most"
    contradictory = [
        name for name in verification.relative_error if not is_error_of_values(verification, name)
    ]
    if contradictory:
        yield f"the error of {', '.join(contradictory)} is not that of the values beside it"
    is_current = record.provenance.protocol == VERSION and verification.against is None
    if is_current and has_other_references(record.parsed, verification):
        yield "verified against other values than those of this framebench"
    if verification.mathematics is not None:
        yield from check_mathematics(verification.mathematics)


def list_beyond_tolerance(verification: Verification) -> list[str]:
    """Return the values whose error is larger than their tolerance, or missing."""
    beyond = []
    for name, error in verification.relative_error.items():
        if name in verification.tolerance and (
            error is None or error > verification.tolerance[name]
        ):
            beyond.append(name)
    return beyond


def check_mathematics(outcome: Mathematics) -> Iterator[str]:
    """Yield why a verification with this outcome of the float64 check could not pass."""
    if not outcome.passed:
        yield "passed, though its mathematics is wrong in float64"
    elif outcome.computed:
        error, tolerance = outcome.error, outcome.tolerance
        if error is None or tolerance is None or error > tolerance:
            yield (
                f"passed in float64, though {outcome.worst or 'nothing that is named'} is "
                "beyond its tolerance"
            )
    elif not outcome.reason:
        yield "its mathematics was not computed in float64, for no reason that it says"


def is_error_of_values(verification: Verification, name: str) -> bool:
    """Return whether an error is that of the values with its name, as far as this can be told.

    The error of a checksum, whose terms cancel, is relative to something else.
    """
    observed, reference = verification.observed.get(name), verification.golden.get(name)
    error = verification.relative_error[name]
    if observed is None or error is None or not reference or name.endswith("checksum"):
        return True
    return abs(abs(observed - reference) / abs(reference) - error) <= 1e-6 * error + 1e-12


def has_other_references(case: Case, verification: Verification) -> bool:
    """Return whether reference values differ from those of golden.json.

    What that lacks is not judged.
    """
    if not case.is_known:
        return False
    values = case.spec.golden.get(case.golden_key, {})
    for name, reference in verification.golden.items():
        if name in values and abs(values[name] - reference) > 1e-9 * abs(reference):
            return True
    return False


def check_memory(record: Record) -> Iterator[str]:
    """Yield peaks below the bytes of the parameters, or above what the machine has."""
    case = record.parsed
    machine_bytes = record.provenance.hardware.get("memory_bytes")
    parameter_bytes = count_parameter_bytes(case) if case.is_known and case.ranks == 1 else 0
    for name, peak in record.peaks.items():
        if name in INSTRUMENTS and peak < parameter_bytes:
            yield (
                f"a peak of {peak:,} bytes by {name}, and its parameters alone have "
                f"{parameter_bytes:,}"
            )
        if name == "host.rss" and isinstance(machine_bytes, int) and peak > machine_bytes:
            yield f"a peak of {peak:,} bytes on a machine with {machine_bytes:,}"
        from_outside = name.startswith("device.")  # by NVML, over the whole life of the process
        if (
            record.peak_samples
            and not from_outside
            and peak not in [sample.get(name) for sample in record.peak_samples]
        ):
            yield f"the peak by {name} is none of its samples"


@cache
def count_parameter_bytes(case: Case) -> int:
    """Return the bytes of all parameters of a case, trainable or not."""
    return lower_bound.count_stored_bytes(case, trainable=True) + lower_bound.count_stored_bytes(
        case, trainable=False
    )


def check_times(record: Record) -> Iterator[str]:
    """Yield times that no processor can reach, or that are longer than what went by."""
    if not record.step_s:
        return
    turns = record.turns_taken
    if turns.steps < 1:
        yield f"times of {turns.steps} steps"
    if not turns.block.strip():
        yield "its block has no name"
    if record.provenance.threads is None:
        yield "it has times, and says no number of threads"
    if turns.reference_s and turns.reference_flop != REFERENCE_FLOP:
        yield (
            f"a reference matmul of {turns.reference_flop:.6g} operations, where it has "
            f"{REFERENCE_FLOP:,}"
        )
    if min(record.instructions, default=1) < 1:
        yield f"a step of {min(record.instructions)} instructions"
    process_s = record.spent_s.get("total")
    steps_s = turns.steps * sum(record.step_s)
    if process_s is None:
        yield "it has times, and does not say how long its process took"
    elif steps_s > process_s + CLOCK_S:
        count = turns.steps * len(record.step_s)
        yield f"{count} steps took {steps_s:.3g} s of a process that took {process_s:.3g} s"
    if len(record.step_s) >= 4 and len(set(record.step_s)) == 1:
        yield f"{len(record.step_s)} steps of exactly the same time"
    speed = measure_speed(record)
    if speed and speed.fastest > speed.limit:
        yield (
            f"{speed.fastest:.3g} floating-point operations a second, where at most "
            f"{speed.limit:.3g} are possible"
        )
    same_length = len(record.step_s) == len(turns.round) == len(turns.at_s)
    if (
        not same_length
        or turns.round != sorted(set(turns.round))
        or turns.at_s != sorted(turns.at_s)
    ):
        yield "rounds, their times and when they began do not belong together"
    if not 0 <= turns.arm < len(turns.arms) or turns.arms[turns.arm] != record.case:
        yield f"is no variant {turns.arm} of its block"


class Speed(NamedTuple):
    """Floating-point operations a second: of the fastest step, and the most that are possible."""

    fastest: float
    limit: float


def measure_speed(record: Record) -> Speed | None:
    """Return the speed of the fastest step; None if its operations, or the processor's, cannot be
    counted.
    """
    flops = count_step_flops(record.parsed)
    if flops is None:
        return None
    fastest = flops / min(record.step_s)
    if record.provenance.hardware.get("device") != "cpu":
        return Speed(fastest, MOST_FLOPS)
    turns, threads = record.turns_taken, record.provenance.threads
    if not turns.reference_s or not threads:
        return None
    reference = turns.reference_flop / min(turns.reference_s)
    precision = "fp32" if record.parsed.plan.precision == "fp32" else "narrow"
    return Speed(fastest, min(reference * FASTER[precision] * threads, MOST_FLOPS))


RECORD_CHECKS: tuple[Callable[[Record], Iterable[str]], ...] = (
    check_status,
    check_verification,
    check_memory,
    check_times,
)


def check_blocks(records: dict[str, Record]) -> Iterator[str]:
    """Yield blocks whose records were not alive at once.

    Those of a block have one machine, one seed, one reference matmul, and turns one after the
    other.
    """
    blocks: dict[str, dict[str, Record]] = defaultdict(dict)
    for file, record in records.items():
        if record.turns:
            blocks[record.turns.block][file] = record
    for name, block in blocks.items():
        first_file = next(iter(block))
        for difference in list_differences(list(block.values())):
            yield f"{first_file}: the records of its block differ in their {difference}"
        overlapping_file = find_overlap(block)
        if overlapping_file:
            yield f"{overlapping_file}: a step began while another of the block {name} was not over"


def list_differences(records: Sequence[Record]) -> Iterator[str]:
    """Yield in what the records of a block differ and must not."""
    machines, sessions, seeds, variants = set(), set(), set(), set()
    for record in records:
        machines.add((record.provenance.machine, hash_hardware(record.provenance.hardware)))
        sessions.add(record.provenance.session)
        seeds.add(record.turns_taken.seed)
        variants.add(tuple(record.turns_taken.arms))
    if len(machines) > 1:
        yield "machine"
    if len(sessions) > 1:
        yield "session"
    if len(seeds) > 1:
        yield "seed"
    if len(variants) > 1:
        yield "list of variants"
    if any(len(seconds) > 1 for seconds in reference_times(records).values()):
        yield "time of the reference product"


def reference_times(records: Iterable[Record]) -> dict[int, set[float]]:
    """Return by round the different times of the one reference matmul."""
    times: dict[int, set[float]] = defaultdict(set)
    for record in records:
        for number, seconds in zip(record.turns_taken.round, record.turns_taken.reference_s):
            times[number].add(seconds)
    return times


def find_overlap(block: dict[str, Record]) -> str | None:
    """Return the file of the first record that took its turn while another's was not over."""
    turns = []
    for file, record in block.items():
        for began, step_s in zip(record.turns_taken.at_s, record.step_s):
            turns.append((began, began + record.turns_taken.steps * step_s, file))
    for (_, ended, _), (began, _, file) in pairwise(sorted(turns)):
        if ended > began + CLOCK_S:
            return file
    return None


def find_copies(records: dict[str, Record]) -> Iterator[str]:
    """Yield measurements that are in two files, or that took the same times to the last digit."""
    files: dict[object, str] = {}
    for file, record in records.items():
        marks: list[object] = [collect.make_key(record)]
        if len(record.step_s) >= ROUNDS:
            marks.append(("times", *record.step_s))
        for mark in marks:
            first = files.setdefault(mark, file)
            if first != file:
                yield f"{file}: the same measurement as {first}"
                break


def has_float64_answer(record: Record) -> bool:
    """Return whether the strategy's own step was computed in float64."""
    verification = record.verification
    return (
        verification is not None
        and verification.mathematics is not None
        and verification.mathematics.computed
    )


def list_notes(records: Sequence[Record]) -> Iterator[str]:
    """Yield what is no reason to refuse the records, with the number of those that it is true
    of.
    """
    older, unknown, dirty, uncalibrated, miscalibrated, unproven, not_computed = 0, 0, 0, 0, 0, 0, 0
    for record in records:
        origin = record.provenance
        older += origin.protocol < VERSION
        unknown += not record.parsed.is_known
        dirty += bool(origin.dirty)
        if record.step_s and origin.calibration is None:
            uncalibrated += 1
        if record.step_s and origin.calibration and not origin.calibration.passed:
            miscalibrated += 1
        if record.effect and not record.effect.proven:
            unproven += 1
        if record.status == "ok" and not has_float64_answer(record):
            not_computed += 1
    counts = {
        f"of an older protocol than {VERSION}, whose numbers are in no table with newer "
        "ones": older,
        "of cases that this framebench does not have, whose numbers were not compared with its "
        "models": unknown,
        "by code that differs from its commit": dirty,
        "on a machine whose instruments were not calibrated (framebench doctor)": uncalibrated,
        "on a machine whose calibration failed": miscalibrated,
        "whose strategy's effect was not confirmed": unproven,
        "whose mathematics was not computed in float64": not_computed,
    }
    for what, count in counts.items():
        if count:
            yield f"{count} of {len(records)} records {what}"
