"""`advise --device` and `max-batch --device`: which strategies fit on a device that is not here, and up to which batch.

Predictions alone decide, so nothing is said of speed.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import typer

from framebench.cli.shared import Parts, err, fail, out, say
from framebench.devices.catalog import Device, find
from framebench.devices.fit import advised
from framebench.devices.fit.fitting import ALLOWED, Offer, Search
from framebench.devices.plans import planning, store
from framebench.devices.plans.planned import Planned
from framebench.engine.environments import Environment
from framebench.models.spec import OWN, workload
from framebench.strategies.registry import find as strategy_of
from framebench.strategies.registry import in_use
from framebench.strategies.strategy import TITLES
from framebench.suite.case import DEFAULT_SIZE, FULL_SIZE, Case, UnknownCase
from framebench.suite.selectors import select


def advise_on_device(given: Parts, device: str, budget: int | None, results: Path, as_json: bool) -> bool:
    """Print what fits: at the batch that is named; up to the largest batch, where a size is named and no batch; or at the usual
    batch of the full size. Returns whether nothing does. Raises UnknownCase and UnknownDevice."""
    card = find(device)
    given = _with_size(given)
    cases, left_out = candidates(given, card)
    if not given.strategy:
        say("tried are the usual strategies; name others, such as {offload,adamw_8bit}: `framebench list --strategies` has all")
    if given.batch is not None:
        return fit_on_device(cases, left_out, device, budget, results, as_json)
    say(
        f"Looking for the largest batch of each of {len(cases)} strategies, which takes several plans each"
        f"{_pace(card, results)}. What is kept is not planned again; without that it may take half an hour. At one batch: "
        f"framebench advise '{_asked(given)}' --device {device}"
    )
    searches = [Search(case, card, ALLOWED[case.framework], budget) for case in cases]
    return _show(largest(searches, results), None, left_out, as_json)


def _with_size(given: Parts) -> Parts:
    """Where no size is named that of the published model, at its usual batch unless another is named."""
    sizes = workload(given.workload or "transformer").sizes
    if given.size is not None or FULL_SIZE not in sizes:
        return given
    return given._replace(size=FULL_SIZE, batch=given.batch or sizes[FULL_SIZE].base)


def _asked(given: Parts) -> str:
    """At the usual batch of its size."""
    name, size = given.workload or "transformer", given.size or DEFAULT_SIZE
    batch = workload(name).sizes[size].base
    return f"{name}/{given.framework or '*'}/{given.scenario or 'train'}/{given.strategy or '*'}/b{batch}/{size}"


def fit_on_device(
    cases: Sequence[Case], left_out: Mapping[str, str], device: str, budget: int | None, results: Path, as_json: bool,
    environment: Environment | None = None,
) -> bool:  # fmt: skip
    """The same of these cases at one batch. `environment`: in the place of the pinned one. Raises UnknownDevice."""
    card, allowed = find(device), ALLOWED
    kept = len(planning.find_cached(cases, card, results))
    if kept < len(cases):
        pace = _pace(card, results)
        say(f"{kept} of {len(cases)} cases are kept; others are planned now, {planning.AT_ONCE} at a time{pace}.")
        if batch := _kept_at(cases, card, results):
            say(f"At b{batch} all of them are kept: asked without a batch and a size, that is answered at once.")
    predictions = _plan(cases, card, results, environment)
    offers = [Offer(case, planned, card, allowed[case.framework], budget) for case, planned in zip(cases, predictions)]
    return _show(offers, cases[0].batch, left_out, as_json)


def _kept_at(cases: Sequence[Case], card: Device, results: Path) -> int | None:
    """The usual batch, where all of these cases are kept at it."""
    size = None if cases[0].workload == OWN else cases[0].spec.sizes.get(cases[0].size)
    if size is None or cases[0].size != FULL_SIZE:
        return None
    usual_cases = [replace(case, batch=size.base) for case in cases]
    return size.base if len(planning.find_cached(usual_cases, card, results)) == len(cases) else None


def _show(offers: list[Offer], batch: int | None, left_out: Mapping[str, str], as_json: bool) -> bool:
    offers.sort(key=lambda o: (not o.fits, not o.case.same_mathematics, -o.batch, o.bytes or 0))
    if as_json:
        typer.echo(json.dumps(advised.as_json(offers, left_out), indent=1))
    else:
        out.print(advised.sentence(offers, batch), markup=False, highlight=False, soft_wrap=True)
        advised.table(offers, batch, left_out).terminal(out)
    return not any(o.fits for o in offers)


def usual(scenario: str) -> list[str]:
    """What is tried unless strategies are named: those of the quick profile, and combinations of them."""
    return [name for name in in_use(scenario) if all(part.quick for part in strategy_of(scenario, name).parts)]


def candidates(given: Parts, device: Device) -> tuple[list[Case], dict[str, str]]:
    """Each at the batch that was asked for, or at its smallest; and why the others of those named are left out. Raises
    UnknownCase."""
    workload, scenario, size = given.workload or "transformer", given.scenario or "train", given.size or DEFAULT_SIZE
    named = select(f"{workload}/{given.framework or '*'}/{scenario}/{given.strategy or '*'}/*/{size}")
    if several := sorted({f"{c.workload}/*/{c.scenario}" for c in named})[1:]:
        raise UnknownCase(f"one workload and scenario at a time, not {several[0]} as well")
    at_batch = dict.fromkeys(replace(c, batch=given.batch or c.plan.micro_batches) for c in named)
    cases = [c for c in at_batch if given.strategy or c.strategy in usual(c.scenario)]
    left_out = {case.id: why for case in cases if (why := planning.find_obstacle(case, device))}
    if len(left_out) == len(cases):
        raise UnknownCase("nothing can be predicted: " + "; ".join(f"{case}: {why}" for case, why in left_out.items()))
    return [case for case in cases if case.id not in left_out], left_out if given.strategy else {}


def largest(searches: Sequence[Search], results: Path) -> list[Offer]:
    """Each at the largest batch that fits, or at its smallest. All searches go on together, so that two plans run at a time."""
    while wanted := {case: search for search in searches if (case := search.next())}:
        for case, planned in zip(wanted, _plan(list(wanted), searches[0].device, results)):
            wanted[case].tried[case.batch] = planned
    return [search.offer for search in searches]


def _plan(cases: Sequence[Case], device: Device, results: Path, environment: Environment | None = None) -> list[Planned]:
    """With progress. Interrupted, it ends the command."""
    with err.status(f"{device.title}: {len(cases)} cases") as status:
        count = 0

        def told(planned: Planned, kept: bool) -> None:
            nonlocal count
            count += 1
            status.update(f"{device.title}: {count} of {len(cases)} cases, the last {planned.case}")

        try:
            return planning.plan_all(cases, device, results, say, told, environment=environment)
        except KeyboardInterrupt:
            fail("interrupted; what was planned is kept, and the same command goes on from there", 130)


def _pace(device: Device, results: Path) -> str:
    """How long those that are kept for the device took."""
    took: dict[str, list[float]] = {}
    for planned in store.every(results):
        if planned.device == device.name and planned.outcome == "planned":
            took.setdefault(TITLES[planned.framework], []).append(planned.origin.wall_s)
    each = ", ".join(f"{name} {statistics.median(seconds):.0f} s" for name, seconds in took.items())
    return f"; half of those kept took at most: {each}" if each else ""
