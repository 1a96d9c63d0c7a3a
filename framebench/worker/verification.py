"""Whether a case computed what it should: values and tensors against float64, the optimizer's states counted."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from framebench.adapters.base import Adapter
from framebench.models.spec import OWN
from framebench.suite.case import Case
from framebench.suite.catalog.quantized import moment_bytes
from framebench.suite.protocol import LOSS_STEPS, Reference
from framebench.suite.tensors import Summaries, Summary, errors
from framebench.suite.tolerance import tolerance
from framebench.worker.laziness_check import remembered, unfinished, unrepeated
from framebench.worker.observe import Observed, begin_again, first_steps, output
from framebench.worker.stepping import timed_step

SHOWN_FROM = 8.0  # roundoffs: below them a loss may stay what it was


@dataclass(frozen=True)
class Wanted:
    """What a case is compared with."""

    values: dict[str, float]
    tensors: Summaries
    wider: float = 1.0  # the tolerances are so many times those against float64


@dataclass
class Compared:
    """The tensors of one kind: how many, how many beyond their tolerance, and the worst of them by error over tolerance."""

    count: int
    failed: int
    worst: str
    by: str  # norm or projections
    error: float
    tolerance: float

    @property
    def margin(self) -> float:
        return self.error / self.tolerance


def wanted(case: Case, reference: Reference | None = None) -> Wanted | None:
    """The float64 values, or where there can be none those of another case of the session."""
    key = case.golden_key
    if key in case.spec.golden:
        return Wanted(case.spec.golden[key], comparable(case, case.spec.golden_tensors[key]))
    if reference is not None and case.size in case.spec.without_golden:
        return Wanted(reference.values, reference.tensors, reference.wider)
    return None


def comparable(case: Case, tensors: Summaries) -> Summaries:
    """Without buffers, where each rank has its own: no other tensor depends on them in training."""
    return {kind: summaries for kind, summaries in tensors.items() if kind != "buffer" or not case.normalises_alone}


def verify(adapter: Adapter, observed: Observed, reference: Reference | None = None) -> dict[str, Any]:
    """The fields of a record's verification. Where there are no float64 values, a float32 record of the session stands in; the
    first one, which has nothing to be compared with, must be finite."""
    case = adapter.case
    expected = wanted(case, reference)
    if expected is None:
        return _without_values(case, observed)
    observed.tensors = comparable(case, observed.tensors)
    outcome = compare(case, observed, expected)
    outcome |= {"passed": False, "reason": fault, "known_fault": True} if (fault := adapter.known_fault()) else {}
    if case.workload == OWN and not outcome["passed"]:
        mine, right = (tensors.get("gradient", {}) for tensors in (observed.tensors, expected.tensors))
        wrong = [n for n in mine if n in right and _compare_tensors(case, "gradient", {n: mine[n]}, expected).failed]
        outcome |= {"reason": cause} if (cause := adapter.model_module.cause(adapter, wrong)) else {}
    against = reference.case if reference and expected.wider != 1.0 else case.spec.unconfirmed
    outcome |= {"still": True} if case.still else {}
    return outcome | {"state_bytes": observed.state_bytes} | ({"against": against} if against else {})


def compare(case: Case, observed: Observed, expected: Wanted) -> dict[str, Any]:
    """Values and tensors, each with its error and tolerance."""
    golden = {name: expected.values[name] for name in observed.values}
    error = {name: abs(value - golden[name]) / abs(golden[name]) for name, value in observed.values.items()}
    allowed = {name: expected.wider * _allowance(case, "value", name)[0] for name in observed.values}
    tensors = {
        kind: _compare_tensors(case, kind, of_kind, expected)
        for kind, of_kind in observed.tensors.items()
        if of_kind.keys() == expected.tensors.get(kind, {}).keys()
    }
    if observed.updates:
        tensors["update"] = compare_updates(case, observed.updates, expected.wider)
    margins = [error[name] / allowed[name] for name in error] + [c.margin for c in tensors.values()]
    reason = stray(observed.tensors, expected.tensors)
    states_known = bool(case.optimizer.states) and observed.state_bytes is not None  # of a user's optimizer nothing is
    if not reason and states_known and observed.state_bytes != (size := state_bytes(case, observed)):
        reason = f"the optimizer's states take {observed.state_bytes} bytes instead of {size}"
    return {
        "passed": not reason and all(margin <= 1 for margin in margins),  # NaN fails
        "observed": observed.values,
        "golden": golden,
        "relative_error": error,
        "tolerance": allowed,
        "tensors": {kind: asdict(of_kind) for kind, of_kind in tensors.items()},
        "margin": math.nan if any(map(math.isnan, margins)) else max(margins),
    } | ({"reason": reason} if reason else {})


def _allowance(case: Case, kind: str, name: str) -> tuple[float, float]:
    return tolerance(case.workload, case.framework, case.plan.precision, case.golden_key, kind, name)


def _compare_tensors(case: Case, kind: str, summaries: dict[str, Summary], expected: Wanted) -> Compared:
    summaries = {name: summary for name, summary in summaries.items() if name not in case.spec.incomparable}
    worst, failed = Compared(len(summaries), 0, "", "", 0.0, 1.0), 0
    unseen = _rounded_away(case, expected) if kind == "weight" else {}
    for name, observed in summaries.items():
        off, allowances = errors(observed, expected.tensors[kind][name]), _allowance(case, kind, name)
        if lost := unseen.get(name, 0.0):
            if norm := expected.tensors[kind][name][0]:
                allowances = max(allowances[0], lost / norm), max(allowances[1], lost / norm)
            elif observed[0] <= lost:
                off = 0.0, 0.0
        pairs = zip(("norm", "projections"), off, allowances)
        each = [Compared(len(summaries), 0, name, by, error, expected.wider * allowed) for by, error, allowed in pairs]
        failed += not all(one.margin <= 1 for one in each)
        worst = max(worst, *each, key=lambda one: math.inf if math.isnan(one.error) else one.margin)
    worst.failed = failed
    return worst


def _rounded_away(case: Case, expected: Wanted) -> dict[str, float]:
    """By weight that has a gradient: as much of its change as float32 may lose, as a norm. A bias of 2 whose gradient is a
    millionth does not move at all, or by one unit in its last place."""
    gradients = expected.tensors.get("gradient", {})
    updates = (LOSS_STEPS + 1) ** 0.5  # roundings of one update do not depend on the other's
    return {p.name: updates * 2.0**-24 * p.norm for p in case.spec.params(case.config) if p.name in gradients}


def compare_updates(case: Case, updates: dict[str, float], wider: float) -> Compared:
    """How far weights moved, beside what the textbook makes of the optimizer's states."""
    each = [
        Compared(len(updates), 0, name, "norm", error, wider * _allowance(case, "update", name)[1])
        for name, error in updates.items()
    ]
    worst = max(each, key=lambda one: math.inf if math.isnan(one.error) else one.margin)
    worst.failed = sum(not one.margin <= 1 for one in each)
    return worst


