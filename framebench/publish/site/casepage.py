"""Make what the section of one case shows: its record as small tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from framebench.analysis import breakdown
from framebench.analysis.rendering import Table, format_mib, format_number, is_missing
from framebench.analysis.selection import Measured, select_case, select_current
from framebench.analysis.tables import format_flag, format_interval, format_time_ratios
from framebench.records.record import Record
from framebench.records.reference import find_reference
from framebench.suite.result import Mathematics, TensorComparison, Verification

NESTED = ("hardware", "versions", "environment")  # fields of a record's provenance that have fields

VerificationRow = tuple[str, str, str, str, str]


def make_sections(
    record: Record,
    case_records: list[Record],
    row: pd.Series,
    bound: pd.Series | None,
) -> list[Table]:
    """Return the tables of the page; those without rows are left out.

    `row` is the case's row in the machine's table, `bound` its row in that of lower bounds, and
    `case_records` are all of its records, newest first.
    """
    sections: list[Table | None] = []
    if record.status == "ok":
        measured = select_same_version(record, case_records)
        sections += [make_numbers_table(row), make_peaks_table(measured.read)]
    if bound is not None:
        sections.append(make_bound_table(bound))
    sections += [
        make_verification_table(record),
        make_effect_table(record),
        make_durations_table(record),
        make_provenance_table(record),
    ]
    if len(case_records) > 1:
        sections.append(make_history_table(case_records))
    return [section for section in sections if section is not None and section.rows]


def select_same_version(record: Record, case_records: list[Record]) -> Measured:
    """Return what counts of the case's records of the same version of the framework."""
    same = [one for one in case_records if one.framework_version == record.framework_version]
    return select_case(select_current(same))


def make_facts_table(
    title: str,
    caption: str,
    named_values: Iterable[tuple[str, object]],
) -> Table:
    """Return a table of names and values; what is absent has no row."""
    rows = []
    for name, value in named_values:
        if not is_missing(value) and value != "-":
            rows.append((name, format_value(value)))
    return Table.of_text(title, caption, ("what", "value"), rows, left=2)


def format_value(value: object) -> str:
    """Return any JSON value in one line."""
    if is_missing(value):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        items = [f"{name}: {format_value(item)}" for name, item in value.items()]
        return ", ".join(items) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value)) or "none"
    return str(value)


def make_numbers_table(row: pd.Series) -> Table:
    """Return the row of the comparison tables, spelt out."""
    alone = row.to_frame().T
    blocks = f"{row['samples']} turns in {row['blocks']} blocks"
    interval = format_interval(row["step_low_s"], row["step_high_s"])
    return make_facts_table(
        "Numbers",
        "Ratios are to the baseline strategy of the same framework, batch and machine. MiB = "
        "2^20 bytes.",
        [
            (
                "peak",
                add_unit(format_mib(row["peak_bytes"], ",.2f"), f" MiB ({row['peak_instrument']})"),
            ),
            ("peak x base", format_number(row["peak_ratio"], ".3f")),
            ("kept between steps", add_unit(format_mib(row["live_bytes"], ",.2f"), " MiB")),
            (
                "saved for the backward pass",
                add_unit(format_mib(row["activation_bytes"], ",.2f"), " MiB"),
            ),
            (
                "peak of the first step",
                add_unit(format_mib(row["cold_peak_bytes"], ",.2f"), " MiB"),
            ),
            (
                "step, median",
                add_unit(format_number(row["step_time_s"], ",.2f", 1e3), f" ms over {blocks}"),
            ),
            ("range over blocks", add_unit(interval, " ms")),
            ("step x base", format_time_ratios(alone)[0]),
            ("step x PyTorch's baseline", format_time_ratios(alone, "torch_ratio")[0]),
            ("instructions of a step", format_number(row["instructions_per_step"], ",.0f")),
            ("of the reference product's rate", format_number(row["reference_share"], ".1%")),
            ("throughput", add_unit(format_number(row["throughput"], ",.2f"), f" {row['unit']}/s")),
            ("first step", add_unit(format_number(row["first_step_s"], ",.2f"), " s")),
            ("share waiting for input", format_number(row["wait_share"], ".1%")),
            ("share of Python's collector", format_number(row["collector_share"], ".1%")),
        ],
    )


def add_unit(text: str, unit: str) -> str:
    """Return a number with its unit; the dash of a missing one stays alone."""
    return text if text == "-" else text + unit


def make_peaks_table(record: Record) -> Table:
    """Return the peaks by every instrument, whichever is the record's peak."""
    instruments = [*record.peaks, *record.cold_peaks]
    for sample in record.peak_samples:
        instruments += sample
    rows = []
    for instrument in dict.fromkeys(instruments):  # each once, in their order
        samples = [format_mib(sample.get(instrument), ",.2f") for sample in record.peak_samples]
        steady = format_mib(record.peaks.get(instrument), ",.2f")
        cold = format_mib(record.cold_peaks.get(instrument), ",.2f")
        rows.append((instrument, steady, cold, "; ".join(samples) or "-"))
    return Table.of_text(
        "Peaks by instrument",
        "MiB (2^20 bytes). steady: the largest of the sampled steps; cold: the first step, with "
        "compilation and autotuning. Two instruments are not comparable.",
        ("instrument", "steady", "cold", "samples"),
        rows,
        left=1,
    )


