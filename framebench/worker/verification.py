"""Verify in the measured process that a case computed what it should, in its own precision.

Losses, gradients, updated weights, buffers, optimizer states and outputs are compared with float64 references,
within tolerances that are measured on the spot (`tolerances.py`). Whether the mathematics is right to the last
digit is decided in float64, in a process of its own (`mathematics.py`).
"""

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
from framebench.worker.laziness_check import remembered, unfinished, unrepeated
from framebench.worker.observe import Observed, begin_again, first_steps, output
from framebench.worker.stepping import timed_step
from framebench.worker.tolerances import FACTOR, FLOAT32_ROUNDOFF, Tolerances

# A gradient below this share of all gradients together is nothing but rounding in float32, as that of a bias before a norm
# is. Its size says nothing, and that of its moments neither.
NEGLIGIBLE = 2.0**-20
SHOWN_FROM = 8.0  # roundoffs: a loss may stay what it was if an update moves it by less


@dataclass
class TensorComparison:
    """The tensors of one kind: how many, how many beyond their tolerance, and the worst by error over tolerance."""

    count: int
    failed: int
    worst: str
    by: str  # norm or projections
    error: float
    tolerance: float

    @property
    def margin(self) -> float:
        """Return the error in units of its tolerance: above 1 it is wrong."""
        return self.error / self.tolerance


def find_reference(case: Case, other: Reference | None = None) -> Reference | None:
    """Return the float64 values of a case, or where there are none those of another case of the session."""
    if case.golden_key in case.spec.golden:
        values = case.spec.golden[case.golden_key]
        return Reference("", values, comparable(case, case.spec.golden_tensors[case.golden_key]))
    if other is not None and case.size in case.spec.without_golden:
        return other
    return None


def comparable(case: Case, tensors: Summaries) -> Summaries:
    """Leave out buffers where each rank has its own: no other tensor depends on them in training."""
    if not case.normalises_alone:
        return tensors
    return {kind: summaries for kind, summaries in tensors.items() if kind != "buffer"}


def verify(adapter: Adapter, observed: Observed, tolerances: Tolerances, other: Reference | None = None) -> dict[str, Any]:
    """Compare the first steps with the reference, and return the fields of a record's verification.

    Where there are no float64 values, `other`, a float32 record of the session, stands in. The first such
    record has nothing to be compared with and must be finite.
    """
    case = adapter.case
    reference = find_reference(case, other)
    if reference is None:
        return verify_finite(case, observed)
    observed.tensors = comparable(case, observed.tensors)
    outcome = compare(case, observed, reference, tolerances)
    fault = adapter.known_fault()
    if fault:
        outcome |= {"passed": False, "reason": fault, "known_fault": True}
    if case.workload == OWN and not outcome["passed"]:
        cause = adapter.model_module.cause(adapter, wrong_gradients(observed, reference, tolerances))
        if cause:
            outcome["reason"] = cause
    against = reference.case or case.spec.unconfirmed
    if against:
        outcome["against"] = against
    if case.still:
        outcome["still"] = True
    outcome["state_bytes"] = observed.state_bytes
    return outcome


def wrong_gradients(observed: Observed, reference: Reference, tolerances: Tolerances | None) -> list[str]:
    """Return the names of the gradients that are beyond their tolerance."""
    if tolerances is None:
        return []
    names = []
    expected = reference.tensors.get("gradient", {})
    for name, summary in observed.tensors.get("gradient", {}).items():
        if name in expected and max(errors(summary, expected[name])) > tolerances.of_tensor("gradient", name):
            names.append(name)
    return names


def compare(case: Case, observed: Observed, reference: Reference, tolerances: Tolerances) -> dict[str, Any]:
    """Compare every value and tensor. Return each error with its tolerance, and the largest of their ratios."""
    golden = {name: reference.values[name] for name in observed.values}
    error = {name: abs(value - golden[name]) / abs(golden[name]) for name, value in observed.values.items()}
    allowed = {name: tolerances.of_value(name) for name in observed.values}
    comparisons = {}
    for kind, summaries in observed.tensors.items():
        if summaries.keys() == reference.tensors.get(kind, {}).keys():
            comparisons[kind] = compare_tensors(case, kind, summaries, reference, tolerances)
    if observed.updates:
        comparisons["update"] = compare_updates(observed.updates, tolerances)
    margins = [error[name] / allowed[name] for name in error]
    margins += [comparison.margin for comparison in comparisons.values()]
    reason = mismatched_tensors(observed.tensors, reference.tensors) or wrong_state_bytes(case, observed)
    outcome = {
        "passed": not reason and all(margin <= 1 for margin in margins),  # NaN fails
        "observed": observed.values,
        "golden": golden,
        "relative_error": error,
        "tolerance": allowed,
        "tensors": {kind: asdict(comparison) for kind, comparison in comparisons.items()},
        "margin": math.nan if any(map(math.isnan, margins)) else max(margins),
    }
    if reason:
        outcome["reason"] = reason
    return outcome


