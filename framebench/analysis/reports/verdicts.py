"""Verdicts on a candidate against its base, from the blocks that both were in, and cautions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import geometric_mean, median
from typing import Any, NamedTuple

import pandas as pd

from framebench.analysis.blocks import Blocks, match_blocks
from framebench.analysis.rendering import Table, read_columns
from framebench.analysis.statistics import (
    NO_INTERVAL,
    PEAK,
    TIME,
    WORK,
    Quantity,
    Ratio,
    compare_peaks,
    decide,
)
from framebench.analysis.tables import READING
from framebench.records.record import Record, get_measurement_time

INSTRUCTIONS = Quantity("instructions", "", minimum=WORK, more="other work", less="other work")
SAME_WORK = "same work"
FACTORS = {"s": (1e3, "ms"), "bytes": (2**-20, "MiB"), "": (1e-6, "million")}  # for people


class Verdict(NamedTuple):
    """A change against its base, in the quantity's unit.

    Values of times are geometric means over the blocks that the ratio is of, and so agree with it;
    of peaks they are the largest, of instructions medians over processes.
    """

    quantity: str
    unit: str
    base: float
    change: float
    ratio: float
    low: float | None  # 95 % interval of the ratio
    high: float | None
    p: float | None  # where the interval is over blocks
    minimum: float  # the relative difference that matters
    blocks: int
    verdict: str  # the quantity's `more` or `less`, "no difference", "undecided", or "same work"
    instrument: str | None = None  # of the peaks


def compare(
    base: Sequence[Record], change: Sequence[Record], machine_blocks: Blocks
) -> list[Verdict]:
    """Return one verdict for each quantity that both sides have.

    Times need shared blocks, and peaks the same instrument. The spread between blocks is estimated
    from `machine_blocks`, all blocks of the machine.
    """
    verdicts = [
        compare_times(base, change, machine_blocks),
        compare_memory(base, change),
        compare_instructions(base, change),
    ]
    return [verdict for verdict in verdicts if verdict is not None]


def compare_times(
    base: Sequence[Record], change: Sequence[Record], machine_blocks: Blocks
) -> Verdict | None:
    """Return the verdict on step times, or None if the two share no block."""
    ratio = machine_blocks.compare(base, change)
    if ratio is None:
        return None
    pairs = match_blocks(base, change)
    base_time = geometric_mean(pair.step_time_s or math.nan for pair, _ in pairs)
    change_time = geometric_mean(other.step_time_s or math.nan for _, other in pairs)
    return make_verdict(TIME, ratio, base_time, change_time)


def compare_memory(base: Sequence[Record], change: Sequence[Record]) -> Verdict | None:
    """Return the verdict on peaks, or None if there are none or two instruments read them."""
    base_records = select_with_peaks(base)
    change_records = select_with_peaks(change)
    shared = list_sessions(base_records) & list_sessions(change_records)
    if shared:  # peaks of one session are the fairest comparison
        base_records = select_sessions(base_records, shared)
        change_records = select_sessions(change_records, shared)
    if not base_records or not change_records:
        return None
    instrument = find_newest(base_records).peak_instrument
    if instrument is None or instrument != find_newest(change_records).peak_instrument:
        return None
    base_peaks = list_newest_peaks(base_records, instrument)
    change_peaks = list_newest_peaks(change_records, instrument)
    ratio = compare_peaks(base_peaks, change_peaks, instrument)
    verdict = make_verdict(PEAK, ratio, max(base_peaks), max(change_peaks))
    return verdict._replace(instrument=instrument)


def find_newest(records: Sequence[Record]) -> Record:
    """Return the record that was made last."""
    return max(records, key=get_measurement_time)


def select_with_peaks(records: Sequence[Record]) -> list[Record]:
    """Return the records of cases that ran and have a peak."""
    return [record for record in records if record.status == "ok" and record.peaks]


def list_sessions(records: Sequence[Record]) -> set[str]:
    """Return the sessions that made these records."""
    return {record.provenance.session for record in records}


def select_sessions(records: Sequence[Record], sessions: set[str]) -> list[Record]:
    """Return the records of these sessions."""
    return [record for record in records if record.provenance.session in sessions]


def list_newest_peaks(records: Sequence[Record], instrument: str) -> list[int]:
    """Return the bytes that an instrument read in the session of the newest record."""
    session = find_newest(records).provenance.session
    of_session = select_sessions(records, {session})
    return [record.peaks[instrument] for record in of_session if instrument in record.peaks]


def compare_instructions(base: Sequence[Record], change: Sequence[Record]) -> Verdict | None:
    """Return the verdict on instructions of a step, or None if they were not counted.

    One process of each side is enough: the median over its steps counts.
    """
    base_counts = list_instructions(base)
    change_counts = list_instructions(change)
    if not base_counts or not change_counts:
        return None
    base_count = median(base_counts)
    change_count = median(change_counts)
    processes = min(len(base_counts), len(change_counts))
    ratio = Ratio(change_count / base_count, blocks=processes)
    is_same = abs(ratio.value - 1) <= WORK
    verdict = make_verdict(INSTRUCTIONS, ratio, base_count, change_count)
    return verdict._replace(verdict=SAME_WORK if is_same else INSTRUCTIONS.more)


def list_instructions(records: Sequence[Record]) -> list[float]:
    """Return the median number of instructions of a step in each process that counted them."""
    counts = []
    for record in records:
        if record.status == "ok" and record.instructions:
            counts.append(median(record.instructions))
    return counts


def make_verdict(quantity: Quantity, ratio: Ratio, base: float, change: float) -> Verdict:
    """Return the verdict on a ratio. `base` and `change` are the values that people read."""
    return Verdict(
        quantity=quantity.name,
        unit=quantity.unit,
        base=base,
        change=change,
        ratio=ratio.value,
        low=ratio.low,
        high=ratio.high,
        p=ratio.p,
        minimum=quantity.minimum,
        blocks=ratio.blocks,
        verdict=decide(ratio, quantity),
    )


def list_cautions(
    base: Sequence[Record],
    change: Sequence[Record],
    verdicts: Sequence[Verdict],
) -> Iterator[str]:
    """Yield the reasons why there is no verdict on times or on peaks."""
    times = [verdict for verdict in verdicts if verdict.quantity == TIME.name]
    if not times:
        yield "no timed block has both cases, so their times have no ratio"
    elif times[0].low is None:
        yield NO_INTERVAL
    instruments = {str(record.peak_instrument) for record in (*base, *change) if record.peaks}
    if len(instruments) > 1:
        yield (
            f"peaks were read by different instruments ({', '.join(sorted(instruments))}) and "
            "are not compared"
        )


def make_report(
    base: Sequence[Record],
    change: Sequence[Record],
    machine_blocks: Blocks,
) -> dict[str, Any]:
    """Return the verdicts in seconds and bytes with their conditions, for programs."""
    verdicts = compare(base, change, machine_blocks)
    origin = base[0].provenance
    names = {"session", "commit", "dirty", "machine", "threads", "core", "protocol"}
    return {
        "base": base[0].case,
        "change": change[0].case,
        "verdicts": [verdict._asdict() for verdict in verdicts],
        "cautions": list(list_cautions(base, change, verdicts)),
        **origin.model_dump(mode="json", include=names),
        "versions": {**origin.versions, **change[0].provenance.versions},
    }


def make_table(
    base: Sequence[Record],
    change: Sequence[Record],
    machine_blocks: Blocks,
) -> Table:
    """Return the verdicts for people."""
    verdicts = compare(base, change, machine_blocks)
    origin = base[0].provenance
    about_instructions = ""
    rows = []
    for verdict in verdicts:
        if verdict.quantity == INSTRUCTIONS.name:
            about_instructions = (
                "Instruction counts show whether the work changed, not how fast it ran. "
            )
        cells = {
            "base": format_with_unit(verdict.base, verdict.unit),
            "change": format_with_unit(verdict.change, verdict.unit),
            "interval": format_interval(verdict.low, verdict.high),
            "minimum": f"{verdict.minimum * 100:g} %",
        }
        rows.append(verdict._asdict() | cells)
    core = "-" if origin.core is None else origin.core
    caption = (
        "ratio: change over base, of times that of paired rounds. A difference is claimed if it "
        f"exceeds the minimum and p is at most 5 %. {about_instructions}{READING} Machine "
        f"{origin.machine}, core {core}."
    )
    notes = tuple(f"caution: {caution}" for caution in list_cautions(base, change, verdicts))
    title = f"{change[0].case} against {base[0].case}"
    shown = read_columns("verdicts")
    data = pd.DataFrame(rows, columns=list(shown))
    return Table(title, caption, data, shown, left=1, notes=notes)


def format_with_unit(value: float, unit: str) -> str:
    """Return a value in the unit that people read: seconds in ms, bytes in MiB."""
    factor, shown_unit = FACTORS[unit]
    return f"{value * factor:,.2f} {shown_unit}"


def format_interval(low: float | None, high: float | None) -> str:
    """Return `0.950 to 1.020`, or a dash without an interval."""
    if low is None or high is None:
        return "-"
    return f"{low:.3f} to {high:.3f}"
