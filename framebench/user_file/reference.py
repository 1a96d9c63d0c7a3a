"""Find out what is in a user's file, and what its float32 baseline computes.

`python -m framebench.user_file.reference '{"case": ...}'` writes into $FRAMEBENCH_OWN what a
workload's folder has (`models/user_model.py`): what the harness must know of the model, and the
baseline's values and tensors, which its strategies are compared with in their own precision.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from framebench import adapters
from framebench.adapters import user_functions
from framebench.adapters.base import Adapter
from framebench.adapters.replacing import replace_attributes
from framebench.adapters.user_functions import (
    FLOAT32_BYTES,
    LONGEST_PERIOD,
    UserFile,
    describe_type,
)
from framebench.instruments import limits
from framebench.instruments.host import read_status
from framebench.models.spec import USER_MODEL, load_workload
from framebench.models.user_facts import ModelFacts
from framebench.suite.case import WITHOUT_RANDOM, Case
from framebench.suite.tensors import measure_max_error
from framebench.suite.trees import iterate_arrays
from framebench.suite.user_file import (
    HELD_PARTS,
    DoesNotApply,
    Fault,
    describe_error,
    find_line,
    hash_sources,
)
from framebench.user_file import checks
from framebench.worker.mathematics import load_float64_adapter
from framebench.worker.observe import Observed, make_first_steps
from framebench.worker.tolerances import RUNS, PerturbedCase
from framebench.worker.worker import Emit, WorkerError, serve

# Perturbations of the weights, relative: what sums of some hundred float32 terms differ by when
# they are added up in another order, and what bfloat16 rounds by.
FINE, COARSE = 2.0**-21, 2.0**-8
UNDETERMINED = 0.1  # a gradient that the fine one moves by more has no digit that could be compared
GROWN = 10.0  # no other gradient grows tenfold when weights move by 0.4 %
IMPORTS = 512 * 2**20  # bytes that packages and libraries of a file take, and which are no tensors


def survey(case: Case, emit: Emit) -> dict[str, Any]:
    """Find out what is in the file, run its baseline, and write both into the workload's folder.

    Returns the facts, the values, and under the key `held` the most bytes that the process had in
    use. Raises WorkerError, also if nothing can be compared with this model.
    """
    workload = load_workload(USER_MODEL)
    facts = workload.facts
    emit({"phase": "import"})
    module = workload.import_model(case.framework)

    def save_facts() -> None:
        (workload.folder / "own.json").write_text(json.dumps(facts))

    try:
        with limit_memory(facts.get("budget"), facts.get("limit"), emit):
            facts = facts | module.facts(case.batch)
        check_weights_fit(facts, module.user())
        save_facts()
        adapter = build_baseline(case, emit)
        if case.scenario_spec.trains:
            facts["update_period"] = find_update_period(adapter)
            save_facts()
            adapter.workload = case.workload_spec  # now with the period
            adapter = reset_adapter(adapter, case)
        adapter, observed = observe_baseline(adapter, case, emit)
        references = observe_references(adapter, case, observed, emit)
        facts["loss_terms"] = vars(module.user().loss_terms)
        facts["random"] = adapter.deterministic or len(references) > 1
        facts["draws_by_layout"] = facts["random"] and adapter.draws_by_layout()
        # what perturbed weights give is compared with what was observed last, without randomness
        newest = list(references)[-1]
        perturbed = observe_perturbed_baseline(adapter, case, emit)
        facts["undetermined"] = find_undetermined(perturbed, references[newest])
        facts["skipped"] = {key: sorted(seen.skipped) for key, seen in references.items()}
        facts["skipped"][newest] = list_skipped(
            [references[newest], *perturbed[FINE], *perturbed[COARSE]]
        )
        facts["narrow"] = checks.uses_lower_precision(reset_adapter(adapter, case))
        with replace_attributes(adapter, deterministic=False):
            facts["attention"] = adapter.count_batched_matmuls() > 0
        if case.scenario_spec.trains:
            adapter = reset_adapter(adapter, case)  # weights may have been moved
            facts |= survey_training(adapter, facts, observed)
        facts["sources"] = hash_sources()
    except Exception as error:
        raise explain_error(error, module.user()) from error
    write_references(workload.folder, references)
    save_facts()
    return {"facts": facts, "values": observed.values, "held": read_status("VmHWM")}


@contextmanager
def limit_memory(budget: int | None, limit: int | None, emit: Emit) -> Iterator[None]:
    """Limit the process to the budget while the file is imported and makes its model and batch.

    Each part of the file that runs in this context is emitted as a phase. From the first part on
    that is not in HELD_PARTS, the process may take `limit`, what the machine has to spare: a
    baseline that exceeds the budget must run all the same, since strategies that do not exceed it
    are compared with it. Without a `limit`, and on a GPU, whose memory the budget means, nothing
    is limited.
    """
    if limits.read_gpu_memory() is not None:
        limit = None

    def note_part(part: str) -> None:
        emit({"phase": part})
        if limit is not None and part not in HELD_PARTS:
            limits.limit_growth(limit)

    if limit is not None:
        limits.limit_growth(limit if budget is None else min(budget + IMPORTS, limit))
    user_functions.LISTENERS.append(note_part)
    try:
        yield
    finally:
        user_functions.LISTENERS.pop()
        if limit is not None:
            limits.limit_growth(limit)


def check_weights_fit(facts: ModelFacts, user: UserFile) -> None:
    """Raise Fault if even the weights are larger than the budget."""
    size = 0
    for _name, shape, _is_trained in list_params(facts):
        size += FLOAT32_BYTES * math.prod(shape)
    budget = facts.get("budget")
    if budget is not None and size > budget:
        raise Fault(
            f"{user.locate('model')}: the weights alone take {size / 2**20:,.1f} MiB, "
            f"and exceed the budget of {budget / 2**20:,.1f} MiB"
        )


def list_params(facts: ModelFacts) -> list[tuple[str, list[int], bool]]:
    """Return name, shape and whether it is trained of each weight and buffer.

    A tied weight has two names, and its gradient stands under one of them: it is listed once.
    """
    return [param for param in facts["params"] if param[0] not in facts.get("tied", ())]


def build_baseline(case: Case, emit: Emit) -> Adapter:
    """Return the baseline, built, with randomness disabled where it cannot be repeated."""
    emit({"phase": "build"})
    adapter = adapters.load(case)
    adapter.build()
    if adapter.may_draw_other_numbers:
        adapter.deterministic = adapter.draws_random_numbers()
        adapter = reset_adapter(adapter, case)
    return adapter


def observe_baseline(adapter: Adapter, case: Case, emit: Emit) -> tuple[Adapter, Observed]:
    """Return the baseline, and what its first steps computed.

    Raises Fault if it has no output to compare, if a value is not finite, or if the same
    steps do not compute the same again.
    """
    emit({"phase": "first steps"})
    if not case.scenario_spec.trains:
        check_output(adapter, adapter.model_module.user())
    _, observed = make_first_steps(adapter)
    check_finite(adapter, observed)
    emit({"phase": "first steps, repeated"})
    return check_deterministic(adapter, observed), observed


def find_update_period(adapter: Adapter) -> int:
    """Make steps until a weight has changed, and return how many that took.

    If an optimizer names a longer period, it is returned instead: gradients may be added up over
    several steps, and slow weights follow the fast ones every k-th time. Where no weight changes
    within LONGEST_PERIOD steps it is the named period, or 1.
    """
    named_period = 1
    find_named_period = getattr(adapter.model_module, "find_named_period", None)
    if find_named_period:  # Jittor's module has none
        named_period = find_named_period(adapter)
    params = adapter.workload.params(adapter.config)
    trained = {param.name for param in params if param.trainable}
    weights_before = {}
    for name, array in adapter.weights():
        if name in trained:
            weights_before[name] = array.copy()
    for steps in range(1, LONGEST_PERIOD + 1):
        with adapter.disable_randomness():
            adapter.step()
        for name, array in adapter.weights():
            if name in weights_before and not np.array_equal(array, weights_before[name]):
                return max(named_period, steps)
    return named_period


def check_output(adapter: Adapter, user: UserFile) -> None:
    """Raise Fault if the model gives no tensors."""
    adapter.one_step()
    if not list(iterate_arrays(adapter.output)):
        raise Fault(
            f"{user.locate('model')}: the model returns {describe_type(adapter.output)}; in "
            "evaluation its output is compared, and must be or have tensors or arrays: put a "
            "module around the model"
        )


def check_finite(adapter: Adapter, observed: Observed) -> None:
    """Raise Fault if a loss or a norm is not finite, with the place in the model if it is found."""
    module = adapter.model_module
    for name, value in observed.values.items():
        if math.isfinite(value):
            continue
        # an update may have made it so: look for it from the first weights
        where = module.find_first_infinite(reset_adapter(adapter, adapter.case))
        place = f"; {where}" if where else ""
        raise Fault(f"{module.user().locate('loss')}: {name} of the first steps is {value}{place}")


def check_deterministic(adapter: Adapter, observed: Observed) -> Adapter:
    """Repeat the first steps twice, and return the adapter.

    The second time comes after one step more, so that what alternates from step to step shows.
    Raises Fault if the same weights give another loss or gradient, with the tensor that differs
    most, and where that begins.
    """
    for steps_between in range(2):
        for _ in range(steps_between):
            with adapter.disable_randomness():
                adapter.step()
        adapter = reset_adapter(adapter, adapter.case)
        _, repeated = make_first_steps(adapter)
        quantity, difference = checks.find_largest_difference(repeated, observed)
        if difference > checks.SAME:
            raise Fault(describe_difference(adapter, repeated, observed, quantity, difference))
    return adapter


def describe_difference(
    adapter: Adapter,
    repeated: Observed,
    observed: Observed,
    quantity: str,
    difference: float,
) -> str:
    """Return how two runs from the same weights differ, and what to do about it."""
    module = adapter.model_module
    moved = compare_tensors(repeated, observed)
    kind, name = max(moved, key=lambda tensor: moved[tensor])
    where = module.find_first_random(adapter)
    place = f", {where}" if where else ""
    return (
        f"{module.user().locate('model')}: two runs from the same weights differ, the {quantity} "
        f"by {100 * difference:.2g} %, most the {kind} of {name} by {100 * moved[kind, name]:.2g} "
        f"%{place}: something changes from one step to the next, as a counter, a cache or a "
        "schedule in Python does, or draws from a random generator of its own. Nothing can be "
        "verified then: put a constant in its place"
    )


def compare_tensors(one: Observed, reference: Observed) -> dict[tuple[str, str], float]:
    """Return the relative error of each tensor by kind and name."""
    moved = {}
    for kind, tensors in reference.tensors.items():
        for name, summary in tensors.items():
            moved[kind, name] = measure_max_error(one.tensors[kind][name], summary)
    return moved


def observe_references(
    adapter: Adapter,
    case: Case,
    observed: Observed,
    emit: Emit,
) -> dict[str, Observed]:
    """Return what the baseline's first steps gave, by the key of reference values.

    `observed` is one entry. If the model draws random numbers, the other entry is of steps that
    draw none: strategies that would draw in another order are compared with it. The adapter then
    stays deterministic, as later checks of the file need it.
    """
    if adapter.deterministic:
        return {case.golden_key + WITHOUT_RANDOM: observed}
    references = {case.golden_key: observed}
    if adapter.draws_random_numbers():
        emit({"phase": "first steps, without random numbers"})
        adapter.deterministic = True
        _, references[case.golden_key + WITHOUT_RANDOM] = make_first_steps(
            reset_adapter(adapter, case)
        )
    return references


def observe_perturbed_baseline(
    adapter: Adapter, case: Case, emit: Emit
) -> dict[float, list[Observed]]:
    """Return by perturbation what the baseline's first steps compute from perturbed weights."""
    emit({"phase": "first steps, perturbed"})
    observed: dict[float, list[Observed]] = {}
    for perturbation in (FINE, COARSE):
        observed[perturbation] = []
        for seed in range(RUNS):
            perturbed = PerturbedCase.perturb(case, seed, perturbation)
            _, moved = make_first_steps(reset_adapter(adapter, perturbed))
            observed[perturbation].append(moved)
    return observed