def compare_tensors(
    case: Case, kind: str, observed: dict[str, Summary], reference: Reference, tolerances: Tolerances
) -> TensorComparison:
    """Compare the tensors of one kind, and keep the worst."""
    left_out = {*case.spec.incomparable, *negligible(reference)}
    names = [name for name in observed if name not in left_out]
    lost = lost_in_storage(case, reference) if kind == "weight" else {}
    comparisons = []
    for name in names:
        expected = reference.tensors[kind][name]
        tolerance, error_pair = tolerances.of_tensor(kind, name), errors(observed[name], expected)
        if name in lost and expected[0]:
            tolerance = max(tolerance, FACTOR * lost[name] / expected[0])
        elif name in lost and observed[name][0] <= FACTOR * lost[name]:
            error_pair = (0.0, 0.0)
        for by, error in zip(("norm", "projections"), error_pair):
            comparisons.append(TensorComparison(len(names), 0, name, by, error, tolerance))
    return worst_of(comparisons)


def negligible(reference: Reference) -> set[str]:
    """Return the weights whose gradient is nothing but rounding, in the first step or in the moments after the second."""
    names = set()
    for kind in ("gradient", "momentum", "first moment"):
        norms = {name: summary[0] for name, summary in reference.tensors.get(kind, {}).items()}
        total = math.hypot(*norms.values())
        names |= {name for name, norm in norms.items() if 0 < norm < NEGLIGIBLE * total}
    return names


def lost_in_storage(case: Case, reference: Reference) -> dict[str, float]:
    """Return by weight the norm of what storing it in float32 may lose of its change.

    Each update is rounded to the weight's last place: a bias of 2 whose gradient is a millionth hardly moves, or
    does not move at all. A weight without a gradient must stay.
    """
    gradients = reference.tensors.get("gradient", {})
    updates = (LOSS_STEPS + 1) ** 0.5  # roundings of one update do not depend on the other's
    lost = {}
    for param in case.spec.params(case.config):
        if param.name in gradients:
            lost[param.name] = updates * FLOAT32_ROUNDOFF * param.norm
    return lost


def compare_updates(updates: dict[str, float], tolerances: Tolerances) -> TensorComparison:
    """Compare how far weights moved with what the textbook makes of the optimizer's states."""
    comparisons = []
    for name, error in updates.items():
        comparisons.append(TensorComparison(len(updates), 0, name, "norm", error, tolerances.update))
    return worst_of(comparisons)


def worst_of(comparisons: list[TensorComparison]) -> TensorComparison:
    """Return the comparison with the largest margin, with the number of tensors that failed."""
    if not comparisons:
        return TensorComparison(0, 0, "", "", 0.0, 1.0)

    def margin(comparison: TensorComparison) -> float:
        return math.inf if math.isnan(comparison.error) else comparison.margin

    worst = max(comparisons, key=margin)
    worst.failed = len({each.worst for each in comparisons if not each.margin <= 1})
    return worst


def mismatched_tensors(observed: Summaries, expected: Summaries) -> str:
    """Say which tensors exist and should not, or should and do not. Empty if all are as expected."""
    mismatches = []
    for kind in sorted({*observed, *expected}):
        here, there = observed.get(kind, {}).keys(), expected.get(kind, {}).keys()
        if more := here - there:
            mismatches.append(f"{kind} of {len(more)} tensors that should have none, such as {min(more)}")
        if fewer := there - here:
            mismatches.append(f"no {kind} of {len(fewer)} tensors, such as {min(fewer)}")
    return "; ".join(mismatches)


def wrong_state_bytes(case: Case, observed: Observed) -> str:
    """Say by how much the optimizer's states differ in size from the textbook's. Empty if they do not."""
    if not case.optimizer.states or observed.state_bytes is None:  # nothing is known of a user's optimizer
        return ""
    size = state_bytes(case, observed)
    if observed.state_bytes == size:
        return ""
    return f"the optimizer's states take {observed.state_bytes} bytes instead of {size}"


def state_bytes(case: Case, observed: Observed) -> int:
    """Return the bytes of the optimizer's states as the textbook has them.

    They are as wide as the weights: float32, but for Jittor's `amp_level` 4 to 6, which turn the weights to
    float16 too, and for moments that are asked for in bfloat16 or in 8 bits.
    """
    shapes = {p.name: p.shape for p in case.spec.params(case.config)}
    # a gradient of an unknown tensor is reported by `mismatched_tensors`
    weights = [shapes[name] for name in observed.tensors["gradient"] if name in shapes]
    precisions = {part.precision for part in case.plan.parts}
    if "8-bit moments" in precisions:
        return len(case.optimizer.states) * sum(moment_bytes(math.prod(shape)) for shape in weights)
    width = 4
    if case.plan.precision == "fp16" and case.framework == "jittor":
        width = 2
    if case.plan.precision == "bf16 moment":
        width = 3  # the mean of a first moment in 2 bytes and a second in 4
    return width * sum(case.optimizer.numbers(shape) for shape in weights)


