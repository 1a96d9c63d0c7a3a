"""Check in float64 that the step of a strategy computes the right mathematics.

`python -m framebench.worker.mathematics '{"cases": [...], "file": "..."}'`

The strategy's own step, with its switches, runs in double precision: two updates, or one
evaluation. Each of its tensors is compared with the reference. In float64 a right step agrees to
some 1e-11, whatever the processor, the library and the order of its sums are, and a wrong one does
not: an epsilon of 1e-4 for 1e-5 in a single batch norm is off by 3e-5. So one bound serves all, and
no table of machines is needed.

The suite's cases are computed at the smallest size and compared with the stored references, which
two frameworks agree on. A user's model is compared with its own baseline in float64, at a small
batch, and how far its tensors may be off is measured there too: the baseline is repeated from
weights that are perturbed by some hundred thousand roundoffs of float64. That also shows which
gradients are nothing but rounding, and these are left out.

A lower precision that the strategy asks for does not apply to float64. So casts are not seen here,
but by the coarse check of the measured process (`tolerances.py`). A case that cannot run in float64
is reported with its reason.
"""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.instruments import limits
from framebench.records.lines import append_lines
from framebench.suite.case import Case
from framebench.suite.protocol import ChecksResult, Reference
from framebench.suite.result import Mathematics, to_json
from framebench.suite.selectors import parse
from framebench.suite.tensors import measure_max_error
from framebench.worker.observe import Observed, make_first_steps, restart
from framebench.worker.tolerances import RUNS, Tolerances, derive_tolerances, observe_perturbed
from framebench.worker.verification import (
    TensorError,
    compute_relative_error,
    describe_mismatches,
    drop_local_buffers,
    explain_wrong_gradients,
    find_reference,
)
from framebench.worker.worker import Emit, serve

# Relative to a tensor's norm. References are written only if PyTorch and JAX agree as closely (`dev
# golden`). Right steps are off by some 1e-11, and those of Adafactor by up to 4e-8, since entries
# that are nothing but rounding scale its updates.
TOLERANCE = 1e-7
PERTURBATION = 2.0**-36  # of a user's weights, relative: 130,000 roundoffs of float64
# a tensor whose tolerance in float64 is larger has no digits that could be compared
DETERMINED = 1e-3
# Precisions whose arithmetic is the strategy itself: in float64 there would be nothing left of it.
QUANTIZED = {
    "int8": "multiplies whole numbers of 8 bits",
    "int8 weights": "keeps weights in 8 bits",
    "8-bit moments": "keeps the optimizer's moments in 8 bits",
    "bf16 moment": "keeps the optimizer's first moment in bfloat16",
}


@dataclass
class Baseline:
    """The baseline of a user's model in float64, which its strategies are compared with.

    A strategy that draws random numbers in another order is compared without them, so there are two
    references.
    """

    case: Case
    # by whether randomness is disabled
    references: dict[bool, tuple[Reference, Tolerances]] = field(default_factory=dict)

    def get_reference(self, deterministic: bool) -> tuple[Reference, Tolerances]:
        """Return the reference and its tolerances, computed at the first call."""
        if deterministic not in self.references:
            self.references[deterministic] = self.compute_reference(deterministic)
        return self.references[deterministic]

    def compute_reference(self, deterministic: bool) -> tuple[Reference, Tolerances]:
        """Return the observed baseline and the tolerances that perturbed weights give it.

        Raises NarrowModel.
        """
        adapter = load_float64_adapter(self.case)
        adapter.deterministic = deterministic
        adapter.build()
        narrow = adapter.find_narrow_result()
        if narrow:
            raise NarrowModel(f"{narrow} has a result narrower than float64 whatever it is given")
        perturbed_runs = []
        for seed in range(RUNS):
            _, perturbed = observe_perturbed(adapter, seed, PERTURBATION)
            perturbed_runs.append(perturbed)
        restart(adapter)
        _, observed = make_first_steps(adapter)
        reference = Reference(self.case.id, observed.values, observed.tensors)
        tolerances = derive_tolerances(
            observed,
            perturbed_runs,
            TOLERANCE,
            left_out=self.case.workload_spec.incomparable,
            by_family=False,
        )
        return reference, tolerances


class NarrowModel(Exception):
    """The model rounds to a narrower type by itself: float64 would show no more than float32."""