def find_undetermined(perturbed: dict[float, list[Observed]], observed: Observed) -> list[str]:
    """Return the tensors whose gradient is only rounding, such as a bias's before a norm.

    `observed` is what the unchanged weights give. A perturbation of float32's size moves such a
    gradient by much of its size. If a compiler rounds the same way each time it may not. Then it
    grows with the perturbation, as no other does.
    """
    undetermined: set[str] = set()
    for perturbation, limit in ((FINE, UNDETERMINED), (COARSE, GROWN)):
        for moved in perturbed[perturbation]:
            undetermined |= find_moved(moved, observed, limit)
    return sorted(undetermined)


def list_skipped(runs: list[Observed]) -> list[str]:
    """Return the weights that an update left as they were in any of these runs, by name.

    Perturbed runs count too: rounding may decide whether an expert gets a sample, and one without
    samples has no gradient.
    """
    skipped: set[str] = set()
    for observed in runs:
        skipped |= observed.skipped
    return sorted(skipped)


def find_moved(perturbed: Observed, observed: Observed, limit: float) -> set[str]:
    """Return the tensors whose gradient moved by more than this, relative to its norm."""
    moved = compare_tensors(perturbed, observed)
    return {name for (kind, name), share in moved.items() if kind == "gradient" and share > limit}


