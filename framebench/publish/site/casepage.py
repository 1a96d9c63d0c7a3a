"""What the page of one case shows: a record taken apart into small tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from framebench.analysis import breakdown
from framebench.analysis.comparison import MIB, Comparison, missing, number
from framebench.analysis.selection import Measured, counting, select_case
from framebench.analysis.tables import format_flag, format_interval, relative
from framebench.records.record import Record
from framebench.records.reference import find_reference
from framebench.suite.result import Mathematics, TensorComparison


@dataclass(frozen=True)
class Dot:
    """One timed step in the drawing of all of them."""

    x: float
    y: float
    ms: str


@dataclass(frozen=True)
class Tick:
    """A line across that drawing."""

    y: float
    ms: str


LEFT, END, TOP, FOOT = 56, 340, 8, 122  # of the drawing, in its units


def text(value: Any) -> str:
    """Any JSON value in one line."""
    if missing(value):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {text(v)}" for k, v in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def pairs(title: str, caption: str, named_values: Iterable[tuple[str, Any]]) -> Comparison:
    """Names and values; what is absent has no row."""
    rows = tuple((name, text(value)) for name, value in named_values if not missing(value) and value != "-")
    return Comparison.of_text(title, caption, ("what", "value"), rows, left=2)


def _key_numbers(r: pd.Series) -> Comparison:
    """The row of the comparison tables, spelt out."""
    alone = r.to_frame().T
    return pairs(
        "Numbers",
        "Ratios are to the baseline strategy of the same framework, batch and machine. MiB = 2^20 bytes.",
        [
            ("peak", _mib(r["peak_bytes"], f" ({r['peak_instrument']})")),
            ("peak x base", number(r["peak_ratio"], ".3f")),
            ("kept between steps", _mib(r["live_bytes"])),
            ("saved for the backward pass", _mib(r["activation_bytes"])),
            ("peak of the first step", _mib(r["cold_peak_bytes"])),
            ("step, median", _with_unit(r["step_time_s"], ",.2f", f" ms over {blocks(r)}", 1e3)),
            ("range over blocks", _interval_ms(r)),
            ("step x base", relative(alone)[0]),
            ("step x PyTorch's baseline", relative(alone, "torch_ratio")[0]),
            ("instructions of a step", number(r["instructions_per_step"], ",.0f")),
            ("of the reference product's rate", number(r["reference_share"], ".1%")),
            ("throughput", _with_unit(r["throughput"], ",.2f", f" {r['unit']}/s")),
            ("first step", _with_unit(r["first_step_s"], ",.2f", " s")),
            ("share waiting for input", number(r["wait_share"], ".1%")),
            ("share of Python's collector", number(r["collector_share"], ".1%")),
        ],
    )


def blocks(r: pd.Series) -> str:
    return f"{r['samples']} turns in {r['blocks']} blocks"


def _with_unit(value: float | None, form: str, unit: str, times: float = 1) -> str:
    return "-" if missing(value) else number(value, form, times) + unit


def _interval_ms(r: pd.Series) -> str:
    interval_text = format_interval(r["step_low_s"], r["step_high_s"])
    return interval_text if interval_text == "-" else f"{interval_text} ms"


def _mib(value: float | None, more: str = "") -> str:
    return _with_unit(value, ",.2f", f" MiB{more}", 1 / MIB)


def peaks(record: Record) -> Comparison:
    """All instruments, whichever is the record's peak."""
    names = dict.fromkeys([*record.peaks, *record.cold_peaks, *(name for s in record.peak_samples for name in s)])

    def line(name: str) -> tuple[str, ...]:
        samples = [number(s.get(name), ",.2f", 1 / MIB) for s in record.peak_samples]
        steady, cold = (number(by_instrument.get(name), ",.2f", 1 / MIB) for by_instrument in (record.peaks, record.cold_peaks))
        return name, steady, cold, "; ".join(samples) or "-"

    caption = (
        "MiB (2^20 bytes). steady: the largest of the sampled steps; cold: the first step, with compilation and autotuning. "
        "Two instruments are not comparable."
    )
    return Comparison.of_text(
        "Peaks by instrument", caption, ("instrument", "steady", "cold", "samples"), tuple(map(line, names)), left=1
    )


