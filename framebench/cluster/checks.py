"""Check results that somebody sends in: are they consistent, and could they have been measured?

The files are a stranger's. They are opened only if they are regular files of a limited size and
where records lie, and parsed as JSON against the schema; nothing in them is executed, and no name
in them is followed. A record that passes every check may still be invented; one that fails a check
was not written by framebench as it stands.
"""

from __future__ import annotations

import re
import stat
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from framebench.analysis import lower_bound
from framebench.analysis.flops import count_step_flops
from framebench.cluster.collect import make_key
from framebench.records import store
from framebench.records.lines import MOST_FILE_BYTES
from framebench.records.provenance import hash_hardware
from framebench.records.record import Record
from framebench.records.record_base import INSTRUMENTS, ROUNDS
from framebench.suite.case import Case
from framebench.suite.protocol import REFERENCE_FLOP, VERSION

MOST_FILES = 10_000  # a machine has one for each release of a framework
CLOCK_S = 1e-3  # by which two clocks may disagree on a turn
# how much faster a core may be than in the record's fastest reference matmul, which is in float32
FASTER_IN_FP32 = 2.0
FASTER_IN_FEWER_BITS = 64.0
MOST_FLOPS = 1e16  # a second, of a GPU
# facts of the hardware that numbers depend on, and their types
HARDWARE = {"cpu": str, "cores": int, "memory_bytes": int, "system": str}
MOST_COUNTED = 2**63  # by the proof of a strategy's effect
EVIDENCE_DEPTH = 3  # of lists in lists


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
    for place, record in report.records.items():
        for problem in check_record(place, record):
            report.problems.append(f"{place}: {problem}")
    report.problems += check_blocks(report.records)
    report.problems += find_copies(report.records)
    report.notes += list_notes(list(report.records.values()))
    if not report.records:
        report.problems.append(f"{root}: no records; name the folder that has records/ in it")
    report.problems = [make_printable(problem) for problem in report.problems]
    return report


def list_files(folder: Path, report: CheckReport) -> Iterator[str]:
    """Yield the files that may be opened: <machine>/<framework>-<version>.jsonl.

    Links, files of other names, files that are too large and folders that cannot be listed or are
    too deep are reported as problems.
    """
    if folder.is_symlink():
        report.problems.append(f"{folder}: a link; it was not followed")
        return

    def report_unlisted(error: OSError) -> None:
        report.problems.append(f"{error.filename}: {error.strerror}")

    count = 0
    for parent, folders, names in store.walk(folder, report_unlisted, report.problems.append):
        for name in folders:
            # `os.walk` calls these folders, but they hold no records
            if name.endswith(store.SUFFIX) or Path(parent, name).is_symlink():
                names.append(name)
        for name in names:
            count += 1
            if count > MOST_FILES:
                reason = f"more than {MOST_FILES:,} files; the rest was not looked at"
                report.problems.append(f"{folder}: {reason}")
                return
            file = Path(parent, name)
            fault = find_file_fault(file, folder)
            if fault:
                report.problems.append(f"{file}: {fault}; it was not opened")
            else:
                yield str(file)


def find_file_fault(file: Path, folder: Path) -> str:
    """Return why a file may not be opened: its kind, size, rights or name; "" if it may be."""
    status = file.lstat()
    if not stat.S_ISREG(status.st_mode):
        return "no regular file"
    if status.st_size > MOST_FILE_BYTES:
        return f"{status.st_size:,} bytes, where at most {MOST_FILE_BYTES:,} are read"
    if status.st_mode & 0o111:
        return "it can be executed"
    if file.parent.parent != folder or file.suffix != store.SUFFIX:
        return f"not <machine>/<framework>-<version>{store.SUFFIX}"
    return ""