def verify_finite(case: Case, observed: Observed) -> dict[str, Any]:
    """Accept strict float32 that is finite as the reference of the session's other cases.

    Another precision has nothing to pass by.
    """
    if case.size not in case.spec.without_golden:
        command = f"framebench dev golden {case.workload} --missing"
        reason = f"golden.json has no values for {case.golden_key}; make them: {command}"
        return {"passed": False, "reason": reason, "observed": observed.values}
    if case.plan.precision != "fp32":
        reason = f"no float64 values for {case.golden_key}, and the session has no float32 record of it to compare with"
        return {"passed": False, "reason": reason, "observed": observed.values}
    numbers = list(observed.values.values())
    for summaries in observed.tensors.values():
        for summary in summaries.values():
            numbers += summary
    passed = all(map(math.isfinite, numbers))
    reason = "no float64 values for this size: finite, and the reference of this session's other cases"
    return {
        "passed": passed,
        "reason": reason,
        "observed": observed.values,
        "summaries": observed.tensors if passed else {},
        "state_bytes": observed.state_bytes,
    }


def verify_again(
    adapter: Adapter, losses: list[float], tolerances: Tolerances, other: Reference | None = None
) -> dict[str, Any]:
    """Verify that what was timed is what was verified.

    Every step gave a new output when its clock stopped, the loss changed with every step, and from the first
    weights the very same step gives all that was verified again. Without an update, another step's output is
    looked at, after one with other inputs.
    """
    case = adapter.case
    steps_before = adapter.steps - adapter.restored_at - len(losses)  # updates before the first of these losses
    reference = find_reference(case, other)
    unmoved = 0
    if case.stage.trains and must_move(case, reference, losses):
        unmoved = sum(one == next_one for one, next_one in zip(losses, losses[1:]))
    reason = idle(adapter)
    if not reason and unmoved:
        reason = f"{unmoved} of {len(losses)} steps left the loss as it was"
    reason = reason or unfinished(adapter)
    if not reason and not case.stage.trains:
        reason = remembered(adapter)
    if case.stage.trains:
        begin_again(adapter)
        observed = first_steps(adapter)[1]
        reason = reason or repeated(adapter, losses, steps_before, tolerances)
    else:
        with adapter.stilled():
            timed_step(adapter)
        observed = output(adapter) if case.stage.observes == "logits" else Observed({"loss": adapter.loss()})
    outcome: dict[str, Any] = {"passed": True}
    if reference is None:
        outcome["passed"] = all(map(math.isfinite, observed.values.values()))
    else:
        tensors = reference.tensors
        if not case.stage.trains:
            tensors = {kind: reference.tensors[kind] for kind in observed.tensors}
        comparison = compare(case, observed, Reference(reference.case, reference.values, tensors), tolerances)
        for name in ("passed", "reason", "relative_error", "tensors", "margin"):
            if name in comparison:
                outcome[name] = comparison[name]
    outcome["unmoved_steps"] = unmoved
    if reason:
        outcome |= {"passed": False, "reason": reason}
    return outcome


def must_move(case: Case, reference: Reference | None, losses: list[float]) -> bool:
    """Say whether a step's loss must differ from the last one's.

    A user's rate may be so small that the losses' precision does not show it. Then the weights alone tell that
    they were updated.
    """
    if case.workload != OWN or reference is None:
        return True
    first, last = reference.values["loss_0"], reference.values[f"loss_{LOSS_STEPS}"]
    return abs(last - first) > SHOWN_FROM * narrowest_roundoff(losses) * abs(first)


def narrowest_roundoff(losses: list[float]) -> float:
    """Return the roundoff of the narrowest type that holds all of these numbers."""
    wide = np.array(losses, np.float32)
    if not (wide.view(np.uint32) & 0xFFFF).any():
        return 2.0**-8  # bfloat16
    if np.array_equal(wide.astype(np.float16).astype(np.float32), wide):
        return 2.0**-11
    return 2.0**-24


def repeated(adapter: Adapter, losses: list[float], steps_before: int, tolerances: Tolerances) -> str:
    """Say why the timed steps, made a second time, differ from what they gave. Empty if they do not.

    On a device steps are queued together, and not each loss is read.
    """
    verified = LOSS_STEPS + 1
    if adapter.device() != "cpu" or steps_before < verified:
        return ""
    for _ in range(verified, steps_before):
        timed_step(adapter)
    return unrepeated(adapter, losses, tolerances.of_value(f"loss_{LOSS_STEPS}"))


def idle(adapter: Adapter) -> str:
    """Say how many of the steps so far gave no output as the first one did. Empty where all did."""
    counts = adapter.answers
    steps = counts.total()
    alike = next(iter(counts.values()), 0)  # the first step's count comes first
    return f"{steps - alike} of {steps} steps gave no output as the first one did" if steps > alike else ""
