"""What a comparison says: verdicts on two arms from the blocks that both were in, and cautions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import geometric_mean, median
from typing import Any, NamedTuple

from framebench.analysis.blocks import Blocks, blocks_of_both
from framebench.analysis.comparison import Comparison, number
from framebench.analysis.selection import measured_at
from framebench.analysis.statistics import (
    NO_INTERVAL,
    PEAK,
    TIME,
    WORK,
    Quantity,
    Ratio,
    of_peaks,
    verdict,
)
from framebench.analysis.tables import READING
from framebench.records.record import Record

INSTRUCTIONS = Quantity("instructions", "", WORK, "other work", "other work")
SAME_WORK = "same work"
FACTORS = {"s": (1e3, "ms"), "bytes": (2**-20, "MiB"), "": (1e-6, "million")}  # for people


class Verdict(NamedTuple):
    """Change against base, in the quantity's unit. Values of times are geometric means over the blocks that the ratio is of,
    and so agree with it; of peaks they are the largest, of instructions medians over processes."""

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


def of(base: Sequence[Record], change: Sequence[Record], machine_blocks: Blocks | None = None) -> list[Verdict]:
    """One verdict for each quantity that both arms have; times need blocks in common, and peaks one instrument. `known` are the
    machine's blocks, from which is learnt how blocks differ."""
    machine_blocks = machine_blocks or Blocks([*base, *change])
    verdicts = [of_time(base, change, machine_blocks), of_memory(base, change), of_instructions(base, change)]
    return [one for one in verdicts if one]


def of_time(
    base: Sequence[Record], change: Sequence[Record], machine_blocks: Blocks, quantity: Quantity = TIME
) -> Verdict | None:
    if (ratio := machine_blocks.ratio(base, change)) is None:
        return None
    pairs = [(b.step_time_s, c.step_time_s) for b, c in blocks_of_both(base, change) if b.step_time_s and c.step_time_s]
    return judged(quantity, ratio, *map(geometric_mean, zip(*pairs)))


def of_memory(base: Sequence[Record], change: Sequence[Record], quantity: Quantity = PEAK) -> Verdict | None:
    """None where two instruments read the peaks, or nothing did."""
    read = [[r for r in arm if r.status == "ok" and r.peaks] for arm in (base, change)]
    together = {r.provenance.session for r in read[0]} & {r.provenance.session for r in read[1]}
    (one, first), (other, second) = (peaks([r for r in arm if r.provenance.session in together] or arm) for arm in read)
    if not first or not second or one != other:
        return None
    return judged(quantity, of_peaks(first, second, one), max(first), max(second))._replace(instrument=one)


def peaks(read: Sequence[Record]) -> tuple[str, list[int]]:
    """Instrument and peaks of the newest session's processes."""
    if not read:
        return "", []
    newest = max(read, key=measured_at)
    instrument, session = newest.peak_instrument or "", newest.provenance.session
    return instrument, [r.peaks[instrument] for r in read if r.provenance.session == session and instrument in r.peaks]


def of_instructions(base: Sequence[Record], change: Sequence[Record]) -> Verdict | None:
    """Of all that were counted: two processes are enough."""
    counts = [[median(r.instructions) for r in arm if r.status == "ok" and r.instructions] for arm in (base, change)]
    if not all(counts):
        return None
    one, other = (median(arm_counts) for arm_counts in counts)
    verdict_text = SAME_WORK if abs(other / one - 1) <= WORK else INSTRUCTIONS.more
    return judged(INSTRUCTIONS, Ratio(other / one, blocks=min(map(len, counts))), one, other)._replace(verdict=verdict_text)


def judged(quantity: Quantity, ratio: Ratio, base: float, change: float, p: float | None = None) -> Verdict:
    """`p` in the place of the ratio's own: corrected for other tests on the page."""
    shown = ratio if p is None else ratio._replace(p=p)
    return Verdict(
        quantity.name, quantity.unit, base, change, ratio.value, ratio.low, ratio.high, shown.p, quantity.minimum, ratio.blocks,
        verdict(shown, quantity),
    )  # fmt: skip


def cautions(base: Sequence[Record], change: Sequence[Record], all_verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Reasons why there are no verdicts, or none to be had."""
    times = next((v for v in all_verdicts if v.quantity == TIME.name), None)
    if times is None:
        yield "no timed block has both cases, so their times have no ratio"
    elif times.low is None:
        yield NO_INTERVAL
    instruments = {r.peak_instrument for r in (*base, *change) if r.peaks}
    if len(instruments) > 1:
        yield f"peaks were read by different instruments ({', '.join(sorted(map(str, instruments)))}) and are not compared"


def as_json(base: Sequence[Record], change: Sequence[Record], machine_blocks: Blocks | None = None) -> dict[str, Any]:
    """For programs: the verdicts, and under which conditions they were measured. Seconds and bytes."""
    all_verdicts, proof = of(base, change, machine_blocks), base[0].provenance
    return {
        "base": base[0].case,
        "change": change[0].case,
        "verdicts": [v._asdict() for v in all_verdicts],
        "cautions": list(cautions(base, change, all_verdicts)),
        "session": proof.session,
        "commit": proof.commit,
        "dirty": proof.dirty,
        "machine": proof.machine,
        "versions": {**proof.versions, **change[0].provenance.versions},
        "threads": proof.threads,
        "core": proof.core,
        "protocol": proof.protocol,
    }


def table(base: Sequence[Record], change: Sequence[Record], machine_blocks: Blocks | None = None) -> Comparison:
    """The verdicts for people."""
    all_verdicts, proof = of(base, change, machine_blocks), base[0].provenance
    counts = "Instruction counts show whether the work changed, not how fast it ran. " if of_instructions(base, change) else ""
    return Comparison.of_text(
        f"{change[0].case} against {base[0].case}",
        f"ratio: change over base, of times that of paired rounds. A difference is claimed if it exceeds the minimum and p is "
        f"at most 5 %. {counts}{READING} Machine {proof.machine}, core {'-' if proof.core is None else proof.core}.",
        ("quantity", "base", "change", "ratio", "95 % interval", "minimum", "p", "verdict"),
        tuple(line(v) for v in all_verdicts),
        left=1,
        notes=tuple(f"caution: {text}" for text in cautions(base, change, all_verdicts)),
    )


def value(x: float, unit: str) -> str:
    factor, shown = FACTORS[unit]
    return f"{x * factor:,.2f} {shown}"


def between(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def line(v: Verdict) -> tuple[str, ...]:
    values = value(v.base, v.unit), value(v.change, v.unit)
    return (
        v.quantity, *values, f"{v.ratio:.3f}", between(v.low, v.high), f"{v.minimum * 100:g} %", number(v.p, ".3f"), v.verdict
    )  # fmt: skip