def make_printable(text: str) -> str:
    """Return a stranger's name or text, harmless on a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def check_record(place: str, record: Record) -> Iterator[str]:
    """Yield what is wrong with one record, which lies at `place`, a file and a line."""
    yield from check_origin(Path(place.rpartition(":")[0]), record)
    yield from check_status(record)
    yield from check_verification(record)
    yield from check_memory(record)
    if record.step_s:
        yield from check_times(record)


def check_origin(file: Path, record: Record) -> Iterator[str]:
    """Yield what is wrong with the record's file and provenance: what code, when, on what."""
    origin = record.provenance
    framework, version = record.parsed.framework, record.framework_version
    if not version and (record.peaks or record.step_s):
        yield f"it has measurements, and says no version of {framework}"
    if file.parent.name != origin.machine:
        yield f"lies under the machine {file.parent.name}, and says {origin.machine}"
    if not file.stem.startswith(f"{framework}-{version or ''}"):
        yield f"lies under {file.stem}, and was measured with {framework} {version}"
    if origin.protocol > VERSION:
        yield f"protocol {origin.protocol}, and this framebench knows {VERSION}"
    if not re.fullmatch(r"[0-9a-f]{40}", origin.commit or ""):
        yield f"no commit ({origin.commit}): nobody can tell which code measured"
    if origin.measured_at > datetime.now(UTC) + timedelta(days=1):
        yield f"measured in the future, at {origin.measured_at.isoformat()}"
    yield from check_hardware(origin.hardware)
    if origin.calibration and origin.calibration.measured_at.tzinfo is None:
        yield "calibrated at a time without a time zone"
    if origin.planted:
        yield "a slowdown or memory was planted: no measurement of the case"


def check_hardware(hardware: dict[str, Any]) -> Iterator[str]:
    """Yield facts of the machine that are missing, of another type, or below zero."""
    missing = [name for name in HARDWARE if not hardware.get(name)]
    if missing:
        yield f"nothing is said of the machine's {', '.join(missing)}"
    for name, kind in HARDWARE.items():
        fact = hardware.get(name)
        is_negative = isinstance(fact, int) and fact < 0
        if fact and (type(fact) is not kind or is_negative):
            yield f"the machine's {name} is {str(fact)[:40]}, which is no {kind.__name__}"


def check_status(record: Record) -> Iterator[str]:
    """Yield numbers whose verification did not pass, and failures without a reason."""
    if record.status == "ok" and not record.verified:
        yield "ok, but nothing was verified"
    if record.status == "ok" and record.effect is None:
        yield "ok, but nothing tells whether the strategy took effect"
    if record.effect and not is_evidence(record.effect.evidence):
        yield "the evidence of its strategy's effect counts nothing that can be counted"
    if record.status == "wrong" and (record.step_s or record.peaks):
        yield "wrong, and yet it has measurements"
    if record.status != "ok" and not record.reason:
        yield f"{record.status} for no reason that it says"


def is_evidence(value: object, depth: int = 0) -> bool:
    """Return whether a proof could have counted, named or answered this.

    What is counted is not below zero; several counts are in a list or by name.
    """
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return depth <= EVIDENCE_DEPTH and all(is_evidence(each, depth + 1) for each in value)
    if isinstance(value, int | float):
        return 0 <= value <= MOST_COUNTED
    return value is None or isinstance(value, str)


def check_verification(record: Record) -> Iterator[str]:
    """Yield why a verification that passed could not pass, by the numbers in it."""
    verification = record.verification
    if not verification or not verification.passed:
        return
    if not (verification.relative_error or verification.tensors or verification.reason):
        yield "passed, though nothing was compared"
    for name, error in verification.relative_error.items():
        if is_beyond(error, verification.tolerance.get(name)):
            yield f"passed, though {name} is beyond its tolerance"
        observed, reference = verification.observed.get(name), verification.golden.get(name)
        # the error of a checksum, whose terms cancel, is relative to something else
        if error is None or not observed or not reference or name.endswith("checksum"):
            continue
        if abs(abs(observed / reference - 1) - error) > 1e-6 * error + 1e-12:
            yield f"the error of {name} is not that of the values beside it"
    for kind, tensors in verification.tensors.items():
        if tensors.failed or is_beyond(tensors.error, tensors.tolerance):
            yield f"passed, though tensors of {kind} are beyond their tolerance"
    if verification.margin is not None and verification.margin > 1:
        yield f"passed with an error of {verification.margin:.3g} tolerances, where 1 is the most"
    is_current = record.provenance.protocol == VERSION and verification.against is None
    if is_current and has_other_references(record.parsed, verification.golden):
        yield "verified against other values than those of this framebench"
    outcome = verification.mathematics
    if outcome is None:
        return
    if not outcome.passed:
        yield "passed, though its mathematics is wrong in float64"
    elif outcome.computed and is_beyond(outcome.error, outcome.tolerance or 0.0):
        yield f"passed in float64, though {outcome.worst} is beyond its tolerance"
    elif not outcome.computed and not outcome.reason:
        yield "its mathematics was not computed in float64, for no reason that it says"


