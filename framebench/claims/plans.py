"""Numbers of a card that is not here: what `framebench predict --device` has planned at full size, with its published error.

A measured peak lies between predicted / (1 + e) and predicted / (1 - e): e is the error that nine of ten judged rows are within
(PyTorch), or one that a card of our own has not exceeded (JAX), as docs/devices.md says. Nothing is assumed of how the errors
of two predictions go together, so that a ratio's interval has both against it. It holds nine times of ten, not nineteen of
twenty.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from framebench.claims.rule import Effect
from framebench.devices.fit.fitting import read_cached
from framebench.devices.plans.planned import Planned

Quantity = Literal["peak", "added", "kept"]
CARD = "h100-80gb"


@dataclass(frozen=True)
class Plan:
    """What one case needs there, in bytes."""

    file: Path
    version: str
    error: float  # the share that it may be off by
    peak: int = 0
    standing: int = 0  # of it, alive between two steps
    in_use: int = 0  # at the most, without what the allocator keeps beside
    kept: int = 0  # of it, for the backward pass and not yet free; zero where the plan does not tell
    reason: str = ""  # why there is no number


def kept(results: Path) -> dict[str, Plan]:
    """Return the published plans for the card, by case."""
    return {case: _plan(*cached) for case, cached in read_cached(results, CARD).items()}


def _plan(planned: Planned, file: Path, error: float) -> Plan:
    if planned.peak_bytes is None:
        return Plan(file, planned.framework_version, error, reason=f"{planned.outcome}: {planned.reason}")
    parts, peak = planned.parts, planned.peak_bytes
    standing = parts["between_steps"] if "between_steps" in parts else parts["arguments"]
    return Plan(
        file, planned.framework_version, error, peak, standing, parts.get("allocated", peak), parts.get("activations", 0)
    )


def planned_ratio(change: Plan, base: Plan, quantity: Quantity) -> Effect:
    (low, value, high), (base_low, base_value, base_high) = (bounds(plan, quantity) for plan in (change, base))
    return Effect(value / base_value, low / base_high, high / base_low)


def bounds(plan: Plan, quantity: Quantity) -> tuple[float, float, float]:
    """What will be measured: the least, what is planned, the most."""
    down, up = 1 / (1 + plan.error), 1 / (1 - plan.error)
    if quantity in ("peak", "kept"):
        planned = plan.peak if quantity == "peak" else plan.kept
        return planned * down, planned, planned * up
    least, most = (plan.in_use * one - plan.standing * other for one, other in ((down, up), (up, down)))
    return max(least, 1.0), plan.in_use - plan.standing, most


def reported_file(results: Path, release: str) -> Path:
    return results / "planned_reports" / CARD / f"jax-{release}.json"


def reported(results: Path, release: str, program: str) -> dict[str, int]:
    """Bytes by variant of a program that users reported, as this release's compiler plans it; empty without a plan."""
    try:
        found = json.loads(reported_file(results, release).read_bytes())["programs"].get(program, {})
    except OSError:
        return {}
    parts = {name: [plan[part] or 0 for part in ("arguments", "outputs", "temporaries")] for name, plan in found.items()}
    return {name: sum(sizes) - (found[name]["aliased"] or 0) for name, sizes in parts.items()}
