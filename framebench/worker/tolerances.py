"""Measure on the spot how far a step may be off in its own precision.

A step that computes the right mathematics is still off from the reference: every operation rounds,
and a network amplifies some of these errors by orders of magnitude. By how much depends on the
model, its weights and its batch, and on nothing that a table could know of the next processor.

So the measured process repeats its verified steps from weights that are perturbed by `PERTURBATION`
of the precision, several times what the precision itself rounds by. How far losses, gradients,
updated weights and optimizer states move is what rounding may explain, with room to spare. The
check is coarse on purpose: whether the mathematics is right is decided in float64
(`mathematics.py`); here a step must only be distinguished from one that computes something else.
"""

from __future__ import annotations

import gc
import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.suite.case import Case
from framebench.suite.tensors import NORM, Summaries, Summary, measure_distance, name_family
from framebench.worker.observe import Observed, make_first_steps, restart

# Relative size of the perturbation of each weight, by the precision of the strategy. Its unit
# roundoff is 2^-24 for float32, 2^-11 for float16 and TensorFloat-32, 2^-9 for bfloat16, about 2^-8
# for int8 and for the codes of 8-bit optimizers. float32 gets a thousand roundoffs: sums over a
# million terms, added up in another order, lose tens of them, and a ReLU whose input lies near zero
# must have a chance to switch.
PERTURBATION = {
    "fp32": 2.0**-14,
    "tf32": 2.0**-8,
    "fp16": 2.0**-8,
    "bf16": 2.0**-6,
    "bf16 moment": 2.0**-8,
    "8-bit moments": 2.0**-14,  # of the rest of the step: see LEAST_OF_CODED_MOMENTS
    "int8 weights": 2.0**-5,
    "int8": 2.0**-5,
}
FLOAT32_ROUNDOFF = 2.0**-24
FACTOR = 4.0  # a tolerance is the largest response to the perturbation, multiplied by this
# A gradient below this share of all gradients together is nothing but rounding in float32, as that
# of a bias before a norm is. Its size says nothing, and that of its moments neither.
NEGLIGIBLE = 2.0**-20
# A tensor whose tolerance is above DIGITS_LOST has no digit left that a comparison could trust. The
# gradient of a bias that nearly cancels is the case in point: a perturbation of the weights keeps
# the cancellation, and rounding does not, so its responses say little. (XLA's U-Net
# in bfloat16 is off by 54 % in one bias on every instruction set; the responses gave it a tolerance
# of 80 % with AVX-512 and of 33 % with SSE4.2.) Only its size is compared then, coarsely, and that
# it is not zero.
DIGITS_LOST = 2.0**-2
SIZE_ALONE = 1 - 2.0**-4
# A tensor whose tolerance is above NO_SIZE may be off by its own size: it is what is left where
# terms cancel.
NO_SIZE = 1.0
# How far an update may be from what the textbook makes of the optimizer's own states: kernels
# approximate the root of the second moment, and a first moment in bfloat16 is rounded after it was
# used.
UPDATE = 2.0**-10
UPDATE_BY_ROUNDED_MOMENTS = 2.0**-6
# Moments in 8 bits are off by some 4 % of their norm, and the weights that are updated by them by 2
# %, whatever the model is: a code has two significant digits. No weight decay moves them by 10 %.
LEAST_OF_CODED_MOMENTS = 2.0**-4
# A perturbation is so many roundoffs, but for float32's and those of quantized types.
ROUNDOFFS = 8
RUNS = 2  # perturbed repetitions; only one if a step is slow
SLOW_S = 2.0
# Two repetitions may leave a number where it was by chance: a student's divergence from its teacher
# is a small difference of large terms, and an activation next to the corner of a hard-swish may
# stay on its side. Before anything is called wrong there are so many repetitions, however slow a
# step is: how fast the machine is must not decide.
RUNS_BEFORE_WRONG = 8


@dataclass(frozen=True)
class Tolerances:
    """The largest errors that rounding explains, relative to the reference's norm or value."""

    values: Mapping[str, float]
    tensors: Mapping[str, Mapping[str, float]]  # kind -> group of tensors
    update: float
    # kind -> of a tensor that is in no group
    usual: Mapping[str, float] = field(default_factory=dict)
    least: float = 0.0  # the perturbation: no tolerance is below it
    by_family: bool = True  # the tensors of a family are one group; else each is its own

    def get_for_tensor(self, kind: str, name: str) -> float:
        """Return the tolerance of a tensor's norm and of its projections."""
        group = name_family(name) if self.by_family else name
        return self.tensors[kind].get(group, self.usual[kind])