def survey_training(adapter: Adapter, facts: ModelFacts, observed: Observed) -> ModelFacts:
    """Return the facts that only training needs.

    These are `without_gradient`, the weights that have none; `accumulation`, why micro-batches do
    not add up to the batch, or ""; `remembers`, what each forward pass changes though it is not
    trained; and `blocks_change`, whether such a tensor lies in a block. For a file with a `step` of
    its own the second is not returned, and the third has tensors in blocks alone.
    """
    # only PyTorch's module has it
    list_changed = getattr(adapter.model_module, "list_changed_in_blocks", None)
    in_blocks = list_changed(adapter) if list_changed else []
    found: ModelFacts = {
        "without_gradient": checks.describe_without_gradient(list_params(facts), observed),
        "blocks_change": bool(in_blocks),
    }
    if facts.get("own_step"):  # its passes cannot be asked for one by one
        return found | {"remembers": checks.join_names(in_blocks)}
    stateful = checks.find_stateful_tensors(adapter)
    # last, as it may leave the framework in float64
    accumulation = explain_accumulation(adapter, facts)
    return found | {"accumulation": accumulation, "remembers": stateful}


def explain_accumulation(adapter: Adapter, facts: ModelFacts) -> str:
    """Return why micro-batches do not compute what the batch computes, or "" if they do.

    It is empty, too, where `facts` say already that samples look at each other, or that the batch
    cannot be cut.
    """
    if facts["couples"] or facts["uncut"]:
        return ""
    other = copy_adapter(adapter, adapter.case)  # half a batch may leave it changed
    if checks.draws_in_python(adapter):
        return checks.DRAWN
    same = checks.SAME_IN_BF16 if facts["narrow"] else checks.SAME
    try:
        difference = checks.measure_accumulation(other)
        if not facts["narrow"] and checks.SURELY_SAME < difference <= same:
            difference, same = measure_accumulation_exactly(adapter.case), checks.SAME_IN_FLOAT64
    except DoesNotApply as error:
        return str(error)
    if difference <= same:
        return ""
    return checks.DRAWN if adapter.keeps_drawing() else checks.NOT_ADDITIVE


