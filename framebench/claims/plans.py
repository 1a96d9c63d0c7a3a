"""Read what `framebench predict --device` has planned at full size, with the error of its kind.

A measured peak lies between predicted * (1 + low) and predicted * (1 + high), which are the ends of
the interval that predictions of this kind have (docs/devices.md). The errors of two predictions may
have opposite signs, so the interval of a ratio has room for both. It holds nine times of ten, not
nineteen of twenty. A number has no interval where too few peaks of its kind were measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from framebench.claims.rule import Effect, NoNumber
from framebench.devices.needs import ErrorInterval
from framebench.devices.plans import store
from framebench.devices.plans.planned import Planned
from framebench.devices.releases.reported import Reported
from framebench.records.pins import find_pinned_version
from framebench.records.store import BadRecord, read_model

# added: the peak less what is alive between two steps; activations: saved for the backward pass
PlannedQuantity = Literal["peak", "added", "activations", "weights"]
GPU = "h100-80gb"
PLANNED_FRAMEWORKS = ("torch", "jax")  # whose cases can be planned for a GPU that is not here


@dataclass(frozen=True)
class Plan:
    """The bytes that one case needs on the GPU."""

    file: Path
    interval: ErrorInterval  # how far predictions of this kind were off
    peak: int = 0
    standing: int = 0  # alive between two steps
    in_use: int = 0  # at the peak, without what the allocator keeps in reserve
    activations: int = 0  # saved at the peak; zero where the plan does not tell
    weights: int = 0  # with buffers; zero where the plan does not tell
    reason: str = ""  # why there is no number


def read_plans(results: Path) -> dict[str, Plan]:
    """Return the published plans for the GPU by the pinned releases, by case."""
    plans = {}
    for framework in PLANNED_FRAMEWORKS:
        file = store.find_file(results, GPU, framework, find_pinned_version(framework))
        for case, planned in store.read(file).items():
            plans[case] = make_plan(planned, file)
    return plans


def make_plan(planned: Planned, file: Path) -> Plan:
    """Return the plan that was recorded in `file`, without numbers where it has no peak."""
    parts = planned.parts
    peak = planned.peak_bytes
    if peak is None:
        return Plan(file, planned.error_interval, reason=f"{planned.outcome}: {planned.reason}")
    return Plan(
        file,
        planned.error_interval,
        peak=peak,
        # PyTorch's simulation has `between_steps`, XLA's plan has `arguments`
        standing=parts.get("between_steps", parts.get("arguments", 0)),
        in_use=parts.get("allocated", peak),
        activations=parts.get("activations", 0),
        weights=parts.get("weights", 0),
    )


def divide_plans(base: Plan, candidate: Plan, quantity: PlannedQuantity) -> Effect:
    """Return candidate / base, in an interval with room for both errors.

    There is no interval if the error of either is not judged. Raises NoNumber.
    """
    base_bytes = bound_bytes(base, quantity)
    candidate_bytes = bound_bytes(candidate, quantity)
    if base_bytes.value == 0:
        raise NoNumber(f"the plan of the base tells no {quantity}")
    ratio = candidate_bytes.value / base_bytes.value
    is_judged = candidate.interval.is_judged and base.interval.is_judged
    if not is_judged and quantity != "weights":
        return Effect.without_interval(ratio)
    return Effect(
        value=ratio,
        low=candidate_bytes.low / base_bytes.high,
        high=candidate_bytes.high / base_bytes.low,
    )


def bound_bytes(plan: Plan, quantity: PlannedQuantity) -> Effect:
    """Return the planned bytes, from the least to the most that may be measured.

    The bytes of weights have no error: the tensors have the same size on every device.
    """
    if quantity == "weights":
        return Effect.exact(plan.weights)
    down = 1 + plan.interval.low
    up = 1 + plan.interval.high
    if quantity == "added":  # a difference of two numbers that may be off in opposite directions
        least = plan.in_use * down - plan.standing * up
        return Effect(
            value=plan.in_use - plan.standing,
            low=max(least, 1.0),
            high=plan.in_use * up - plan.standing * down,
        )
    planned = plan.activations if quantity == "activations" else plan.peak
    return Effect(value=planned, low=planned * down, high=planned * up)


def find_report(results: Path, release: str) -> Path:
    """Return the file of the programs that users reported, as a release of JAX plans them."""
    return results / "planned_reports" / GPU / f"jax-{release}.json"


def read_report(results: Path, release: str, program: str) -> dict[str, int]:
    """Return the bytes of a program's plan by variant; empty without a plan.

    They are the bytes of arguments, outputs and temporaries. Those of an output that reuses an
    argument's memory (aliased) count once.
    """
    try:
        programs = read_model(Reported, find_report(results, release)).programs
    except BadRecord:
        return {}
    planned = {}
    for variant, plan in programs.get(program, {}).items():
        sizes = (plan.arguments or 0, plan.outputs or 0, plan.temporaries or 0)
        planned[variant] = sum(sizes) - (plan.aliased or 0)
    return planned