@dataclass(frozen=True)
class PerturbedCase(Case):
    """A case whose weights are each off by another share of the perturbation."""

    seed: int = 0
    perturbation: float = 0.0

    @classmethod
    def perturb(cls, case: Case, seed: int, perturbation: float) -> PerturbedCase:
        """Copy a case, with the perturbation that its weights get."""
        parts = {part.name: getattr(case, part.name) for part in fields(Case)}
        return cls(**parts, seed=seed, perturbation=perturbation)

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Return the canonical weights, perturbed. Whole numbers stay unchanged.

        A perturbation that float32 would round away makes float64 weights, for a step in float64.
        """
        rng = np.random.default_rng(self.seed)
        perturbed = {}
        for name, array in super().weights.items():
            if not np.issubdtype(array.dtype, np.inexact):
                perturbed[name] = array
                continue
            shares = rng.uniform(-1.0, 1.0, array.shape)
            # a product of arrays without an axis is a scalar of NumPy, which frameworks refuse
            moved = np.asarray(array * (1.0 + self.perturbation * shares))
            if self.perturbation >= FLOAT32_ROUNDOFF:
                moved = moved.astype(array.dtype)
            perturbed[name] = moved
        return perturbed


@dataclass(frozen=True)
class ObservedSteps:
    """The observations of the canonical first steps, their tolerances, and all steps' seconds."""

    seconds: list[float]
    observed: Observed
    tolerances: Tolerances
    perturbed_runs: tuple[Observed, ...] = ()


def observe_steps(adapter: Adapter) -> ObservedSteps:
    """Make the steps that are verified, and measure how far they may be off.

    Perturbed steps come first where the adapter can go back to its first weights, so that the steps
    which follow continue from the canonical ones.
    """
    perturbation = PERTURBATION[find_precision(adapter.case)]
    seconds: list[float] = []
    perturbed_runs: list[Observed] = []
    if not adapter.can_restore:
        seconds, observed = make_first_steps(adapter)
        perturbed_runs.append(observe_rebuilt(adapter, perturbation))
    else:
        for seed in range(RUNS):
            run_seconds, perturbed = observe_perturbed(adapter, seed, perturbation)
            seconds += run_seconds
            perturbed_runs.append(perturbed)
            if run_seconds[-1] > SLOW_S:
                break
        restart(adapter)
        run_seconds, observed = make_first_steps(adapter)
        seconds += run_seconds
    tolerances = compute_tolerances(adapter.case, observed, perturbed_runs)
    return ObservedSteps(seconds, observed, tolerances, tuple(perturbed_runs))


def observe_more(adapter: Adapter, earlier: ObservedSteps) -> ObservedSteps:
    """Repeat the perturbed steps until there are RUNS_BEFORE_WRONG, and widen the tolerances.

    Returns the steps with all repetitions; `earlier` has fewer. The adapter must be one that can go
    back to its first weights. It makes its canonical steps again afterwards, so that the steps
    which follow continue from there; what was observed stays what it was.
    """
    perturbation = PERTURBATION[find_precision(adapter.case)]
    seconds = list(earlier.seconds)
    perturbed_runs = list(earlier.perturbed_runs)
    for seed in range(len(perturbed_runs), RUNS_BEFORE_WRONG):
        run_seconds, perturbed = observe_perturbed(adapter, seed, perturbation)
        seconds += run_seconds
        perturbed_runs.append(perturbed)
    restart(adapter)
    run_seconds, _ = make_first_steps(adapter)
    seconds += run_seconds
    tolerances = compute_tolerances(adapter.case, earlier.observed, perturbed_runs)
    return ObservedSteps(seconds, earlier.observed, tolerances, tuple(perturbed_runs))