def is_beyond(error: float | None, tolerance: float | None) -> bool:
    """Return whether an error is missing or above its tolerance; without a tolerance never."""
    return tolerance is not None and (error is None or error > tolerance)


def has_other_references(case: Case, references: dict[str, float]) -> bool:
    """Return whether a reference value differs from that of golden.json.

    Values that golden.json does not have are not judged.
    """
    if not case.is_known:
        return False
    values = case.workload_spec.golden.get(case.golden_key, {})
    for name in references.keys() & values.keys():
        if abs(values[name] - references[name]) > 1e-9 * abs(references[name]):
            return True
    return False


def check_memory(record: Record) -> Iterator[str]:
    """Yield peaks below the bytes of the parameters, or above what the machine has."""
    case = record.parsed
    parameter_bytes = 0
    if case.is_known and case.ranks == 1:
        parameter_bytes = count_parameter_bytes(case)
    for name, peak in record.peaks.items():
        if name in INSTRUMENTS and peak < parameter_bytes:
            yield (
                f"a peak of {peak:,} bytes by {name}, and its parameters alone have "
                f"{parameter_bytes:,}"
            )
    machine_bytes = record.provenance.hardware.get("memory_bytes")
    resident = record.peaks.get("host.rss", 0)
    if machine_bytes and resident > machine_bytes:
        yield f"a peak of {resident:,} bytes on a machine with {machine_bytes:,}"


@cache
def count_parameter_bytes(case: Case) -> int:
    """Return the bytes of all parameters of a case, trainable or not."""
    trained = lower_bound.count_stored_bytes(case, trainable=True)
    return trained + lower_bound.count_stored_bytes(case, trainable=False)


def check_times(record: Record) -> Iterator[str]:
    """Yield times that no processor can reach, or that are longer than what went by."""
    turns = record.turns_taken
    if turns.steps < 1 or not turns.block.strip():
        yield "times of no steps, or of a block without a name"
    if turns.reference_s and turns.reference_flop != REFERENCE_FLOP:
        yield (
            f"a reference matmul of {turns.reference_flop:.6g} operations, where it has "
            f"{REFERENCE_FLOP:,}"
        )
    process_s = record.spent_s.get("total")
    steps_s = turns.steps * sum(record.step_s)
    if process_s is None:
        yield "it has times, and does not say how long its process took"
    elif steps_s > process_s + CLOCK_S:
        yield f"steps took {steps_s:.3g} s of a process that took {process_s:.3g} s"
    flops = count_step_flops(record.parsed)
    if flops is not None:
        speed = flops / min(record.step_s)
        limit = estimate_highest_speed(record)
        if speed > limit:
            yield (
                f"{speed:.3g} floating-point operations a second, where at most {limit:.3g} are "
                "possible"
            )
    is_ordered = turns.round == sorted(set(turns.round)) and turns.at_s == sorted(turns.at_s)
    if not is_ordered or not len(record.step_s) == len(turns.round) == len(turns.at_s):
        yield "rounds, their times and when they began do not belong together"
    if turns.arms[turns.arm : turns.arm + 1] != [record.case]:
        yield f"is no variant {turns.arm} of its block"


