"""Advice for a device that is not here, as a sentence, a table and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framebench.analysis.needs import format_needs
from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn, format_mib
from framebench.devices.catalog import GIB
from framebench.devices.fit.fitting import FitAssessment
from framebench.devices.needs import context_of
from framebench.devices.tables.table import NAMES, describe_errors, group_by_reason
from framebench.models.spec import USER_MODEL
from framebench.strategies.strategy import TITLES
from framebench.suite.case import Case

ASSUMED = "jax: what its plans may be off by rests on a few cases of one H200; see docs/devices.md"
HEAD = (
    "framework",
    TableColumn("strategy", priority=ESSENTIAL),
    "batch",
    "in use MiB",
    "reserved MiB",
    TableColumn("needs MiB", priority=ESSENTIAL),
    TableColumn("of memory", priority=DETAIL),
    TableColumn("answer", priority=ESSENTIAL),
)
INCOMPLETE = (
    "with `to` or `or more`: the search ended after several plans. The first number fits for "
    "certain, and what is beyond the "
    "second is not certain to; a batch that is named, as in .../b512/full, is planned by itself"
)


def write_sentence(assessments: Sequence[FitAssessment], batch: int | None) -> str:
    """Return the answer in a sentence.

    Args:
        assessments: At least one, the best first.
        batch: The requested batch; None where each assessment is at the largest that fits.
    """
    what = describe_model(assessments[0].case)
    device = assessments[0].device.title
    fitting = [assessment for assessment in assessments if assessment.fits]
    if not fitting:
        sentence = f"None of {len(assessments)} strategies fits {what} on one {device} for certain."
        sized = [assessment for assessment in assessments if assessment.bytes is not None]
        if sized:
            least = min(sized, key=lambda assessment: assessment.needs or 0)
            sentence += (
                f" {describe_strategy(least.case)} needs least: {format_needs(least.needs)} MiB; "
                f"it {least.answer}."
            )
        return sentence
    if batch is not None:
        sentence = (
            f"{len(fitting)} of {len(assessments)} strategies fit {what}, batch {batch}, on one "
            f"{device}."
        )
        return f"{sentence} {describe_smallest(fitting)}"
    best = fitting[0]
    sentence = (
        f"{describe_strategy(best.case)} fits the largest batch of {what} on one {device}: "
        f"{describe_batch(best)}."
    )
    batches = []
    for assessment in fitting[1:]:
        case = assessment.case
        if case.strategy == case.stage.baseline:
            batches.append(f"{describe_strategy(case)} {describe_batch(assessment)}")
    if batches:
        sentence += f" Baselines: {' and '.join(batches)}."
    return sentence


def describe_smallest(fitting: Sequence[FitAssessment]) -> str:
    """Return what needs least in each framework, of what the baseline computes.

    Frameworks are not compared, since XLA's plan and a simulation of PyTorch count differently.
    """
    smallest: dict[str, FitAssessment] = {}
    for assessment in sorted(fitting, key=lambda assessment: assessment.needs or 0):
        if assessment.case.same_mathematics:
            smallest.setdefault(assessment.case.framework, assessment)
    sentences = []
    for name, assessment in smallest.items():
        needs = format_needs(assessment.needs)
        sentences.append(
            f"{TITLES[name]} needs least with {assessment.case.strategy}: {needs} MiB."
        )
    return " ".join(sentences)


def describe_model(case: Case) -> str:
    """Return workload, scenario and size in words."""
    if case.workload == USER_MODEL:
        return f"{case.size} {case.scenario}"
    over = f", over {case.ranks} devices" if case.ranks > 1 else ""
    return f"{case.workload} {case.scenario}, size {case.size}{over}"


def describe_parameters(case: Case) -> str:
    """Return such as `355 M parameters, 1,024 tokens a sequence`; nothing of a user's own model."""
    if case.workload == USER_MODEL:
        return ""
    parameters = f" The model has {case.spec.parameter_count(case.config) / 1e6:,.0f} M parameters"
    length = getattr(case.config, "length", None)
    return f"{parameters}, {length:,} tokens a sequence." if length else f"{parameters}."


def describe_batch(assessment: FitAssessment) -> str:
    """Return the largest batch that fits in words, as a range where the search ended early."""
    if assessment.is_exact or not assessment.fits:
        return f"{assessment.batch}"
    if assessment.smallest_not_fitting is None:
        return f"{assessment.batch} or more"
    return f"{assessment.batch} to {assessment.smallest_not_fitting - 1}"