def stray(observed: Summaries, expected: Summaries) -> str:
    """Which tensors are there and should not be, or should be and are not."""
    mismatches = []
    for kind in sorted({*observed, *expected}):
        here, there = observed.get(kind, {}).keys(), expected.get(kind, {}).keys()
        if more := here - there:
            mismatches.append(f"{kind} of {len(more)} tensors that should have none, such as {min(more)}")
        if fewer := there - here:
            mismatches.append(f"no {kind} of {len(fewer)} tensors, such as {min(fewer)}")
    return "; ".join(mismatches)


def state_bytes(case: Case, observed: Observed) -> int:
    """Bytes of the optimizer's states as the textbook has them, as wide as the weights: float32, but for Jittor's `amp_level` 4
    to 6, which turn the weights to float16 too, and for moments that are asked for in bfloat16 or 8 bits."""
    shapes = {p.name: p.shape for p in case.spec.params(case.config)}
    weights = [shapes[name] for name in observed.tensors["gradient"] if name in shapes]  # a stray one is named elsewhere
    precisions = {part.precision for part in case.plan.parts}
    if "8-bit moments" in precisions:
        return len(case.optimizer.states) * sum(moment_bytes(math.prod(shape)) for shape in weights)
    width = {"fp16": 2 if case.framework == "jittor" else 4, "bf16 moment": 3}.get(
        case.plan.precision, 4
    )  # the mean of 2 and 4
    return width * sum(map(case.optimizer.numbers, weights))