def _lower_bound_of(r: pd.Series) -> Comparison:
    """What the peak consists of, counted by hand (`breakdown.breakdown`)."""
    names = (*breakdown.PARTS, "lower_bound", "rest")
    rows = [(name, number(r[name], ",.2f", 1 / MIB), number(r[name] / r["peak_bytes"], ".1%")) for name in names]
    caption = (
        "MiB (2^20 bytes). The parts sum to the lower bound, the least that any implementation needs; "
        "rest = measured peak - lower bound."
    )
    return Comparison.of_text("Where the peak goes", caption, ("part", "MiB", "of the peak"), tuple(rows), left=1)


def verification(record: Record) -> Comparison | None:
    check = record.verification
    if check is None:
        return None
    rows = [
        (name, text(value), text(check.golden.get(name)), number(check.relative_error.get(name), ".1e"),
         number(check.tolerance.get(name), ".0e"))
        for name, value in check.observed.items()
    ]  # fmt: skip
    if check.mathematics is not None and check.mathematics.computed:
        rows.append(worst_in_float64(check.mathematics))
    rows += [tensors(kind, worst) for kind, worst in check.tensors.items()]
    rows += [
        tensors(f"{kind}, after the timed steps", worst) for kind, worst in (check.again.tensors if check.again else {}).items()
    ]
    outcome = "Passed." if check.passed else f"Not passed: {check.reason or 'an error exceeds its tolerance'}."
    outcome += f" References: {check.against}." if check.against else ""
    if check.mathematics is not None:
        outcome += f" {describe_mathematics(check.mathematics)}"
    reference = find_reference(record)
    heading = "reference" if reference == "none" else f"{reference} reference"
    head = ("quantity", "observed", heading, "relative error", "tolerance")
    return Comparison.of_text("Verification", outcome, head, tuple(rows), left=1)


def describe_mathematics(outcome: Mathematics) -> str:
    """Return a sentence on what the float64 check of the strategy has shown."""
    if not outcome.computed:
        return f"Mathematics in float64: not computed, since {outcome.reason}."
    if not outcome.passed:
        return f"Mathematics in float64: wrong, {outcome.reason} ({outcome.case})."
    agreement = number(outcome.error, ".0e")
    return f"Mathematics in float64: {outcome.tensors:,} values and tensors agree to {agreement} ({outcome.case})."


def worst_in_float64(outcome: Mathematics) -> tuple[str, str, str, str, str]:
    """Return a row of the verification: what is furthest off in float64."""
    what = f"in float64: {outcome.worst or 'none'}, the worst of {outcome.tensors:,}"
    return what, "", "", number(outcome.error, ".1e"), number(outcome.tolerance, ".0e")


def tensors(kind: str, worst: TensorComparison) -> tuple[str, str, str, str, str]:
    """The worst tensor of a kind, as a row of the verification."""
    what = f"{kind}: {worst.worst or 'none'}, the worst of {worst.count}"
    return what, "", "", number(worst.error, ".1e"), number(worst.tolerance, ".0e")


def effect(record: Record) -> Comparison | None:
    if record.effect is None:
        return None
    seen = "The strategy was seen to take effect" if record.effect.proven else "NO effect was seen"
    plan = record.parsed.plan
    failed = [("what failed", record.effect.reason)] if record.effect.reason else []
    rows = [*failed, *record.effect.evidence.items()]
    return pairs("Effect", f"{seen}. What proves it: {plan.effect}.", rows)


