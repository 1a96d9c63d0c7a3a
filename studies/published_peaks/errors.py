"""Errors of predictions against real GPUs, by family and row, next to those of other estimators."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from framebench.analysis.rendering import Table, format_mib
from framebench.devices.simulation.blocks import SMALL_SEGMENT
from studies.published_peaks import judged, programs, rules
from studies.published_peaks.rows import DATA, ESTIMATORS, XMEM, Row, beside_the_pool
from studies.published_peaks.rows import read as read_rows

OURS = "framebench"
FAILED = 1.0  # the error of a row that could be written and has no prediction


@dataclass(frozen=True)
class Held:
    """A row that could be written, beside its prediction."""

    row: Row
    program: programs.Program
    predicted_bytes: int | None
    why_not: str | None = None
    weights_bytes: int = 0
    otherwise_bytes: int | None = None  # with cuBLAS set the other way

    def error(self, estimator: str = OURS) -> float | None:
        """Relative, with its sign; None where the estimator has none, or only a lower bound."""
        if estimator == OURS:
            return (
                FAILED
                if self.predicted_bytes is None
                else self.predicted_bytes / self.row.bytes - 1
            )
        if estimator in self.row.lower_bounds or estimator not in self.row.estimates:
            return None
        return self.row.estimates[estimator] / self.row.bytes - 1


def of_folder(root: Path = DATA) -> list[Table]:
    """Nothing where nothing was predicted."""
    rows = read_rows(root)
    held = list(compare_rows(root, rows))
    if not held:
        return []
    return [
        in_all(held),
        by_family(held),
        late_sample(held),
        of_blas(held),
        row_by_row(held),
        left_out(rows),
    ]


def compare_rows(root: Path, rows: Sequence[Row]) -> Iterable[Held]:
    """Yield each row whose program is known, next to its prediction."""
    beside = beside_the_pool(rows)
    for row in rows:
        try:
            program = programs.program(row)
        except programs.Unwritten:
            continue
        if answer := judged.read(root, row):
            yield compare_row(row, program, answer, beside)


def compare_row(
    row: Row, program: programs.Program, answer: judged.Judged, beside: Mapping[str, int]
) -> Held:
    """Return a row next to its prediction, in the quantity of the row.

    `beside` has what a card's libraries hold next to the pool, in bytes.
    """
    more = beside.get(row.card, 0)
    other = answer.blas_otherwise_bytes and answer.blas_otherwise_bytes + more
    return Held(
        row,
        program,
        answer.predicted_bytes(more),
        answer.failed,
        answer.weights_bytes or 0,
        other,
    )


def describe_row(held: Held) -> str:
    """Return what the table says of a row: predicted and measured MiB, and the error."""
    if held.predicted_bytes is None:
        return f"failed: {held.why_not}"
    predicted = format_mib(held.predicted_bytes, ",.0f")
    measured = format_mib(held.row.bytes, ",.0f")
    error = held.predicted_bytes / held.row.bytes - 1
    return f"{predicted} MiB predicted, {measured} MiB measured, {error:+.1%}"


def ninth(errors: Sequence[float]) -> float:
    """The absolute error that nine of ten rows do not exceed."""
    ordered = sorted(map(abs, errors))
    return ordered[-(-len(ordered) * 9 // 10) - 1]


def with_workspaces(held: Sequence[Held]) -> list[Held]:
    """The same rows as if every program had left cuBLAS its own."""
    return [
        replace(one, predicted_bytes=one.otherwise_bytes)
        if one.otherwise_bytes and not one.program.blas_takes
        else one
        for one in held
    ]


def _errors(held: Iterable[Held], estimator: str) -> list[float]:
    return [error for one in held if (error := one.error(estimator)) is not None]


def _median(errors: Sequence[float]) -> str:
    return f"{statistics.median(map(abs, errors)):.1%}" if errors else "-"


def _bias(errors: Sequence[float]) -> str:
    return f"{statistics.median(errors):+.1%}" if errors else "-"


def in_all(held: Sequence[Held]) -> Table:
    """The goals, and what was reached."""
    trusted = [one for one in held if rules.trust(one.row) in ("high", "good")]
    xmem = [one for one in held if one.row.source == XMEM]
    groups: list[tuple[str, Sequence[Held], str, float | None, float | None]] = [
        ("rows of good or high trust", trusted, OURS, rules.MEDIAN_GOAL, rules.NINTH_GOAL),
        ("xMem's rows", xmem, OURS, rules.XMEM_MEDIAN, rules.XMEM_NINTH),
        *((f"xMem's rows, by {name}", xmem, name, None, None) for name in ESTIMATORS.values()),
    ]
    rows = []
    for name, some, estimator, median_goal, ninth_goal in groups:
        errors = _errors(some, estimator)
        close = sum(abs(e) <= rules.CLOSE for e in errors)
        rows.append(
            (
                name,
                str(len(errors)),
                _median(errors),
                "-" if median_goal is None else f"{median_goal:.1%}",
                f"{ninth(errors):.1%}" if errors else "-",
                "-" if ninth_goal is None else f"{ninth_goal:.1%}",
                _bias(errors),
                f"{close} of {len(errors)}",
            )
        )
    caption = (
        "Relative errors of predicted peaks against measured ones. median and nine of ten: of "
        "absolute errors. bias: the median with its sign. Estimators are held against the rows for "
        "which they have a figure that is no lower bound."
    )
    head = (
        "",
        "rows",
        "median",
        "goal",
        "nine of ten",
        "goal",
        "bias",
        f"within {rules.CLOSE:.0%}",
    )
    return Table.of_text("Predictions against real cards", caption, head, rows, left=1)


def by_family(held: Sequence[Held]) -> Table:
    names = [
        *rules.FAMILIES,
        *dict.fromkeys(one.row.source for one in held if one.row.source != XMEM),
    ]
    rows = []
    for name in names:
        some = [one for one in held if rules.family(one.row) == name]
        if not some:
            continue
        errors = _errors(some, OURS)
        close = sum(abs(e) <= rules.CLOSE for e in errors)
        others = [_median(_errors(some, estimator)) for estimator in ESTIMATORS.values()]
        rows.append(
            (
                name,
                rules.trust(some[0].row),
                str(len(some)),
                _median(errors),
                _bias(errors),
                f"{min(errors):+.1%} to {max(errors):+.1%}",
                str(close),
                *others,
            )
        )
    caption = (
        "Median absolute error of the predicted peak, by family; bias: the median with its sign. "
        "The last columns are what four published estimators say of the same rows."
    )
    head = (
        "family",
        "trust",
        "rows",
        "median",
        "bias",
        "range",
        f"within {rules.CLOSE:.0%}",
        *ESTIMATORS.values(),
    )
    return Table.of_text("Errors by family", caption, head, rows, left=2)


def late_sample(held: Sequence[Held]) -> Table:
    """xMem's rows of images, whose first sample races with the weights: the other end of what it
    may have held.
    """
    rows = []
    for name in rules.FAMILIES:
        some = [
            one
            for one in held
            if rules.family(one.row) == name and not one.row.sequence and one.predicted_bytes
        ]
        if not some:
            continue
        late = [
            replace(one, predicted_bytes=(one.predicted_bytes or 0) - one.weights_bytes)
            for one in some
        ]
        share = statistics.median(one.weights_bytes / one.row.bytes for one in some)
        cells = [
            text
            for group in (some, late)
            for text in (_median(_errors(group, OURS)), _bias(_errors(group, OURS)))
        ]
        rows.append((name, str(len(some)), f"{share:.1%}", *cells))
    caption = (
        "The counter of these rows starts at a first sample, which another thread takes while the "
        "weights move to the card. At the latest it holds all weights: the last columns take them "
        "off each prediction. weights: their share of what was measured, the median. What counts "
        "above is the prediction with them."
    )
    head = ("family", "rows", "weights", "median", "bias", "median, late", "bias, late")
    return Table.of_text("If the first sample came late", caption, head, rows, left=1)


def of_blas(held: Sequence[Held]) -> Table:
    """xMem's rows by what they record, with cuBLAS's workspaces in the pool and without."""
    rows = []
    groups: dict[tuple[str, bool], list[Held]] = {}
    for one in held:
        if one.otherwise_bytes:
            groups.setdefault((one.program.loop, one.program.blas_takes), []).append(one)
    for (loop, takes), some in sorted(groups.items(), reverse=True):
        swapped = [replace(one, predicted_bytes=one.otherwise_bytes) for one in some]
        cells = [
            text
            for group in ((some, swapped) if takes else (swapped, some))
            for text in (_median(_errors(group, OURS)), _equal(group))
        ]
        rows.append(
            (
                loop,
                "recorded" if takes else "not recorded",
                "with" if takes else "without",
                str(len(some)),
                *cells,
            )
        )
    caption = (
        "By whether a row records the position of zero_grad. counts: which of the two the other "
        "tables have, an assumption made after the errors had been seen. median: of absolute "
        "errors. equal: within 2 MiB, the least that a card gives."
    )
    head = (
        "loop",
        "zero_grad",
        "counts",
        "rows",
        "median, with",
        "equal, with",
        "median, without",
        "equal, without",
    )
    return Table.of_text("cuBLAS's workspaces in these rows", caption, head, rows, left=3)


def _equal(held: Sequence[Held]) -> str:
    equal = sum(abs((one.predicted_bytes or 0) - one.row.bytes) <= SMALL_SEGMENT for one in held)
    return f"{equal} of {len(held)}"


def row_by_row(held: Sequence[Held]) -> Table:
    """Every row, whatever its error."""

    def cells(one: Held) -> tuple[str, ...]:
        row = one.row
        signed: Callable[[float | None], str] = lambda e: "-" if e is None else f"{e:+.1%}"  # noqa: E731
        return (
            row.source,
            row.model.rpartition("/")[2],
            row.card.replace("NVIDIA GeForce ", ""),
            row.batch,
            row.optimizer.split(" lr")[0],
            format_mib(row.bytes, ",.0f"),
            format_mib(one.predicted_bytes, ",.0f"),
            "failed" if one.predicted_bytes is None else signed(one.error()),
            signed(one.error(XMEM)),
        )

    caption = (
        "Peaks in MiB (2^20 bytes), in the quantity that the row has. Sources, links and notes of "
        "each row are in studies/published_peaks/data/gpu.csv."
    )
    head = (
        "source",
        "model",
        "card",
        "batch",
        "optimizer",
        "measured",
        "predicted",
        "error",
        "xMem's error",
    )
    failures = tuple(f"{one.row.key}: {one.why_not}" for one in held if one.why_not)
    return Table.of_text(
        "Each row against its prediction",
        caption,
        head,
        tuple(map(cells, held)),
        left=3,
        notes=failures,
    )


def left_out(rows: Sequence[Row]) -> Table:
    """Rows that cannot be written, and why."""
    reasons: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        try:
            programs.program(row)
        except programs.Unwritten as why:
            reasons[row.source, rules.trust(row), str(why)] += 1
    cells = tuple(
        (source, trust, str(count), why) for (source, trust, why), count in reasons.items()
    )
    caption = (
        "A row is predicted where model, shapes, optimizer, precision and loop are known, and the "
        "step is eager PyTorch on one card."
    )
    head = ("source", "trust", "rows", "why")
    return Table.of_text("Measured rows that are not predicted", caption, head, cells, left=4)