def _without_values(case: Case, observed: Observed) -> dict[str, Any]:
    """Strict float32 alone can be a reference for others: another precision has nothing to pass by."""
    if case.size not in case.spec.without_golden:
        reason = f"golden.json has no values for {case.golden_key}; make them: framebench dev golden {case.workload} --missing"
        return {"passed": False, "reason": reason, "observed": observed.values}
    if case.plan.precision != "fp32":
        reason = f"no float64 values for {case.golden_key}, and the session has no float32 record of it to compare with"
        return {"passed": False, "reason": reason, "observed": observed.values}
    numbers = [*observed.values.values(), *(n for kind in observed.tensors.values() for s in kind.values() for n in s)]
    reason = "no float64 values for this size: finite, and the reference of this session's other cases"
    outcome = {"passed": all(map(math.isfinite, numbers)), "reason": reason, "observed": observed.values}
    return outcome | {"summaries": observed.tensors if outcome["passed"] else {}, "state_bytes": observed.state_bytes}


def again(adapter: Adapter, losses: list[float], reference: Reference | None = None) -> dict[str, Any]:
    """Whether what was timed is what was verified: every step gave a new output when its clock stopped, the loss changed with
    every step, and from the first weights the very same step makes all that was verified once more. Without an update, another
    step's output is looked at, after one with other inputs."""
    case, done = adapter.case, adapter.steps
    expected = wanted(case, reference)
    unmoved = sum(a == b for a, b in zip(losses, losses[1:])) if case.stage.trains and moves(case, expected, losses) else 0
    unlike = idle(adapter) or (f"{unmoved} of {len(losses)} steps left the loss as it was" if unmoved else "")
    unlike = unlike or unfinished(adapter) or ("" if case.stage.trains else remembered(adapter))
    if case.stage.trains:
        begin_again(adapter)
        observed = first_steps(adapter)[1]
        unlike = unlike or repeated(adapter, losses, done - len(losses))
    else:
        with adapter.stilled():
            timed_step(adapter)
        observed = output(adapter) if case.stage.observes == "logits" else Observed({"loss": adapter.loss()})
    steps_outcome = {"unmoved_steps": unmoved} | ({"passed": False, "reason": unlike} if unlike else {})
    if expected is None:
        return {"passed": all(map(math.isfinite, observed.values.values()))} | steps_outcome
    tensors = expected.tensors if case.stage.trains else {kind: expected.tensors[kind] for kind in observed.tensors}
    comparison = compare(case, observed, Wanted(expected.values, tensors, expected.wider))
    comparison = {
        name: comparison[name] for name in ("passed", "reason", "relative_error", "tensors", "margin") if name in comparison
    }
    return comparison | steps_outcome


def moves(case: Case, expected: Wanted | None, losses: list[float]) -> bool:
    """Whether a step's loss must differ from the last one's. A user's rate may be so small that the losses' precision does not
    show it: then the weights alone tell that they were updated."""
    if case.workload != OWN or expected is None:
        return True
    first, last = expected.values["loss_0"], expected.values[f"loss_{LOSS_STEPS}"]
    return abs(last - first) > SHOWN_FROM * roundoff_of(losses) * abs(first)


def roundoff_of(losses: list[float]) -> float:
    """Of the narrowest type that has all of them."""
    wide = np.array(losses, np.float32)
    if not (wide.view(np.uint32) & 0xFFFF).any():
        return 2.0**-8  # bfloat16
    return 2.0**-11 if np.array_equal(wide.astype(np.float16).astype(np.float32), wide) else 2.0**-24


def repeated(adapter: Adapter, losses: list[float], first: int) -> str:
    """`first` is the number of the step that gave the first loss. On a device steps are queued together, and not each loss is
    read."""
    verified = LOSS_STEPS + 1
    if adapter.device() != "cpu" or first < verified:
        return ""
    for _ in range(verified, first):
        timed_step(adapter)
    return unrepeated(adapter, losses, _allowance(adapter.case, "value", f"loss_{LOSS_STEPS}")[0])


def idle(adapter: Adapter) -> str:
    """The steps so far that did not give an output as the first one did; empty where there is none."""
    counts = adapter.answers
    steps, alike = counts.total(), next(iter(counts.values()), 0)  # the first step's come first
    return f"{steps - alike} of {steps} steps gave no output as the first one did" if steps > alike else ""
