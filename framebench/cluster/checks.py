"""Check results that somebody sends in: are they consistent, and could they have been measured?

The files are a stranger's. Those of records are read as everywhere else (`store.list_files`): no
link is followed, nothing in them is executed, and all else in the folder is left alone. A record
that passes every check may still be invented; one that fails a check was not written by framebench
as it stands.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from framebench.analysis import lower_bound
from framebench.analysis.flops import count_step_flops
from framebench.cluster.collect import make_key
from framebench.engine.terminal import make_line
from framebench.records import store
from framebench.records.provenance import hash_hardware
from framebench.records.record import Record
from framebench.records.record_base import INSTRUMENTS, ROUNDS
from framebench.suite.case import Case
from framebench.suite.protocol import REFERENCE_FLOP, VERSION

CLOCK_S = 1e-3  # by which two clocks may disagree on the time of a process
# how much faster a core may be than in the record's fastest reference matmul, which is in float32
FASTER_IN_FP32 = 2.0
FASTER_IN_FEWER_BITS = 64.0
MOST_FLOPS = 1e16  # a second, of a GPU
HARDWARE = ("cpu", "cores", "memory_bytes", "system")  # facts that numbers depend on


@dataclass
class CheckReport:
    """The outcome of all checks. Problems are reasons to refuse, notes things to know."""

    records: dict[str, Record] = field(default_factory=dict)  # by file and line
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(root: Path) -> CheckReport:
    """Check every record in the results folder `root`."""
    report = CheckReport()
    faults: list[store.BadRecord] = []
    for file in store.list_files(root):
        report.records.update(store.parse_file(Record, file, faults.append))
    report.problems += map(str, faults)
    for place, record in report.records.items():
        for problem in check_record(place, record):
            report.problems.append(f"{place}: {problem}")
    report.problems += check_blocks(report.records)
    report.problems += check_verified_blocks(report.records)
    report.problems += find_copies(report.records)
    report.notes += list_notes(list(report.records.values()))
    if not report.records:
        report.problems.append(f"{root}: no records; name the folder that has records/ in it")
    # a stranger's texts may have characters that move the cursor
    report.problems = [make_line(problem) for problem in report.problems]
    return report


def check_record(place: str, record: Record) -> Iterator[str]:
    """Yield what is wrong with one record, which lies at `place`, a file and a line."""
    yield from check_origin(Path(place.rpartition(":")[0]), record)
    yield from check_status(record)
    yield from check_verification(record)
    yield from check_memory(record)
    if record.step_s:
        yield from check_times(record)


def check_origin(file: Path, record: Record) -> Iterator[str]:
    """Yield what is wrong with the record's file and provenance: commit, time and machine."""
    provenance = record.provenance
    framework, version = record.parsed.framework, record.framework_version
    if not version and (record.peaks or record.step_s):
        yield f"it has measurements, and says no version of {framework}"
    if file.parent.name != provenance.machine:
        yield f"lies under the machine {file.parent.name}, and says {provenance.machine}"
    if not file.stem.startswith(f"{framework}-{version or ''}"):
        yield f"lies under {file.stem}, and was measured with {framework} {version}"
    if provenance.protocol > VERSION:
        yield f"protocol {provenance.protocol}, and this framebench knows {VERSION}"
    if not re.fullmatch(r"[0-9a-f]{40}", provenance.commit or ""):
        yield f"no commit ({provenance.commit}): nobody can tell which code measured"
    if provenance.measured_at > datetime.now(UTC) + timedelta(days=1):
        yield f"measured in the future, at {provenance.measured_at.isoformat()}"
    missing = [name for name in HARDWARE if not provenance.hardware.get(name)]
    if missing:
        yield f"nothing is said of the machine's {', '.join(missing)}"
    if provenance.planted:
        yield "a slowdown or memory was planted: no measurement of the case"


def check_status(record: Record) -> Iterator[str]:
    """Yield what contradicts the record's status, such as numbers of a step that is wrong."""
    if record.status == "ok" and not record.verified:
        yield "ok, but nothing was verified"
    if record.status == "ok" and record.effect is None:
        yield "ok, but nothing tells whether the strategy took effect"
    if record.status == "wrong" and (record.step_s or record.peaks):
        yield "wrong, and yet it has measurements"
    if record.status != "ok" and not record.reason:
        yield f"{record.status} for no reason that it says"


