"""Advice for a device that is not here, as a sentence, a table and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from framebench.analysis.comparison import Comparison, mib
from framebench.devices.catalog import GIB
from framebench.devices.fit.fitting import Offer, context
from framebench.devices.tables.table import NAMES, by_reason
from framebench.models.spec import OWN
from framebench.strategies.strategy import TITLES
from framebench.suite.case import Case

ASSUMED = "jax: what its plans may be off by rests on a few cases of one H200; see docs/devices.md"
HEAD = ("framework", "strategy", "batch", "peak MiB", "of memory", "answer")
MORE = (
    "with `to` or `or more`: the search ended after several plans. The first number fits for certain, and what is beyond the "
    "second is not certain to; a batch that is named, as in .../b512/full, is planned by itself"
)


def sentence(offers: Sequence[Offer], batch: int | None) -> str:
    """The answer first. `offers`: at least one, the best first, at the batch that was asked for or at the largest that fits."""
    what, device = _what(offers[0]), offers[0].device.title
    fitting = [o for o in offers if o.fits]
    if not fitting:
        least = min((o for o in offers if o.bytes is not None), key=lambda o: o.bytes or 0, default=None)
        closest = f" {_short(least)} needs least: {mib(least.bytes)} MiB, which {least.answer}." if least else ""
        return f"None of {len(offers)} strategies fits {what} on one {device} for certain.{closest}"
    if batch is not None:
        return f"{len(fitting)} of {len(offers)} strategies fit {what}, batch {batch}, on one {device}. {_leanest(fitting)}"
    best, plain = fitting[0], [o for o in fitting[1:] if o.case.strategy == o.case.stage.baseline]
    baselines = " and ".join(f"{_short(o)} {_batch(o)}" for o in plain)
    beside = f" Baselines: {baselines}." if baselines else ""
    return f"{_short(best)} fits the largest batch of {what} on one {device}: {_batch(best)}.{beside}"


def _leanest(fitting: Sequence[Offer]) -> str:
    """Of each framework, since a plan and a simulation count different things, and of what the baseline computes."""
    least: dict[str, Offer] = {}
    for o in sorted((o for o in fitting if o.case.same_mathematics), key=lambda o: o.bytes or 0):
        least.setdefault(o.case.framework, o)
    return " ".join(f"Least in {TITLES[name]}: {o.case.strategy}, {mib(o.bytes)} MiB." for name, o in least.items())


def _what(offer: Offer) -> str:
    workload, scenario, size = offer.case.workload, offer.case.scenario, offer.case.size
    return f"{size} {scenario}" if workload == OWN else f"{workload} {scenario}, size {size}"


def _model(case: Case) -> str:
    """`355 M parameters, 1,024 tokens a sequence`; nothing of a user's own."""
    if case.workload == OWN:
        return ""
    sequence = f", {length:,} tokens a sequence" if (length := getattr(case.config, "length", None)) else ""
    return f" The model has {case.spec.parameter_count(case.config) / 1e6:,.0f} M parameters{sequence}."


def _batch(offer: Offer) -> str:
    if offer.complete or not offer.fits:
        return f"{offer.batch}"
    return f"{offer.batch} or more" if offer.below is None else f"{offer.batch} to {offer.below - 1}"


def _short(offer: Offer) -> str:
    return f"{TITLES[offer.case.framework]}'s {offer.case.strategy}"


def table(offers: Sequence[Offer], batch: int | None, left_out: Mapping[str, str]) -> Comparison:
    """In the order of the offers."""
    device, memory = offers[0].device, offers[0].memory
    least, most = (f"{size / 2**20:,.0f}" for size in context(device))
    beside = (
        f" Beside the peak a CUDA context takes {least} to {most} MiB. What `fits` does so with {most}; what `does not fit` "
        f"does not even with {least}."
        if device.kind == "gpu"
        else ""
    )
    allowed = ", ".join(sorted({f"{o.error:.1%} in {TITLES[o.case.framework]}" for o in offers}))
    caption = (
        f"Predicted, not measured; nothing is said of speed.{_model(offers[0].case)} There are {memory / GIB:,.2f} GiB.{beside}"
        f" Answers allow for a prediction that is off by {allowed}. How far predictions were off: docs/devices.md."
    )
    notes = (
        *dict.fromkeys(MORE for o in offers if o.fits and not o.complete),
        *dict.fromkeys(f"{o.case.framework}: {each}" for o in offers for each in o.planned.not_held),
        *dict.fromkeys(ASSUMED for o in offers if o.case.framework == "jax"),
        *(f"{o.case.id}: {note}" for o in offers for note in o.planned.notes),
        *_of_batch_norm(offers),
        *by_reason({f"{o.case.framework} {o.case.strategy}": o.answer for o in offers if o.bytes is None} | dict(left_out)),
    )
    title = f"{_what(offers[0])}, {f'batch {batch}' if batch else 'largest batch that fits'}, on one {device.title}"
    return Comparison.of_text(
        title, caption, HEAD, tuple(_cells(o) for o in offers if o.bytes is not None), left=2, notes=notes
    )


def _of_batch_norm(offers: Sequence[Offer]) -> Iterator[str]:
    """Where micro-batches are what samples are normalised over."""
    cases = [o.case for o in offers if o.case.plan.same_loss and not o.case.same_mathematics]
    if names := ", ".join(dict.fromkeys(case.strategy for case in cases)):
        yield f"{names}: batch norm sees one micro-batch, for another gradient, so it is not counted: framebench claims 'B9'"


def _cells(o: Offer) -> tuple[str, ...]:
    share = f"{(o.bytes or 0) / o.memory:.1%}"
    answer = f"{o.answer} ({NAMES[o.planned.source or '']})"
    other = " (other mathematics)" if not o.case.same_mathematics else ""
    return o.case.framework, f"{o.case.strategy}{other}", _batch(o), mib(o.bytes), share, answer


def as_json(offers: Sequence[Offer], left_out: Mapping[str, str]) -> dict[str, Any]:
    """For programs; bytes are bytes."""
    device = offers[0].device
    least, most = context(device)
    return {
        "device": device.name, "memory_bytes": device.memory_bytes, "budget_bytes": offers[0].budget,
        "context_bytes": {"least": least, "most": most},
        "offers": [
            {
                "case": o.case.id, "fits": o.fits, "answer": o.answer, "peak_bytes": o.planned.peak_bytes,
                "needs_bytes": o.planned.needs_bytes, "source": o.planned.source, "allowed_error": o.error,
                "next_batch_was_tried": o.complete, "not_certain_from": o.below,
            }
            for o in offers
        ],
        "left_out": dict(left_out),
    }  # fmt: skip