def compute_tolerances(
    case: Case, observed: Observed, perturbed_runs: list[Observed]
) -> Tolerances:
    """Return the tolerances of a measured case, from its perturbed runs and its precision."""
    precision = find_precision(case)
    least = least_of_tensors = PERTURBATION[precision]
    update = UPDATE
    if precision == "bf16 moment":
        update = UPDATE_BY_ROUNDED_MOMENTS
    elif precision == "8-bit moments":
        least_of_tensors = LEAST_OF_CODED_MOMENTS
    return derive_tolerances(
        observed,
        perturbed_runs,
        least,
        update=update,
        least_of_tensors=least_of_tensors,
        left_out={*case.workload_spec.incomparable, *list_negligible(observed.tensors)},
    )


def allow_rounded_sums(
    case: Case, tolerances: Tolerances, observed: Observed, exact: Observed, terms: int
) -> Tolerances:
    """Return tolerances that also allow the errors of sums of gradients in a type of 16 bits.

    They were measured: `exact` is the observation of the same steps with sums in float32. What is
    within its tolerance there is within the wider one here, since distances add up.

    A sum of `terms` numbers may be off by as many roundoffs of their absolute sum. The sum itself
    may be smaller, as terms cancel, for which it gets `FACTOR`. An error beyond that has another
    cause, and widens nothing; nor does any if the first losses differ, since sums of gradients
    change no forward pass before an update.
    """
    first_loss, exact_loss = observed.values["loss_0"], exact.values["loss_0"]
    if abs(exact_loss - first_loss) > FLOAT32_ROUNDOFF * abs(first_loss):
        return tolerances
    roundoff = PERTURBATION[find_precision(case)] / ROUNDOFFS
    limit = FACTOR * terms * roundoff
    values = dict(tolerances.values)
    for name, value in observed.values.items():
        error = abs(value - exact.values[name])
        if value and error <= limit * abs(value):
            values[name] += error / abs(value)
    tensors: dict[str, dict[str, float]] = {}
    for kind, allowed in tolerances.tensors.items():
        # what follows from gradients may have their square
        kind_limit = limit if kind == "gradient" else 2 * limit
        moved = find_largest_responses(
            observed.tensors[kind],
            [exact.tensors.get(kind, {})],
            case.workload_spec.incomparable,
            by_family=tolerances.by_family,
        )
        tensors[kind] = dict(allowed)
        for group, error in moved.items():
            if group in allowed and error <= kind_limit:
                tensors[kind][group] += error
    return replace(tolerances, values=values, tensors=tensors)


def find_precision(case: Case) -> str:
    """Return the precision that a case rounds in.

    The precision is the strategy's, but for a user's file that casts to a narrower type by itself.
    """
    precision = case.strategy_spec.precision
    if precision == "fp32" and case.workload_spec.facts.get("narrow"):
        return "bf16"
    return precision


def observe_perturbed(
    adapter: Adapter, seed: int, perturbation: float
) -> tuple[list[float], Observed]:
    """Make the first steps from perturbed weights; return the seconds of each, and their results.

    The step is the one that was compiled for the weights themselves.
    """
    case = adapter.case
    adapter.case = PerturbedCase.perturb(case, seed, perturbation)
    try:
        restart(adapter)
        return make_first_steps(adapter)
    finally:
        adapter.case = case


def observe_rebuilt(adapter: Adapter, perturbation: float) -> Observed:
    """Make the first steps from perturbed weights in another adapter, which is freed afterwards."""
    rebuilt = adapters.load(PerturbedCase.perturb(adapter.case, seed=0, perturbation=perturbation))
    rebuilt.float64 = adapter.float64
    rebuilt.deterministic = adapter.deterministic
    rebuilt.build()
    _, observed = make_first_steps(rebuilt)
    # the callback that counts collections is by now that of `rebuilt`, and would keep it alive
    adapter.start_counting_collections()
    del rebuilt
    gc.collect()  # proofs count what is in memory
    return observed