def check_verification(record: Record) -> Iterator[str]:
    """Yield what in a verification that passed should have made it fail."""
    verification = record.verification
    if not verification or not verification.passed:
        return
    if not (verification.relative_error or verification.tensors or verification.reason):
        yield "passed, though nothing was compared"
    for name, error in verification.relative_error.items():
        tolerance = verification.tolerance.get(name)
        if tolerance is not None and (error is None or error > tolerance):
            yield f"passed, though {name} is beyond its tolerance"
    for kind, tensors in verification.tensors.items():
        if tensors.failed:
            yield f"passed, though tensors of {kind} are beyond their tolerance"
    if verification.margin is not None and verification.margin > 1:
        yield f"passed with an error of {verification.margin:.3g} tolerances, where 1 is the most"
    is_current = record.provenance.protocol == VERSION and verification.against is None
    if is_current and has_other_references(record.parsed, verification.golden):
        yield "verified against other values than those of this framebench"
    if verification.mathematics and not verification.mathematics.passed:
        yield "passed, though its mathematics is wrong in float64"


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
    """Yield times that no processor can reach, or that are longer than the process took."""
    turns = record.turns_taken
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
    reference_s = record.turns_taken.reference_s
    if not record.on_cpu or not reference_s:
        return MOST_FLOPS
    is_fp32 = record.parsed.strategy_spec.precision == "fp32"
    factor = FASTER_IN_FP32 if is_fp32 else FASTER_IN_FEWER_BITS
    threads = record.provenance.threads or 1
    return min(REFERENCE_FLOP / min(reference_s) * factor * threads, MOST_FLOPS)


def check_blocks(records: dict[str, Record]) -> Iterator[str]:
    """Yield a sentence for each fact in which a record differs from the first one of its block."""
    facts_by_block: dict[str, dict[str, object]] = {}  # those of the first record
    for place, record in records.items():
        if record.turns is None:
            continue
        facts = {
            "machine": (record.provenance.machine, hash_hardware(record.provenance.hardware)),
            "session": record.provenance.session,
            "seed": record.turns.seed,
            "list of variants": record.turns.arms,
        }
        first_facts = facts_by_block.setdefault(record.turns.block, facts)
        for name, fact in facts.items():
            if fact != first_facts[name]:
                yield f"{place}: the records of its block differ in their {name}"


def check_verified_blocks(records: dict[str, Record]) -> Iterator[str]:
    """Yield records whose tensors another block is said to have verified, if none here did so."""
    verified_whole = set()
    for record in records.values():
        verification = record.verification
        if record.turns and verification and verification.passed and not verification.verified_in:
            verified_whole.add((record.case, record.turns.block))
    for place, record in records.items():
        block = record.verification.verified_in if record.verification else None
        if block and (record.case, block) not in verified_whole:
            yield f"{place}: its tensors were verified in block {block}, of which no record is here"


def find_copies(records: dict[str, Record]) -> Iterator[str]:
    """Yield measurements that are in two files, or that took the same times to the last digit."""
    first_places: dict[object, str] = {}  # by identity
    for place, record in records.items():
        # what only copies of a record have in common
        identities: list[object] = [make_key(record)]
        if len(record.step_s) >= ROUNDS:
            identities.append(tuple(record.step_s))
        for identity in identities:
            first_place = first_places.setdefault(identity, place)
            if first_place != place:
                yield f"{place}: the same measurement as {first_place}"
                break


def list_notes(records: Sequence[Record]) -> Iterator[str]:
    """Yield remarks that are no reason to refuse records, with the number of records of each."""
    counts: Counter[str] = Counter()
    for record in records:
        provenance, calibration = record.provenance, record.provenance.calibration
        mathematics = record.verification and record.verification.mathematics
        if provenance.protocol < VERSION:
            counts[f"of an older protocol than {VERSION}, which no table has with newer ones"] += 1
        if not record.parsed.is_known:
            counts["of cases that this framebench does not have, whose values none checks"] += 1
        if provenance.dirty:
            counts["by code that differs from its commit"] += 1
        if record.step_s and not (calibration and calibration.passed):
            counts["on a machine whose calibration failed or is missing (framebench doctor)"] += 1
        if record.effect and not record.effect.proven:
            counts["whose strategy's effect was not confirmed"] += 1
        if record.status == "ok" and not (mathematics and mathematics.computed):
            counts["whose mathematics was not computed in float64"] += 1
    for remark, count in counts.items():
        yield f"{count} of {len(records)} records {remark}"