def measure_accumulation_exactly(case: Case) -> float:
    """Return the result of `measure_accumulation` in float64 and at the smallest batch.

    It is 0 where the model does not run in float64. Raises DoesNotApply.
    """
    exact = load_float64_adapter(replace(case, batch=checks.HALVES))
    try:
        exact.build()
        return 0.0 if exact.find_narrow_result() else checks.measure_accumulation(exact)
    except DoesNotApply:
        raise
    except Exception:  # a strategy's own check in float64 says why
        return 0.0


def reset_adapter(adapter: Adapter, case: Case) -> Adapter:
    """Return an adapter with the case's weights in place.

    In training it is the same adapter, in evaluation one that is newly built.
    """
    if not case.scenario_spec.trains:
        return copy_adapter(adapter, case)
    adapter.case = case
    adapter.restore()
    return adapter


def copy_adapter(adapter: Adapter, case: Case) -> Adapter:
    """Return a new adapter of the case, built, with randomness disabled where it is here."""
    other = adapters.load(case)
    other.build()
    other.deterministic = adapter.deterministic
    return other


def explain_error(error: Exception, user: UserFile) -> WorkerError:
    """Return an error as the worker reports it: with a place in the file.

    Where no line of the file led to it, as in a layer that another one calls, it names the model.
    """
    oom = limits.is_out_of_memory(error, limits.is_enforced())
    if not isinstance(error, Fault) and not find_line(error, user.file):
        place = user.locate("model")
        error = Fault(f"{place}: in a step of this model: {describe_error(error)}")
    return WorkerError(error, oom)


def write_references(folder: Path, references: dict[str, Observed]) -> None:
    """Write the baseline's values and tensors as a workload has its float64 references.

    The files are golden.json and tensors.json.gz.
    """
    values = {}
    tensors = {}
    for key, observed in references.items():
        values[key] = observed.values
        tensors[key] = observed.tensors
    (folder / "golden.json").write_text(json.dumps({"values": values}))
    (folder / "tensors.json.gz").write_bytes(gzip.compress(json.dumps(tensors).encode()))


if __name__ == "__main__":
    serve(lambda orders, emit: survey(Case.from_id(orders["case"]), emit))