def describe_strategy(case: Case) -> str:
    """Return such as `PyTorch's checkpoint`."""
    return f"{TITLES[case.framework]}'s {case.strategy}"


def make_table(
    assessments: Sequence[FitAssessment], batch: int | None, left_out: Mapping[str, str]
) -> Table:
    """Return a table in the order of the assessments, with why others were left out below it."""
    first = assessments[0]
    title = (
        f"{describe_model(first.case)}, "
        f"{f'batch {batch}' if batch else 'largest batch that fits'}, on one "
    )
    rows = [make_cells(assessment) for assessment in assessments if assessment.bytes is not None]
    return Table.of_text(
        title + first.device.title,
        write_caption(assessments),
        HEAD,
        rows,
        left=2,
        notes=tuple(write_notes(assessments, left_out)),
    )


def write_caption(assessments: Sequence[FitAssessment]) -> str:
    """Return what the answers allow for."""
    first = assessments[0]
    context = ""
    if first.device.kind == "gpu":
        context = f" + {format_mib(context_of(first.device)[1], ',.0f')} MiB of CUDA context"
    allowed = describe_errors(each.planned for each in assessments)
    return (
        f"Predicted, not measured.{describe_parameters(first.case)} There are "
        f"{first.memory / GIB:,.2f} GiB. needs = reserved + the error that predictions had "
        f"({allowed}){context}. How it is predicted: docs/devices.md."
    )


def write_notes(assessments: Sequence[FitAssessment], left_out: Mapping[str, str]) -> list[str]:
    """Return what to know of the table, each note once."""
    notes = []
    if any(assessment.fits and not assessment.is_exact for assessment in assessments):
        notes.append(INCOMPLETE)
    for assessment in assessments:
        notes += [
            f"{assessment.case.framework}: {missing}" for missing in assessment.planned.not_held
        ]
    notes += [ASSUMED for assessment in assessments if assessment.case.framework == "jax"]
    for assessment in assessments:
        notes += [f"{assessment.case.id}: {note}" for note in assessment.planned.notes]
    # micro-batches are what samples are normalized over
    others = []
    for assessment in assessments:
        case = assessment.case
        if case.plan.same_loss and not case.same_mathematics:
            others.append(case.strategy)
    if others:
        names = ", ".join(dict.fromkeys(others))  # each once, in their order
        notes.append(
            f"{names}: batch norm sees one micro-batch, for another gradient, so it is not "
            "counted: framebench claims 'B9'"
        )
    reasons = {}
    for assessment in assessments:
        if assessment.bytes is None:
            case = assessment.case
            reasons[f"{case.framework} {case.strategy}"] = assessment.answer
    notes += group_by_reason({**reasons, **left_out})
    return list(dict.fromkeys(notes))


def make_cells(assessment: FitAssessment) -> tuple[str, ...]:
    """Return a row of the table."""
    strategy = assessment.case.strategy
    if not assessment.case.same_mathematics:
        strategy += " (other mathematics)"
    share = f"{(assessment.needs or 0) / assessment.memory:.1%}"
    answer = f"{assessment.answer} ({NAMES[assessment.planned.source or '']})"
    return (
        assessment.case.framework,
        strategy,
        describe_batch(assessment),
        format_mib(assessment.planned.parts.get("allocated")),
        format_mib(assessment.bytes),
        format_needs(assessment.needs),
        share,
        answer,
    )


def as_json(assessments: Sequence[FitAssessment], left_out: Mapping[str, str]) -> dict[str, Any]:
    """Return the assessments for programs; sizes are in bytes."""
    device = assessments[0].device
    least, most = context_of(device)
    rows = []
    for assessment in assessments:
        rows.append(
            {
                "case": assessment.case.id,
                "fits": assessment.fits,
                "answer": assessment.answer,
                "peak_bytes": assessment.planned.peak_bytes,
                "refused_bytes": assessment.planned.needs_bytes,
                "needs_bytes": assessment.needs,
                "source": assessment.planned.source,
                "error": {"low": assessment.interval.low, "high": assessment.interval.high},
                "next_batch_was_tried": assessment.is_exact,
                "not_certain_from": assessment.smallest_not_fitting,
            }
        )
    return {
        "device": device.name,
        "memory_bytes": device.memory_bytes,
        "budget_bytes": assessments[0].budget,
        "context_bytes": {"least": least, "most": most},
        "offers": rows,
        "left_out": dict(left_out),
    }