def estimate_highest_speed(record: Record) -> float:
    """Return the most floating-point operations a second that the record's processor can do.

    On a CPU that is the speed of the reference matmul on one core, times an allowance for the
    precision, times the threads.
    """
    turns = record.turns_taken
    if not record.on_cpu or not turns.reference_s:
        return MOST_FLOPS
    reference = turns.reference_flop / min(turns.reference_s)
    is_full = record.parsed.strategy_spec.precision == "fp32"
    factor = FASTER_IN_FP32 if is_full else FASTER_IN_FEWER_BITS
    return min(reference * factor * (record.provenance.threads or 1), MOST_FLOPS)


def check_blocks(records: dict[str, Record]) -> Iterator[str]:
    """Yield a sentence for each block that was not measured as one.

    The records of a block must have the same machine, seed and reference matmul, and their turns
    must not overlap.
    """
    blocks: dict[str, dict[str, Record]] = defaultdict(dict)
    for place, record in records.items():
        if record.turns:
            blocks[record.turns.block][place] = record
    for name, block in blocks.items():
        first_place, *_ = block
        for difference in list_differences(list(block.values())):
            yield f"{first_place}: the records of its block differ in their {difference}"
        overlapping = find_overlap(block)
        if overlapping:
            yield f"{overlapping}: a step began while another of the block {name} was not over"


def find_overlap(block: dict[str, Record]) -> str | None:
    """Return the place of a block's first record with a turn that began during another turn."""
    turns = []
    for place, record in block.items():
        for began, step_s in zip(record.turns_taken.at_s, record.step_s):
            ended = began + record.turns_taken.steps * step_s
            turns.append((began, ended, place))
    turns.sort()
    for (_, ended, _), (began, _, place) in pairwise(turns):
        if ended > began + CLOCK_S:
            return place
    return None


def list_differences(records: Sequence[Record]) -> Iterator[str]:
    """Yield the names of facts that differ, though all records of a block must share them."""
    values: dict[str, set[object]] = defaultdict(set)
    for record in records:
        turns, origin = record.turns_taken, record.provenance
        values["machine"].add((origin.machine, hash_hardware(origin.hardware)))
        values["session"].add(origin.session)
        values["seed"].add(turns.seed)
        values["list of variants"].add(tuple(turns.arms))
    for name, different in values.items():
        if len(different) > 1:
            yield name
    # the reference matmul is timed once in a round, for all processes of the block
    reference_s: dict[int, set[float]] = defaultdict(set)
    for record in records:
        for number, seconds in zip(record.turns_taken.round, record.turns_taken.reference_s):
            reference_s[number].add(seconds)
    if any(len(different) > 1 for different in reference_s.values()):
        yield "time of the reference product"


def find_copies(records: dict[str, Record]) -> Iterator[str]:
    """Yield measurements that are in two files, or that took the same times to the last digit."""
    places: dict[object, str] = {}
    for place, record in records.items():
        marks: list[object] = [make_key(record)]
        if len(record.step_s) >= ROUNDS:
            marks.append(tuple(record.step_s))
        for mark in marks:
            first = places.setdefault(mark, place)
            if first != place:
                yield f"{place}: the same measurement as {first}"
                break


def list_notes(records: Sequence[Record]) -> Iterator[str]:
    """Yield remarks that are no reason to refuse records, with the number of records of each."""
    counts: Counter[str] = Counter()
    for record in records:
        origin, calibration = record.provenance, record.provenance.calibration
        mathematics = record.verification and record.verification.mathematics
        if origin.protocol < VERSION:
            counts[f"of an older protocol than {VERSION}, which no table has with newer ones"] += 1
        if not record.parsed.is_known:
            counts["of cases that this framebench does not have, whose values none checks"] += 1
        if origin.dirty:
            counts["by code that differs from its commit"] += 1
        if record.step_s and not (calibration and calibration.passed):
            counts["on a machine whose calibration failed or is missing (framebench doctor)"] += 1
        if record.effect and not record.effect.proven:
            counts["whose strategy's effect was not confirmed"] += 1
        if record.status == "ok" and not (mathematics and mathematics.computed):
            counts["whose mathematics was not computed in float64"] += 1
    for what, count in counts.items():
        yield f"{count} of {len(records)} records {what}"