def make_bound_table(bound: pd.Series) -> Table:
    """Return what the peak consists of, counted by hand (`breakdown.breakdown`)."""
    rows = []
    for part in (*breakdown.PARTS, "lower_bound", "rest"):
        share = format_number(bound[part] / bound["peak_bytes"], ".1%")
        rows.append((part, format_mib(bound[part], ",.2f"), share))
    return Table.of_text(
        "Where the peak goes",
        "MiB (2^20 bytes). The parts sum to the lower bound, the least that any implementation "
        "needs; rest = measured peak - lower bound.",
        ("part", "MiB", "of the peak"),
        rows,
        left=1,
    )


def make_verification_table(record: Record) -> Table | None:
    """Return how far the result is off its references; None if nothing was verified."""
    check = record.verification
    if check is None:
        return None
    rows = []
    for name, value in check.observed.items():
        rows.append(
            (
                name,
                format_value(value),
                format_value(check.golden.get(name)),
                format_number(check.relative_error.get(name), ".1e"),
                format_number(check.tolerance.get(name), ".0e"),
            )
        )
    if check.mathematics is not None and check.mathematics.computed:
        rows.append(make_mathematics_row(check.mathematics))
    for kind, worst in check.tensors.items():
        rows.append(make_tensors_row(kind, worst))
    if check.again is not None:
        for kind, worst in check.again.tensors.items():
            rows.append(make_tensors_row(f"{kind}, after the timed steps", worst))
    reference = find_reference(record)
    heading = "reference" if reference == "none" else f"{reference} reference"
    head = ("quantity", "observed", heading, "relative error", "tolerance")
    return Table.of_text("Verification", describe_verification(check), head, rows, left=1)


def describe_verification(check: Verification) -> str:
    """Return whether the result passed, and what it was compared with."""
    reason = check.reason or "an error exceeds its tolerance"
    sentences = ["Passed." if check.passed else f"Not passed: {reason}."]
    if check.against:
        sentences.append(f"References: {check.against}.")
    if check.mathematics is not None:
        sentences.append(describe_mathematics(check.mathematics))
    return " ".join(sentences)


def describe_mathematics(outcome: Mathematics) -> str:
    """Return a sentence on what the float64 check of the strategy has shown."""
    if not outcome.computed:
        return f"Mathematics in float64: not computed, since {outcome.reason}."
    if not outcome.passed:
        return f"Mathematics in float64: wrong, {outcome.reason} ({outcome.case})."
    agreement = (
        f"{outcome.tensors:,} values and tensors agree to {format_number(outcome.error, '.0e')}"
    )
    return f"Mathematics in float64: {agreement} ({outcome.case})."


def make_mathematics_row(outcome: Mathematics) -> VerificationRow:
    """Return a row of the verification: what is furthest off in float64."""
    what = f"in float64: {outcome.worst or 'none'}, the worst of {outcome.tensors:,}"
    return (
        what,
        "",
        "",
        format_number(outcome.error, ".1e"),
        format_number(outcome.tolerance, ".0e"),
    )


def make_tensors_row(kind: str, worst: TensorComparison) -> VerificationRow:
    """Return a row of the verification: the worst tensor of a kind."""
    what = f"{kind}: {worst.worst or 'none'}, the worst of {worst.count}"
    return what, "", "", format_number(worst.error, ".1e"), format_number(worst.tolerance, ".0e")


def make_effect_table(record: Record) -> Table | None:
    """Return what shows that the strategy was at work, or not; None if that was not looked at."""
    effect = record.effect
    if effect is None:
        return None
    outcome = "The strategy was seen to take effect" if effect.proven else "NO effect was seen"
    rows: list[tuple[str, object]] = []
    if effect.reason:
        rows.append(("what failed", effect.reason))
    rows += effect.evidence.items()
    proof = f"What proves it: {record.parsed.plan.effect}."
    return make_facts_table("Effect", f"{outcome}. {proof}", rows)


def make_durations_table(record: Record) -> Table:
    """Return what measuring the case took, part by part."""
    return Table.of_text(
        "Where the time of measuring went",
        "Seconds of wall-clock time.",
        ("part", "s"),
        [(part, f"{seconds:,.2f}") for part, seconds in record.spent_s.items()],
        left=1,
    )


def make_provenance_table(record: Record) -> Table:
    """Return everything about where and how the record was made, as it has it."""
    fields = record.provenance.model_dump(mode="json")
    rows = [(name, value) for name, value in fields.items() if name not in NESTED]
    for name in NESTED:
        rows += [(f"{name}: {key}", value) for key, value in fields[name].items()]
    return make_facts_table("Provenance", "Of the record shown here.", rows)


def make_history_table(case_records: list[Record]) -> Table:
    """Return every record of the case on this machine, in the order given."""
    rows = []
    for record in case_records:
        origin = record.provenance
        rows.append(
            (
                f"{origin.measured_at:%Y-%m-%d %H:%M:%S}",
                record.framework_version or "-",
                (origin.commit or "unknown")[:10],
                str(origin.protocol),
                record.status,
                format_flag(record.effect.proven) if record.effect else "-",
                format_mib(record.peak_bytes, ",.2f"),
                format_number(record.step_time_s, ",.2f", 1e3),
                format_number(record.first_step_s, ",.2f"),
                str(len(record.step_s)),
            )
        )
    return Table.of_text(
        "History",
        "All records of this case on this machine, newest first; numbers of different protocols "
        "are not comparable.",
        (
            "measured (UTC)",
            "version",
            "commit",
            "protocol",
            "status",
            "effect",
            "peak MiB",
            "step ms",
            "first s",
            "n",
        ),
        rows,
        left=6,
    )


def list_timed_steps(record: Record, case_records: list[Record]) -> list[float]:
    """Return the record's steps in seconds, or those of the newest block where it has none."""
    if record.step_s:
        return record.step_s
    timed = select_same_version(record, case_records).timed
    return timed[-1].step_s if timed else []
