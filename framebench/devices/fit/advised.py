"""Advice for a device that is not here, as a sentence, a table and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framebench.analysis.comparison import Comparison, format_mib
from framebench.devices.catalog import GIB
from framebench.devices.fit.fitting import Offer, context_of
from framebench.devices.tables.table import NAMES, group_by_reason
from framebench.models.spec import USER_MODEL
from framebench.strategies.strategy import TITLES
from framebench.suite.case import Case

ASSUMED = "jax: what its plans may be off by rests on a few cases of one H200; see docs/devices.md"
HEAD = ("framework", "strategy", "batch", "peak MiB", "of memory", "answer")
INCOMPLETE = (
    "with `to` or `or more`: the search ended after several plans. The first number fits for "
    "certain, and what is beyond the "
    "second is not certain to; a batch that is named, as in .../b512/full, is planned by itself"
)


def write_sentence(offers: Sequence[Offer], batch: int | None) -> str:
    """Return the answer in a sentence.

    Args:
        offers: At least one, the best first.
        batch: The batch that was asked for; None where the offers are at the largest that fits.
    """
    what = describe_model(offers[0].case)
    device = offers[0].device.title
    fitting = [offer for offer in offers if offer.fits]
    if not fitting:
        sentence = f"None of {len(offers)} strategies fits {what} on one {device} for certain."
        sized = [offer for offer in offers if offer.bytes is not None]
        if sized:
            least = min(sized, key=lambda offer: offer.bytes or 0)
            sentence += (
                f" {describe_strategy(least.case)} needs least: {format_mib(least.bytes)} MiB, "
                f"which {least.answer}."
            )
        return sentence
    if batch is not None:
        sentence = (
            f"{len(fitting)} of {len(offers)} strategies fit {what}, batch {batch}, on one "
            f"{device}."
        )
        return f"{sentence} {describe_smallest(fitting)}"
    best = fitting[0]
    sentence = (
        f"{describe_strategy(best.case)} fits the largest batch of {what} on one {device}: "
        f"{describe_batch(best)}."
    )
    baselines = [offer for offer in fitting[1:] if offer.case.strategy == offer.case.stage.baseline]
    if baselines:
        batches = [
            f"{describe_strategy(offer.case)} {describe_batch(offer)}" for offer in baselines
        ]
        sentence += f" Baselines: {' and '.join(batches)}."
    return sentence


def describe_smallest(fitting: Sequence[Offer]) -> str:
    """Return the smallest peak of each framework, of what the baseline computes.

    A plan and a simulation count different things.
    """
    smallest: dict[str, Offer] = {}
    for offer in sorted(fitting, key=lambda offer: offer.bytes or 0):
        if offer.case.same_mathematics:
            smallest.setdefault(offer.case.framework, offer)
    return " ".join(
        f"Least in {TITLES[name]}: {offer.case.strategy}, {format_mib(offer.bytes)} MiB."
        for name, offer in smallest.items()
    )


def describe_model(case: Case) -> str:
    """Return workload, scenario and size in words."""
    if case.workload == USER_MODEL:
        return f"{case.size} {case.scenario}"
    return f"{case.workload} {case.scenario}, size {case.size}"


def describe_parameters(case: Case) -> str:
    """Return such as `355 M parameters, 1,024 tokens a sequence`; nothing of a user's own model."""
    if case.workload == USER_MODEL:
        return ""
    parameters = f" The model has {case.spec.parameter_count(case.config) / 1e6:,.0f} M parameters"
    length = getattr(case.config, "length", None)
    return f"{parameters}, {length:,} tokens a sequence." if length else f"{parameters}."


def describe_batch(offer: Offer) -> str:
    """Return the batch, and what may fit too."""
    if offer.complete or not offer.fits:
        return f"{offer.batch}"
    return (
        f"{offer.batch} or more" if offer.below is None else (f"{offer.batch} to {offer.below - 1}")
    )


def describe_strategy(case: Case) -> str:
    """Return such as `PyTorch's checkpoint`."""
    return f"{TITLES[case.framework]}'s {case.strategy}"