def derive_tolerances(
    observed: Observed,
    perturbed_runs: list[Observed],
    least: float,
    *,
    update: float = UPDATE,
    least_of_tensors: float = 0.0,
    left_out: Collection[str] = (),
    by_family: bool = True,
) -> Tolerances:
    """Compute tolerances from responses: how far perturbed runs moved tensors and values.

    No tolerance is below `least`, and no tensor's below `least_of_tensors`.

    If `by_family`, tensors of one family, such as the same weight in each block, all have the
    largest response among them. No tolerance is below the median response of its kind, since a
    single tensor may have changed little by chance. If a tensor's tolerance is above `DIGITS_LOST`,
    only its size is compared. The tensors in `left_out` are nothing but rounding errors, and do not
    widen the tolerances of others.
    """
    tensors: dict[str, dict[str, float]] = {}  # by kind, and group of tensors
    usual: dict[str, float] = {}  # by kind
    for kind, plain in observed.tensors.items():
        moved = [perturbed.tensors.get(kind, {}) for perturbed in perturbed_runs]
        largest = find_largest_responses(plain, moved, left_out, by_family=by_family)
        median = 0.0
        if largest:
            # the lower one of two, so that it is the response of a group
            median = statistics.median_low(largest.values())
        floor = max(least, least_of_tensors, FACTOR * median)
        usual[kind] = derive_tensor_tolerance(median, floor)
        tensors[kind] = {}
        for group, response in largest.items():
            tensors[kind][group] = derive_tensor_tolerance(response, floor)
    return Tolerances(
        values=derive_value_tolerances(observed, perturbed_runs, least, least_of_tensors),
        tensors=tensors,
        update=update,
        usual=usual,
        least=least,
        by_family=by_family,
    )


def derive_tensor_tolerance(response: float, floor: float) -> float:
    """Return the tolerance of a tensor with this response.

    Where its digits are lost, only its size must hold.
    """
    tolerance = max(floor, FACTOR * response)
    if tolerance > DIGITS_LOST:
        return max(tolerance, SIZE_ALONE)
    return tolerance


def list_negligible(tensors: Summaries) -> set[str]:
    """Return the names of the weights whose gradient is nothing but rounding.

    These are the weights whose norm is above 0, but below NEGLIGIBLE of the norm of all weights
    together, in the gradients of the first step or in the optimizer's moments after the second.
    """
    names = set()
    for kind in ("gradient", "momentum", "first moment"):
        summaries = tensors.get(kind, {})
        total = math.hypot(*(summary[NORM] for summary in summaries.values()))
        for name, summary in summaries.items():
            if 0 < summary[NORM] < NEGLIGIBLE * total:
                names.add(name)
    return names


def find_largest_responses(
    plain: Mapping[str, Summary],
    perturbed_runs: list[dict[str, Summary]],
    left_out: Collection[str],
    *,
    by_family: bool,
) -> dict[str, float]:
    """Return by group how far a perturbed run moved its tensors at most, relative to their norms.

    A tensor of norm 0 has no relative response. Responses that are not finite do not count, since
    an infinite tolerance would accept anything. A group without any other response has 0.

    Args:
        plain: The tensors of one kind, such as gradients, of the run that is not perturbed.
        perturbed_runs: The same tensors of each perturbed run.
        left_out: Names of tensors that are in no group.
        by_family: Whether a group is a family of tensors, or a single one.
    """
    largest: dict[str, float] = {}
    for name, summary in plain.items():
        if name in left_out:
            continue
        group = name_family(name) if by_family else name
        largest.setdefault(group, 0.0)
        for perturbed in perturbed_runs:
            if summary[NORM] and name in perturbed:
                response = measure_distance(perturbed[name], summary) / summary[NORM]
                if math.isfinite(response):
                    largest[group] = max(largest[group], response)
    return largest


def derive_value_tolerances(
    observed: Observed, perturbed_runs: list[Observed], least: float, least_of_norms: float = 0.0
) -> dict[str, float]:
    """Return the relative tolerance of each value. The losses of all steps share the largest."""
    largest: dict[str, float] = defaultdict(float)  # by name, and of all losses as `loss`
    for perturbed in perturbed_runs:
        for name, value in observed.values.items():
            if value == 0:  # nothing to be relative to
                continue
            response = abs(perturbed.values[name] - value) / abs(value)
            if math.isfinite(response):
                group = "loss" if name.startswith("loss") else name
                largest[group] = max(largest[group], response)
    tolerances = {}
    for name in observed.values:
        if name.startswith("loss"):
            tolerances[name] = max(least, FACTOR * largest["loss"])
        else:
            tolerances[name] = max(least, least_of_norms, FACTOR * largest[name])
    return tolerances
