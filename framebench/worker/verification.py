"""Verify in the measured process that a case computed what it should, in its own precision.

Losses, gradients, updated weights, buffers, optimizer states and outputs are compared with float64
references, within tolerances that are measured on the spot (`tolerances.py`). Whether the
mathematics is right to the last digit is decided in float64, in a process of its own
(`mathematics.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from framebench.adapters.base import Adapter
from framebench.models.spec import USER_MODEL
from framebench.strategies.quantized import count_moment_bytes
from framebench.suite.case import Case
from framebench.suite.protocol import LOSS_STEPS, Reference, VerifiedBlock
from framebench.suite.result import RepeatedVerification, TensorComparison, Verification
from framebench.suite.tensors import NORM, Summaries, Summary, measure_errors, measure_max_error
from framebench.worker.laziness_check import (
    describe_ignored_inputs,
    describe_late_result,
    describe_other_losses,
)
from framebench.worker.observe import (
    Observed,
    make_first_steps,
    observe_losses,
    observe_output,
    restart,
)
from framebench.worker.stepping import make_timed_step
from framebench.worker.tolerances import (
    DIGITS_LOST,
    FACTOR,
    FLOAT32_ROUNDOFF,
    NO_SIZE,
    ObservedSteps,
    Tolerances,
    allow_rounded_sums,
    list_negligible,
    observe_more,
    observe_steps,
)

SMALLEST_NORMAL = 2.0**-126  # smaller float32 numbers have few digits, or are flushed to zero
SHOWN_FROM = 8.0  # roundoffs: a loss may stay the same if an update changes it by less


def find_reference(case: Case, session_reference: Reference | None = None) -> Reference | None:
    """Return the float64 reference of a case, or None if there is no reference at all.

    For a size without float64 references, it is that of another case of the same session.
    """
    if case.golden_key in case.workload_spec.golden:
        tensors = case.workload_spec.golden_tensors[case.golden_key]
        return Reference(
            case="",
            values=case.workload_spec.golden[case.golden_key],
            tensors=drop_local_buffers(case, tensors),
        )
    if session_reference is not None and case.size in case.workload_spec.without_golden:
        return session_reference
    return None


def drop_local_buffers(case: Case, tensors: Summaries) -> Summaries:
    """Return the tensors without buffers where each rank normalises its own part of the batch.

    In training no other tensor depends on them.
    """
    if not case.normalises_alone:
        return tensors
    return {kind: summaries for kind, summaries in tensors.items() if kind != "buffer"}


def make_verified_steps(
    adapter: Adapter, session_reference: Reference | None = None
) -> tuple[ObservedSteps, Verification]:
    """Make the first steps, and compare them with the reference as `verify` does.

    If a value is beyond its tolerance, the tolerances are measured better, and all values are
    compared again.
    """
    first_steps = observe_steps(adapter)
    verification = verify(adapter, first_steps.observed, first_steps.tolerances, session_reference)
    for measure_better in (observe_more, measure_rounded_sums):
        margin = verification.margin
        # a wider tolerance cannot explain an infinite error
        is_beyond = margin is not None and 1 < margin < math.inf
        if not adapter.can_restore or verification.known_fault or not is_beyond:
            break
        first_steps = measure_better(adapter, first_steps)
        verification = verify(
            adapter, first_steps.observed, first_steps.tolerances, session_reference
        )
    is_wrong = not verification.passed and not verification.known_fault
    if adapter.case.workload == USER_MODEL and adapter.can_restore and is_wrong:
        cause = explain_by_choices(adapter, first_steps.tolerances)
        verification = replace(verification, reason=cause or verification.reason)
    return first_steps, verification


def confirm_first_steps(
    adapter: Adapter, reference: Reference, block: VerifiedBlock
) -> tuple[ObservedSteps, Verification]:
    """Make the first steps and compare their losses with the reference, and nothing else.

    `block` has verified every tensor, and its process ran the same program. This only confirms that
    the program was started as it was there: many wrong steps have the right losses.
    """
    seconds, observed = observe_losses(adapter)
    tolerances = Tolerances(values=block.tolerance, tensors={}, update=math.inf)
    without_tensors = replace(reference, tensors={})
    verification = compare(adapter.case, observed, without_tensors, tolerances)
    verification = replace(
        verification,
        against=describe_source(adapter.case, reference),
        verified_in=block.name,
        still=adapter.case.is_deterministic,
    )
    return ObservedSteps(seconds, observed, tolerances), verification


def describe_source(case: Case, reference: Reference) -> str | None:
    """Return which case or framework made the values, or None if two frameworks agree on them."""
    return reference.case or case.workload_spec.unconfirmed.get(case.golden_key)


def measure_rounded_sums(adapter: Adapter, first_steps: ObservedSteps) -> ObservedSteps:
    """Measure the errors of sums of gradients in a type of 16 bits, and widen tolerances by them.

    Returns the steps with the wider tolerances. The adapter makes its canonical steps again
    afterwards, so that the steps which follow continue from there. Where no gradients are added up
    in such a type nothing changes.
    """
    repeated = adapter.repeat_with_exact_sums(partial(repeat_first_steps, adapter))
    if repeated is None:
        return first_steps
    exact, terms = repeated
    tolerances = allow_rounded_sums(
        adapter.case, first_steps.tolerances, first_steps.observed, exact, terms
    )
    restart(adapter)
    seconds, _ = make_first_steps(adapter)
    return replace(first_steps, tolerances=tolerances, seconds=[*first_steps.seconds, *seconds])


def explain_by_choices(adapter: Adapter, tolerances: Tolerances) -> str:
    """Return which choices rounding changes, if they alone make the first steps wrong, else "".

    Where two scores are nearly alike, a rounded product picks another one, which no tolerance of
    rounding allows for. So the steps are repeated with the choices that float32 makes: they alone
    were at fault if every tensor is right then.
    """
    reference = find_reference(adapter.case)
    if reference is None:
        return ""
    repeated = adapter.repeat_with_exact_choices(partial(repeat_first_steps, adapter))
    if repeated is None:
        return ""
    observed, changed_choices = repeated
    verification = compare(adapter.case, observed, reference, tolerances)
    if not verification.passed:
        return ""
    return f"{changed_choices}; with float32's choices every tensor is within its tolerance"


def repeat_first_steps(adapter: Adapter) -> Observed:
    """Make the first steps again, from the first weights on, and return what is observed."""
    restart(adapter)
    _, observed = make_first_steps(adapter)
    return observed


def verify(
    adapter: Adapter,
    observed: Observed,
    tolerances: Tolerances,
    session_reference: Reference | None = None,
) -> Verification:
    """Compare the first steps with the reference.

    Without float64 values the reference is that of a float32 record of the session. The first such
    record has no reference: its values must only be finite.
    """
    case = adapter.case
    reference = find_reference(case, session_reference)
    if reference is None:
        return verify_finite(case, observed)
    observed.tensors = drop_local_buffers(case, observed.tensors)
    verification = compare(case, observed, reference, tolerances)
    fault = adapter.find_known_fault()
    if fault:
        verification = replace(verification, passed=False, reason=fault, known_fault=True)
    if case.workload == USER_MODEL and not verification.passed:
        cause = explain_wrong_gradients(adapter, observed, reference, tolerances)
        verification = replace(verification, reason=cause or verification.reason)
    return replace(
        verification,
        against=describe_source(case, reference),
        still=case.is_deterministic,
        state_bytes=observed.state_bytes,
    )


def explain_wrong_gradients(
    adapter: Adapter, observed: Observed, reference: Reference, tolerances: Tolerances
) -> str | None:
    """Return the framework's known fault that made gradients of a user's model wrong, or None."""
    names = []
    expected = reference.tensors.get("gradient", {})
    for name, summary in observed.tensors.get("gradient", {}).items():
        if name not in expected:
            continue
        allowed = compute_allowed_error("gradient", name, expected, tolerances)
        if not measure_max_error(summary, expected[name]) <= allowed:
            names.append(name)
    cause: str | None = adapter.model_module.explain_wrong_gradients(adapter, names)
    return cause


def compute_relative_error(value: float, expected: float) -> float:
    """Return the error relative to the expected value; if that is zero, the absolute error."""
    error = abs(value - expected)
    return error / abs(expected) if expected else error


def compare(
    case: Case, observed: Observed, reference: Reference, tolerances: Tolerances
) -> Verification:
    """Compare every value and tensor with the reference.

    The margin is the largest ratio of an error to its tolerance; NaN where an error is NaN.
    """
    golden = {}
    relative_error: dict[str, float | None] = {}
    allowed = {}
    margins = []
    for name, value in observed.values.items():
        golden[name] = reference.values[name]
        error = compute_relative_error(value, golden[name])
        relative_error[name] = error
        allowed[name] = tolerances.values[name]
        margins.append(error / allowed[name])
    comparisons = {}
    for kind, summaries in observed.tensors.items():
        if summaries.keys() == reference.tensors.get(kind, {}).keys():
            comparisons[kind] = compare_tensors(case, kind, summaries, reference, tolerances)
    if observed.updates:
        comparisons["update"] = compare_updates(observed.updates, tolerances)
    margins += [comparison.margin for comparison in comparisons.values()]
    reason = describe_mismatches(observed.tensors, reference.tensors)
    reason = reason or describe_wrong_state_bytes(case, observed)
    return Verification(
        passed=not reason and all(margin <= 1 for margin in margins),  # NaN fails
        reason=reason or None,
        observed=dict(observed.values),
        golden=golden,
        relative_error=relative_error,
        tolerance=allowed,
        tensors=comparisons,
        margin=math.nan if any(map(math.isnan, margins)) else max(margins),
    )


@dataclass(frozen=True)
class TensorError:
    """The relative error of a value or a tensor, with the tolerance that it has to meet."""

    name: str
    error: float
    tolerance: float
    by: str = "norm"  # of a tensor: of its norm, or of its projections

    @property
    def margin(self) -> float:
        """Return the error in units of its tolerance, infinite where it is no number."""
        return math.inf if math.isnan(self.error) else self.error / self.tolerance


def compare_tensors(
    case: Case,
    kind: str,
    observed: dict[str, Summary],
    reference: Reference,
    tolerances: Tolerances,
) -> TensorComparison:
    """Compare the tensors of one kind with the reference, and summarize their errors."""
    left_out = {*case.workload_spec.incomparable, *list_negligible(reference.tensors)}
    storage_loss = estimate_storage_loss(case, reference) if kind == "weight" else {}
    expected = reference.tensors[kind]
    tensor_errors = []
    for name, summary in observed.items():
        if name in left_out:
            continue
        tolerance = compute_allowed_error(kind, name, expected, tolerances)
        tensor_errors += list_tensor_errors(
            name, summary, expected[name], tolerance, storage_loss.get(name)
        )
    return summarize(tensor_errors)


def list_tensor_errors(
    name: str,
    observed: Summary,
    expected: Summary,
    tolerance: float,
    storage_loss: float | None,
) -> list[TensorError]:
    """Return the errors of a tensor's norm and of its projections, relative to its norm.

    `storage_loss` is the norm of the part of a weight's change that may be lost by storing the
    weight in float32; None for other tensors.
    """
    norm_error, projection_error = measure_errors(observed, expected)
    observed_norm = observed[NORM]
    expected_norm = expected[NORM]
    if 0 < expected_norm < SMALLEST_NORMAL and observed_norm < SMALLEST_NORMAL:
        # such as squares of gradients when a model has learned its whole batch
        return [TensorError(name, error=0.0, tolerance=tolerance)]
    if storage_loss is not None:
        if expected_norm:
            tolerance = max(tolerance, FACTOR * storage_loss / expected_norm)
        elif observed_norm <= FACTOR * storage_loss:
            # it should not change, and has changed by no more than the rounding of its storage
            norm_error = projection_error = 0.0
    if tolerance > DIGITS_LOST:
        # with so wide a tolerance only the size can be compared, and that the tensor is not zero
        projection_error = 0.0
        if expected_norm and not observed_norm and storage_loss is None:
            norm_error = math.inf
    return [
        TensorError(name, error=norm_error, tolerance=tolerance),
        TensorError(name, error=projection_error, tolerance=tolerance, by="projections"),
    ]


def compute_allowed_error(
    kind: str, name: str, expected: Mapping[str, Summary], tolerances: Tolerances
) -> float:
    """Return the allowed error of a tensor, relative to its norm.

    `expected` has all tensors of its kind.

    If a tensor changes by its own size when the weights hardly change, it is the remainder of terms
    that cancel. An example is the mean of a convolution whose input has the mean zero: its running
    mean in batch norm is 1e-8 in float32 and 1e-4 in bfloat16, and both are right. The error of
    such a tensor may also be as large as is allowed for a tensor of the usual size.
    """
    tolerance = tolerances.get_for_tensor(kind, name)
    norm = expected[name][NORM]
    if tolerance <= NO_SIZE or not norm:
        return tolerance
    usual = math.hypot(*(summary[NORM] for summary in expected.values())) / len(expected) ** 0.5
    return max(tolerance, tolerances.least * usual / norm)


def estimate_storage_loss(case: Case, reference: Reference) -> dict[str, float]:
    """Return for each weight the norm of the change that storing it in float32 may lose.

    Each update is rounded to the weight's last place: a bias of 2 whose gradient is a millionth
    hardly changes, or not at all. A weight without a gradient must not change.
    """
    gradients = reference.tensors.get("gradient", {})
    updates = (LOSS_STEPS + 1) ** 0.5  # the roundings of several updates are independent
    lost = {}
    for param in case.workload_spec.params(case.config):
        if param.name in gradients:
            lost[param.name] = updates * FLOAT32_ROUNDOFF * param.norm
    return lost


def compare_updates(updates: dict[str, float], tolerances: Tolerances) -> TensorComparison:
    """Compare the changes of weights with the textbook's updates from the optimizer's states."""
    tensor_errors = []
    for name, error in updates.items():
        tensor_errors.append(TensorError(name, error=error, tolerance=tolerances.update))
    return summarize(tensor_errors)


def summarize(tensor_errors: list[TensorError]) -> TensorComparison:
    """Count the tensors and those that are beyond their tolerance, and keep the worst."""
    if not tensor_errors:
        return TensorComparison(count=0, failed=0, worst="", by="", error=0.0, tolerance=1.0)
    worst = max(tensor_errors, key=lambda each: each.margin)
    return TensorComparison(
        count=len({each.name for each in tensor_errors}),
        failed=len({each.name for each in tensor_errors if each.margin > 1}),
        worst=worst.name,
        by=worst.by,
        error=worst.error,
        tolerance=worst.tolerance,
    )


def describe_mismatches(observed: Summaries, expected: Summaries) -> str:
    """Describe the tensors that should not exist, and those that are missing.

    The text is empty if all are as expected.
    """
    mismatches = []
    for kind in sorted({*observed, *expected}):
        observed_names = observed.get(kind, {}).keys()
        expected_names = expected.get(kind, {}).keys()
        extra = observed_names - expected_names
        if extra:
            mismatches.append(
                f"{kind} of {len(extra)} tensors that should have none, such as {min(extra)}"
            )
        missing = expected_names - observed_names
        if missing:
            mismatches.append(f"no {kind} of {len(missing)} tensors, such as {min(missing)}")
    return "; ".join(mismatches)


def describe_wrong_state_bytes(case: Case, observed: Observed) -> str:
    """Describe how the size of the optimizer's states differs from the textbook's.

    The text is empty if it does not.
    """
    # a user's optimizer has unknown states
    if not case.optimizer.states or observed.state_bytes is None:
        return ""
    size = compute_state_bytes(case, observed)
    if observed.state_bytes == size:
        return ""
    return f"the optimizer's states take {observed.state_bytes} bytes instead of {size}"


def compute_state_bytes(case: Case, observed: Observed) -> int:
    """Return the expected bytes of the states of all weights that have a gradient."""
    shapes = {param.name: param.shape for param in case.workload_spec.params(case.config)}
    names = set(observed.tensors["gradient"])
    if case.workload == USER_MODEL:
        # a layer that the first step has dropped has states from a later one on
        for kind in case.optimizer.states:
            names.update(observed.tensors.get(kind, {}))
    complex_names = case.workload_spec.facts.get("complex", ())  # weights of complex numbers
    size = 0
    for name in names:
        if name in shapes:  # a gradient of another tensor is reported by `describe_mismatches`
            numbers = 2 if name in complex_names else 1
            size += numbers * compute_weight_state_bytes(case, shapes[name])
    return size


def compute_weight_state_bytes(case: Case, shape: tuple[int, ...]) -> int:
    """Return the expected bytes of the states of a weight of this shape, by the textbook's formula.

    States are as wide as the weights. These are float32, or float16 with Jittor's `amp_level` 4 to
    6. A strategy may also keep moments in bfloat16 or in 8 bits.
    """
    if any(part.precision == "8-bit moments" for part in case.strategy_spec.parts):
        return len(case.optimizer.states) * count_moment_bytes(math.prod(shape))
    numbers = case.optimizer.count_state_numbers(shape)
    if case.strategy_spec.precision == "bf16 moment":
        return 3 * numbers  # the mean of a first moment in 2 bytes and a second in 4
    if case.strategy_spec.precision == "fp16" and case.framework == "jittor":
        return 2 * numbers
    return 4 * numbers


def verify_finite(case: Case, observed: Observed) -> Verification:
    """Accept finite values of strict float32 as the reference of the session's other cases.

    This is for sizes without float64 references. Any other precision fails, since it has nothing to
    be compared with.
    """
    values = dict[str, float | None](observed.values)
    if case.size not in case.workload_spec.without_golden:
        reason = f"golden.json has no values for {case.golden_key}"
        return Verification(passed=False, reason=reason, observed=values)
    if case.strategy_spec.precision != "fp32":
        reason = (
            f"no float64 values for {case.golden_key}, and the session has no float32 record "
            "of it to compare with"
        )
        return Verification(passed=False, reason=reason, observed=values)
    numbers = list(observed.values.values())
    for summaries in observed.tensors.values():
        for summary in summaries.values():
            numbers += summary
    passed = all(map(math.isfinite, numbers))
    return Verification(
        passed=passed,
        reason="no float64 values for this size: finite, and the reference of this session's "
        "other cases",
        observed=values,
        summaries=observed.tensors if passed else {},
        state_bytes=observed.state_bytes,
    )


def verify_again(
    adapter: Adapter,
    losses: list[float],
    tolerances: Tolerances,
    session_reference: Reference | None = None,
) -> RepeatedVerification:
    """Verify after the timed steps that they computed what was verified before them.

    These are checked, in this order:

    - Each step gave outputs as the first one did.
    - In training each timed step changed the loss, where an update must change it.
    - A step is done when its clock stops.
    - In training the first steps, repeated from the first weights, give all that was verified; on a
      CPU the steps that follow give the losses of the timed steps too.
    - Without an update other inputs give another loss, and a further step with the first inputs
      gives the verified output.
    """
    case = adapter.case
    # between the first weights and the step of the first of these losses; read it before `restart`
    updates_before = adapter.steps - adapter.restored_at - len(losses)
    reference = find_reference(case, session_reference)
    timed = check_timed_steps(adapter, losses, reference)
    reason = timed.reason
    if case.scenario_spec.trains:
        restart(adapter)
        _, observed = make_first_steps(adapter)
        reason = reason or describe_unrepeated(adapter, losses, updates_before, tolerances) or None
    else:
        reason = reason or describe_ignored_inputs(adapter) or None
        observed = repeat_evaluation(adapter)
    again = compare_again(case, observed, reference, tolerances)
    if reason:
        again = replace(again, passed=False, reason=reason)
    return replace(again, unmoved_steps=timed.unmoved_steps)


def check_timed_steps(
    adapter: Adapter, losses: list[float], reference: Reference | None
) -> RepeatedVerification:
    """Check that each timed step did its work in its time; the first steps are not run again."""
    unmoved_steps = 0
    if adapter.case.scenario_spec.trains and must_move(adapter.case, reference, losses):
        unmoved_steps = count_unmoved(losses)
    reason = describe_other_outputs(adapter)
    if unmoved_steps and not reason:
        reason = f"{unmoved_steps} of {len(losses)} steps left the loss as it was"
    reason = reason or describe_late_result(adapter)
    return RepeatedVerification(
        passed=not reason, reason=reason or None, unmoved_steps=unmoved_steps
    )


def repeat_evaluation(adapter: Adapter) -> Observed:
    """Make a further step without an update, and return its output: logits, or only the loss."""
    with adapter.disable_randomness():
        make_timed_step(adapter)
    if adapter.case.scenario_spec.observes == "logits":
        return observe_output(adapter)
    return Observed({"loss": adapter.loss()})


def compare_again(
    case: Case, observed: Observed, reference: Reference | None, tolerances: Tolerances
) -> RepeatedVerification:
    """Compare the values of the repeated first steps with the reference.

    Without an update only the output is looked at.
    """
    if reference is None:
        return RepeatedVerification(passed=all(map(math.isfinite, observed.values.values())))
    tensors = reference.tensors
    if not case.scenario_spec.trains:
        tensors = {kind: reference.tensors[kind] for kind in observed.tensors}
    reference = replace(reference, tensors=tensors)
    comparison = compare(case, observed, reference, tolerances)
    return RepeatedVerification(
        passed=comparison.passed,
        reason=comparison.reason,
        relative_error=comparison.relative_error,
        tensors=comparison.tensors,
        margin=comparison.margin,
    )


def must_move(case: Case, reference: Reference | None, losses: list[float]) -> bool:
    """Return whether each step must change the loss.

    It need not in a user's model that adds gradients up over several steps, or whose learning rate
    is so small that an update moves the loss by less than `SHOWN_FROM` roundoffs. There only the
    weights show that they were updated.
    """
    if case.workload != USER_MODEL or reference is None:
        return True
    if case.workload_spec.update_period > 1:
        return False
    first_loss, last_loss = reference.values["loss_0"], reference.values[f"loss_{LOSS_STEPS}"]
    return abs(last_loss - first_loss) > SHOWN_FROM * find_narrowest_roundoff(losses) * abs(
        first_loss
    )


def count_unmoved(losses: list[float]) -> int:
    """Return how many steps left the loss as it was, though the step before or after moved it.

    Near a minimum losses repeat, but then the steps before and after hardly move them either. If no
    step moves the loss visibly, every step that leaves it as it was counts.
    """
    values = np.array(losses)
    changes = np.abs(np.diff(values))
    is_visible = changes > SHOWN_FROM * find_narrowest_roundoff(losses) * np.abs(values[:-1])
    is_unmoved = changes == 0
    if is_visible.any():
        neighbour_is_visible = np.zeros_like(is_visible)
        neighbour_is_visible[1:] |= is_visible[:-1]
        neighbour_is_visible[:-1] |= is_visible[1:]
        is_unmoved &= neighbour_is_visible
    return int(is_unmoved.sum())


def find_narrowest_roundoff(losses: list[float]) -> float:
    """Return the roundoff of the narrowest type that holds all of these numbers."""
    wide = np.array(losses, np.float32)
    if not (wide.view(np.uint32) & 0xFFFF).any():
        return 2.0**-8  # bfloat16
    if np.array_equal(wide.astype(np.float16).astype(np.float32), wide):
        return 2.0**-11
    return 2.0**-24


def describe_unrepeated(
    adapter: Adapter, losses: list[float], updates_before: int, tolerances: Tolerances
) -> str:
    """Repeat the steps up to the first timed one, and say how the losses that follow differ.

    The text is empty if they do not differ, and on a GPU: there steps are queued together and not
    every loss is read, so nothing can be compared.
    """
    verified = adapter.workload.update_period + LOSS_STEPS
    if adapter.device() != "cpu" or updates_before < verified:
        return ""
    for _ in range(verified, updates_before):
        make_timed_step(adapter)
    return describe_other_losses(adapter, losses, tolerances.values[f"loss_{LOSS_STEPS}"])


def describe_other_outputs(adapter: Adapter) -> str:
    """Describe how many of the steps so far set more or fewer outputs than the first step.

    The text is empty if all set as many.
    """
    counts = adapter.outputs_per_step
    steps = counts.total()
    alike = next(iter(counts.values()), 0)  # the first step's count comes first
    if steps == alike:
        return ""
    return f"{steps - alike} of {steps} steps gave more or fewer outputs than the first"