def make_table(
    offers: Sequence[Offer], batch: int | None, left_out: Mapping[str, str]
) -> Comparison:
    """Return a table in the order of the offers, with why others were left out below it."""
    first = offers[0]
    title = (
        f"{describe_model(first.case)}, "
        f"{f'batch {batch}' if batch else 'largest batch that fits'}, on one "
    )
    rows = [make_cells(offer) for offer in offers if offer.bytes is not None]
    return Comparison.of_text(
        title + first.device.title,
        write_caption(offers),
        HEAD,
        rows,
        left=2,
        notes=tuple(write_notes(offers, left_out)),
    )


def write_caption(offers: Sequence[Offer]) -> str:
    """Return what the answers allow for."""
    first = offers[0]
    context = ""
    if first.device.kind == "gpu":
        least, most = (f"{size / 2**20:,.0f}" for size in context_of(first.device))
        context = (
            f" Beside the peak a CUDA context takes {least} to {most} MiB. What `fits` does so "
            f"with {most}; what `does not "
            f"fit` does not even with {least}."
        )
    allowed = ", ".join(
        sorted({f"{offer.error:.1%} in {TITLES[offer.case.framework]}" for offer in offers})
    )
    return (
        f"Predicted, not measured; nothing is said of speed.{describe_parameters(first.case)} "
        "There are "
        f"{first.memory / GIB:,.2f} GiB.{context} Answers allow for a prediction that is off by "
        f"{allowed}. How far predictions "
        "were off: docs/devices.md."
    )


def write_notes(offers: Sequence[Offer], left_out: Mapping[str, str]) -> list[str]:
    """Return what to know of the table, each note once."""
    notes = []
    if any(offer.fits and not offer.complete for offer in offers):
        notes.append(INCOMPLETE)
    for offer in offers:
        notes += [f"{offer.case.framework}: {missing}" for missing in offer.planned.not_held]
    notes += [ASSUMED for offer in offers if offer.case.framework == "jax"]
    for offer in offers:
        notes += [f"{offer.case.id}: {note}" for note in offer.planned.notes]
    # micro-batches are what samples are normalized over
    others = [
        offer.case
        for offer in offers
        if offer.case.plan.same_loss and not offer.case.same_mathematics
    ]
    if others:
        names = ", ".join(dict.fromkeys(case.strategy for case in others))
        notes.append(
            f"{names}: batch norm sees one micro-batch, for another gradient, so it is not "
            "counted: framebench claims 'B9'"
        )
    reasons = {f"{o.case.framework} {o.case.strategy}": o.answer for o in offers if o.bytes is None}
    notes += group_by_reason({**reasons, **left_out})
    return list(dict.fromkeys(notes))


def make_cells(offer: Offer) -> tuple[str, ...]:
    """Return a row of the table."""
    strategy = offer.case.strategy
    if not offer.case.same_mathematics:
        strategy += " (other mathematics)"
    share = f"{(offer.bytes or 0) / offer.memory:.1%}"
    answer = f"{offer.answer} ({NAMES[offer.planned.source or '']})"
    return (
        offer.case.framework,
        strategy,
        describe_batch(offer),
        format_mib(offer.bytes),
        share,
        answer,
    )


def as_json(offers: Sequence[Offer], left_out: Mapping[str, str]) -> dict[str, Any]:
    """Return the offers for programs; sizes are in bytes."""
    device = offers[0].device
    least, most = context_of(device)
    rows = []
    for offer in offers:
        rows.append(
            {
                "case": offer.case.id,
                "fits": offer.fits,
                "answer": offer.answer,
                "peak_bytes": offer.planned.peak_bytes,
                "needs_bytes": offer.planned.needs_bytes,
                "source": offer.planned.source,
                "allowed_error": offer.error,
                "next_batch_was_tried": offer.complete,
                "not_certain_from": offer.below,
            }
        )
    return {
        "device": device.name,
        "memory_bytes": device.memory_bytes,
        "budget_bytes": offers[0].budget,
        "context_bytes": {"least": least, "most": most},
        "offers": rows,
        "left_out": dict(left_out),
    }