def provenance(record: Record) -> Comparison:
    """Everything about where and how, as the record has it."""
    fields = record.provenance.model_dump(mode="json")
    nested = [
        (f"{name}: {key}", value) for name in ("hardware", "versions", "environment") for key, value in fields[name].items()
    ]
    plain = [(name, value) for name, value in fields.items() if name not in ("hardware", "versions", "environment")]
    return pairs("Provenance", "Of the record shown here.", [*plain, *nested])


def _spent(record: Record) -> Comparison:
    rows = tuple((name, f"{seconds:,.2f}") for name, seconds in record.spent_s.items())
    return Comparison.of_text("Where the time of measuring went", "Seconds of wall-clock time.", ("part", "s"), rows, left=1)


def history(case_records: list[Record]) -> Comparison:
    """Every record of the case on this machine, the newest first."""

    def line(r: Record) -> tuple[str, ...]:
        proof = r.provenance
        peak_mib, ms = number(r.peak_bytes, ",.2f", 1 / MIB), number(r.step_time_s, ",.2f", 1e3)
        return (
            f"{proof.measured_at:%Y-%m-%d %H:%M:%S}", r.framework_version or "-", (proof.commit or "unknown")[:10],
            str(proof.protocol), r.status, format_flag(r.effect.proven) if r.effect else "-", peak_mib, ms,
            number(r.first_step_s, ",.2f"), str(len(r.step_s)),
        )  # fmt: skip

    head = ("measured (UTC)", "version", "commit", "protocol", "status", "effect", "peak MiB", "step ms", "first s", "n")
    caption = "All records of this case on this machine, newest first; numbers of different protocols are not comparable."
    return Comparison.of_text("History", caption, head, tuple(map(line, case_records)), left=6)


def dots(record: Record, case_records: list[Record]) -> list[Dot]:
    """Its timed steps in their order, or those of the newest block where it has none."""
    seconds = _timed_steps(record, case_records)
    apart = min((END - LEFT - 20) / max(len(seconds) - 1, 1), 14)
    return [Dot(round(LEFT + 10 + apart * i, 2), _height(s, seconds), f"{s * 1e3:,.2f}") for i, s in enumerate(seconds)]


def ticks(record: Record, case_records: list[Record]) -> list[Tick]:
    """Of their axis: zero, and round numbers up to the longest step."""
    seconds = _timed_steps(record, case_records)
    longest = max(seconds, default=0)
    if not longest:
        return []
    decade = 10.0 ** math.floor(math.log10(longest))
    apart = next(decade * share for share in (0.25, 0.5, 1, 2.5) if longest / (decade * share) < 4)
    at = [apart * i for i in range(int(longest / apart) + 1)]
    return [Tick(_height(s, seconds), f"{s * 1e3:,.6g}") for s in at]


def _height(step_s: float, seconds: list[float]) -> float:
    """From zero at the foot to a tenth above the longest."""
    return round(FOOT - (FOOT - TOP) * step_s / (1.1 * max(seconds)), 2)


def _timed_steps(record: Record, case_records: list[Record]) -> list[float]:
    timed = _of_its_version(record, case_records).timed
    return record.step_s or (timed[-1].step_s if timed else [])


def _of_its_version(record: Record, case_records: list[Record]) -> Measured:
    return select_case(counting(r for r in case_records if r.framework_version == record.framework_version))


def sections(record: Record, case_records: list[Record], line: pd.Series, bound: pd.Series | None) -> list[Comparison]:
    """The tables of the page; `line` and `bound` are the case's flat rows, `case_records` all of its records, newest first."""
    read = _of_its_version(record, case_records).read
    measured = [_key_numbers(line), peaks(read)] if record.status == "ok" else []
    parts = [*measured, _lower_bound_of(bound) if bound is not None else None, verification(record), effect(record)]
    rest = [_spent(record), provenance(record), history(case_records) if len(case_records) > 1 else None]
    return [part for part in (*parts, *rest) if part is not None and part.rows]