def check_in_float64(
    case: Case,
    baseline: Baseline | None = None,
    prepare: Callable[[Adapter], object] | None = None,
) -> Mathematics:
    """Compute the case's first steps in float64, and compare them with the reference.

    The reference is the `baseline`, or without one the stored values. `prepare` is called with the
    adapter once it is built: studies plant bugs with it. Raises MemoryError and OSError.
    """
    reason = explain_uncheckable(case)
    if reason:
        return make_uncomputed(case, reason)
    try:
        if baseline:
            reference, tolerances = baseline.get_reference(case.is_deterministic)
        else:
            stored = find_reference(case)
            if stored is None:
                reason = f"there are no float64 references for {case.golden_key}"
                return make_uncomputed(case, reason)
            reference, tolerances = stored, None  # one tolerance holds for all of them
        adapter = load_float64_adapter(case)
        adapter.build()
        if prepare:
            prepare(adapter)
        _, observed = make_first_steps(adapter)
    except (MemoryError, OSError):
        raise  # this machine fails at this moment, and not the strategy
    except Exception as error:  # an operator that the framework lacks may raise anything
        if limits.is_out_of_memory(error, limits.is_enforced()):
            raise
        if limits.FULL_DISK.search(str(error)):  # a framework's own error, such as XLA's
            raise
        message = " ".join(str(error).split())[:300]
        if not isinstance(error, NarrowModel):
            message = f"{type(error).__name__}: {message}"
        return make_uncomputed(case, f"the step does not run in float64: {message}")
    observed.tensors = drop_local_buffers(case, observed.tensors)
    outcome = compare(case, observed, reference, tolerances)
    if tolerances and not outcome.passed:  # of a user's model
        cause = explain_wrong_gradients(adapter, observed, reference, tolerances)
        outcome = replace(outcome, reason=cause or outcome.reason)
    return outcome


def load_float64_adapter(case: Case) -> Adapter:
    """Return an adapter that computes in float64.

    The memory of the case before is released. Imported objects are frozen, so that Python's
    collector need not look through a framework's hundred thousand objects each time.
    """
    adapter = adapters.load_frozen(case)
    adapter.float64 = True
    gc.collect()
    return adapter


def explain_uncheckable(case: Case) -> str:
    """Return why the case is not computed in float64, or "" if it is."""
    for part in case.strategy_spec.parts:
        if part.precision in QUANTIZED:
            return f"{part.name} {QUANTIZED[part.precision]}"
    if case.ranks > 1:
        return "the check runs in one process, and this case in several"
    return ""


def make_uncomputed(case: Case, reason: str) -> Mathematics:
    """Return the outcome of a case that cannot be decided in float64."""
    return Mathematics(case.id, computed=False, passed=True, reason=reason)


def compare(
    case: Case, observed: Observed, reference: Reference, tolerances: Tolerances | None = None
) -> Mathematics:
    """Compare every value and tensor with the reference.

    `tolerances` says how far each may be off. If it is None, TOLERANCE holds for all.
    """
    all_errors = list_errors(case, observed, reference, tolerances)
    compared = [each for each in all_errors if each.tolerance <= DETERMINED]
    reason = describe_mismatches(observed.tensors, reference.tensors)
    if not compared:
        if reason:
            return Mathematics(case.id, computed=True, passed=False, reason=reason)
        return make_uncomputed(
            case, "rounding moves every tensor of the step by more than could be compared"
        )
    worst = max(compared, key=lambda each: each.margin)
    if not reason and not worst.error <= worst.tolerance:  # NaN fails
        reason = (
            f"{worst.name} is off by {worst.error:.1e} in float64, where at most "
            f"{worst.tolerance:.0e} is rounding"
        )
    return Mathematics(
        case.id,
        computed=True,
        passed=not reason,
        reason=reason or None,
        tensors=len(compared),
        worst=worst.name,
        error=worst.error if math.isfinite(worst.error) else None,
        tolerance=worst.tolerance,
    )


def list_errors(
    case: Case, observed: Observed, reference: Reference, tolerances: Tolerances | None
) -> list[TensorError]:
    """Return the error of every value, and of every tensor that has a reference."""
    errors = []
    tolerance = TOLERANCE
    for name, value in observed.values.items():
        error = compute_relative_error(value, reference.values[name])
        if tolerances:
            tolerance = tolerances.values[name]
        errors.append(TensorError(name, error, tolerance))
    for kind, summaries in observed.tensors.items():
        expected = reference.tensors.get(kind, {})
        for name, summary in summaries.items():
            if name not in expected or name in case.workload_spec.incomparable:
                continue
            error = measure_max_error(summary, expected[name])
            if tolerances:
                tolerance = tolerances.get_for_tensor(kind, name)
            errors.append(TensorError(f"{kind} of {name}", error, tolerance))
    return errors


def check_all(orders: dict[str, Any], emit: Emit) -> ChecksResult:
    """Check the cases one after the other, and append a line of JSON to the file for each.

    The cases of a user's model are compared with their baseline, which the orders then name. If
    the process dies, the file has the cases before.
    """
    file = Path(orders["file"])
    names = orders["cases"]
    baseline = None
    if orders.get("baseline"):
        baseline = Baseline(Case.from_id(orders["baseline"]))
    for number, name in enumerate(names, 1):
        emit({"phase": f"mathematics in float64, {number} of {len(names)}"})
        case = Case.from_id(name) if baseline else parse(name)
        outcome = check_in_float64(case, baseline)
        try:
            append_lines([json.dumps({name: to_json(outcome)})], file)
        except OSError as error:  # no fault of the case, which would count as not computed
            return {"errno": error.errno or 0}
        emit({"checked": name})
    return {}


if __name__ == "__main__":
    serve(check_all)
