"""State how far predictions are off, by what decides their error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from framebench.analysis.rendering import Table
from framebench.devices.needs import (
    FEWEST_ROWS,
    INTERVALS,
    NOT_PREDICTED,
    STEPS,
    TITLES,
    ErrorInterval,
    Kind,
)
from framebench.devices.plans.answer import AT_MOST
from framebench.devices.plans.planned import Planned
from framebench.suite.case import Case

# switches of strategies that recompute activations
RECOMPUTING = ("checkpoint", "checkpoint_dots")


def tabulate_errors(intervals: Mapping[Kind, ErrorInterval] = INTERVALS) -> Table:
    """Return a table of how far each kind of prediction was off."""
    rows = []
    for kind, interval in intervals.items():
        counts = (str(interval.rows), str(interval.families), str(interval.sources))
        rows.append((TITLES[kind], *counts, *format_error(interval)))
    for name in NOT_PREDICTED:
        rows.append((name, "0", "0", "0", "not predicted, not judged: 0 rows", "-", "-", "-"))
    return Table.of_text(
        "Errors by kind of prediction",
        "rows: measured peaks. median, nine of ten: of absolute errors, over all rows. too low by: "
        "of each family, the error (percent of the prediction) that nine of ten of its rows stay "
        "below; the column has the worst family's. too high by: the same for predictions above the "
        f"measurement. Nothing was fitted to any row. With fewer than {FEWEST_ROWS} rows a kind is "
        "not judged. Computed by studies/prediction_errors.",
        (
            "prediction",
            "rows",
            "families",
            "sources",
            "median",
            "nine of ten within",
            "too low by",
            "too high by",
        ),
        rows,
        left=1,
    )


def format_error(interval: ErrorInterval) -> tuple[str, str, str, str]:
    """Return the cells of an error: median, nine of ten, and by side."""
    if interval.median is None or interval.ninth is None:
        return interval.describe_doubt(), "-", "-", "-"
    return (
        f"{interval.median:.1%}",
        f"{interval.ninth:.1%}",
        f"{interval.high:.1%}",
        f"{abs(interval.low):.1%}",
    )


def tabulate_judged_steps(intervals: Mapping[Kind, ErrorInterval] = INTERVALS) -> Table:
    """Return a table of what the measured peaks of each kind were of."""
    rows = []
    for kind, interval in intervals.items():
        counts = [str(interval.steps[step]) for step in STEPS]
        rows.append((TITLES[kind], str(interval.rows), *counts))
    unseen = [step for step in STEPS if not count_on_one_gpu(intervals, step)]
    missing = f"No row of one GPU is of: {'; '.join(unseen)}. " if unseen else ""
    return Table.of_text(
        "What the measured peaks were of",
        "Rows by what was trained. 32 bits: float32 or TF32. 16 bits: bfloat16 or float16, by "
        "autocast or in the weights. recomputed: activations were checkpointed, all or some. "
        f"{missing}Computed by studies/prediction_errors.",
        ("prediction", "rows", *STEPS),
        rows,
        left=1,
    )


def count_on_one_gpu(intervals: Mapping[Kind, ErrorInterval], step: str) -> int:
    """Return how many measured peaks of one GPU alone are of such a step."""
    several_gpus = ("torch, ranks", "torch, tensor parallel")
    counts = [
        interval.steps[step] for kind, interval in intervals.items() if kind not in several_gpus
    ]
    return sum(counts)


def find_step(case: Case) -> str:
    """Return what the case trains, as STEPS names it: its precision, and whether it recomputes.

    What a file of a user's recomputes by itself is not known here.
    """
    is_narrow = case.strategy_spec.precision in ("bf16", "fp16")
    if case.is_known and case.workload_spec.weight_types:
        is_narrow = True
    step = "16 bits" if is_narrow else "32 bits"
    if any(part.switch in RECOMPUTING for part in case.strategy_spec.parts):
        step += ", recomputed"
    return step


def describe_lack(interval: ErrorInterval, steps: Collection[str]) -> str:
    """Return which of these steps (`STEPS`) no row behind an error was of, or ""."""
    lacking = []
    for step in STEPS:
        if step in steps and not interval.steps.get(step):
            lacking.append(f"'{step}'")
    if not (interval.rows and lacking):
        return ""
    return f", none of a step in {' or '.join(lacking)}"


def describe_errors(predictions: Iterable[Planned]) -> str:
    """Return the error of each kind of prediction that is among these."""
    steps_by_kind: dict[Kind, set[str]] = defaultdict(set)
    is_over_ranks = False
    for planned in predictions:
        if planned.has_answer or AT_MOST in planned.parts:
            case = Case.from_id(planned.case)
            steps_by_kind[planned.kind].add(find_step(case))
            is_over_ranks |= case.ranks > 1
    errors = []
    for kind in sorted(steps_by_kind):
        interval = INTERVALS[kind]
        lack = describe_lack(interval, steps_by_kind[kind])
        errors.append(f"{TITLES[kind]}: {interval.describe()}{lack}")
    if is_over_ranks:
        errors.append(f"{NOT_PREDICTED[0]}: not predicted, not judged: 0 rows")
    return "; ".join(errors)
