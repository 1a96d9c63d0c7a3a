"""What is in a user's file, and what its float32 baseline computes: `python -m framebench.user_file.reference
'{"case": ...}'`.

Writes into $FRAMEBENCH_OWN what a workload's folder has (`models/user_model.py`): what the harness must know
of the model, and the baseline's values and tensors, which its strategies are compared with in their own precision.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from framebench import adapters
from framebench.adapters import user_functions
from framebench.adapters.base import Adapter
from framebench.adapters.user_functions import UserFile, describe_type
from framebench.instruments import limits
from framebench.instruments.host import read_status
from framebench.models.spec import USER_MODEL, load_workload
from framebench.models.user_model import UserWorkload
from framebench.suite.case import WITHOUT_RANDOM, Case
from framebench.suite.protocol import Reference
from framebench.suite.tensors import measure_errors
from framebench.suite.trees import iterate_arrays
from framebench.suite.user_file import Fault, find_line
from framebench.user_file import checks
from framebench.worker.observe import Observed, first_steps
from framebench.worker.tolerances import RUNS, PerturbedCase
from framebench.worker.verification import must_move
from framebench.worker.worker import Emit, WorkerError, serve

# Perturbations of the weights, relative: what sums of some hundred float32 terms differ by when they are added up in another
# order, and what bfloat16 rounds by.
FINE, COARSE = 2.0**-21, 2.0**-8
UNDETERMINED = 0.1  # a gradient that the fine one moves by more has no digit that could be compared
GROWN = 10.0  # no other gradient grows tenfold when weights move by 0.4 %
IMPORTS = 512 * 2**20  # bytes that packages and libraries take which a file imports, and which are no tensors


def survey(case: Case, emit: Emit) -> dict[str, Any]:
    """Find out what is in the file, and run its baseline. Raises Fault where nothing can be compared with this model."""
    user_workload = load_workload(USER_MODEL)
    assert isinstance(user_workload, UserWorkload)
    emit({"phase": "import"})
    module = user_workload.import_model(case.framework)
    own = user_workload.facts
    try:
        with within(own.get("budget"), own.get("limit"), emit):
            facts = own | module.facts(case.batch)
        _fits(facts, module.user())
        write(user_workload.folder / "own.json", facts)
        adapter, observed = _seen_twice(case, emit)
        references = _observe_without_chance(adapter, case, observed, emit)
        facts["random"] = adapter.deterministic or len(references) > 1
        facts["undetermined"] = _find_undetermined(adapter, case, list(references.values())[-1], emit)
        facts["narrow"] = checks.narrow(reset_adapter(adapter, case))
        if case.stage.trains:
            facts |= _of_training(reset_adapter(adapter, case), facts, observed)  # weights may have been moved
        adapter.deterministic = False
        facts["attention"] = adapter.count_batched_matmuls() > 0
    except Exception as error:
        raise told(error, module.user()) from error
    _write_references(user_workload.folder, references)
    write(user_workload.folder / "own.json", facts | {"surveyed": True})
    return {"facts": facts, "values": observed.values, "held": read_status("VmHWM")}


def _seen_twice(case: Case, emit: Emit) -> tuple[Adapter, Observed]:
    """The baseline, and what its first steps computed, the same twice. Raises Fault."""
    emit({"phase": "build"})
    adapter = adapters.load(case)
    adapter.build()
    if adapter.may_draw_other_numbers:
        adapter.deterministic = adapter.draws_random_numbers()
        adapter = reset_adapter(adapter, case)
    emit({"phase": "first steps"})
    if not case.stage.trains:
        _one_array(adapter, adapter.model_module.user())
    observed = _finite(adapter, first_steps(adapter)[1])
    emit({"phase": "first steps, repeated"})
    return check_deterministic(adapter, observed), observed


def _observe_without_chance(adapter: Adapter, case: Case, observed: Observed, emit: Emit) -> dict[str, Observed]:
    """Return the baseline's observations by key: as the model draws, and without random numbers where it draws any.

    The latter are for strategies that draw in another order. Afterwards the adapter of a model that draws is without chance:
    whether micro-batches add up, for instance, is asked of it so.
    """
    references = {case.golden_key + WITHOUT_RANDOM * adapter.deterministic: observed}
    if not adapter.deterministic and adapter.draws_random_numbers():
        emit({"phase": "first steps, without random numbers"})
        adapter.deterministic = True
        references[case.golden_key + WITHOUT_RANDOM] = first_steps(reset_adapter(adapter, case))[1]
    return references


def _find_undetermined(adapter: Adapter, case: Case, observed: Observed, emit: Emit) -> list[str]:
    """Return the tensors whose gradient is nothing but rounding, such as that of a bias before a norm.

    `observed` is what the adapter gives as it is, with random numbers or without.
    A perturbation of float32's size moves such a gradient by much of its size. Where a compiler rounds the same
    way each time it may not; then it grows with the perturbation, as no other does.
    """
    emit({"phase": "first steps, perturbed"})
    fine = [_observe_perturbed(adapter, case, seed, FINE) for seed in range(RUNS)]
    coarse = [_observe_perturbed(adapter, case, seed, COARSE) for seed in range(RUNS)]
    return sorted(_moved(fine, observed, UNDETERMINED) | _moved(coarse, observed, GROWN))


def _of_training(adapter: Adapter, facts: dict[str, Any], observed: Observed) -> dict[str, Any]:
    """Whether a step shows in the loss, which weights have no gradient, and whether micro-batches add up to the batch."""
    same = checks.SAME_IN_BF16 if facts["narrow"] else checks.SAME
    other = ""
    if not facts["couples"]:
        apart = _loaded(adapter.case, model_options(adapter))  # which half a batch may leave changed
        apart.deterministic = adapter.deterministic
        other = checks.DRAWN if checks.draws_in_python(adapter) else checks.accumulation(apart, same)
    return {
        "level": not must_move(adapter.case, Reference("", observed.values, {}), [*observed.values.values()]),
        "without_gradient": checks.without_gradient(_each_once(facts), observed),
        "accumulation": checks.DRAWN if other and facts.get("draws") else other,
        "remembers": (name := checks.find_stateful_buffer(adapter)),
        "blocks_change": bool(name) and getattr(adapter.model_module, "changed_by_blocks", lambda adapter: False)(adapter),
    }


def _write_references(folder: Path, references: dict[str, Observed]) -> None:
    """Write the baseline's values and tensors as a workload's folder has its float64 ones."""
    write(folder / "golden.json", {"values": {key: observed.values for key, observed in references.items()}})
    tensors = {key: listed(observed) for key, observed in references.items()}
    (folder / "tensors.json.gz").write_bytes(gzip.compress(json.dumps(tensors).encode()))


@contextmanager
def within(budget: int | None, limit: int | None, emit: Emit) -> Iterator[None]:
    """What the file makes when it is imported, its weights and its batch, each told and held to the budget; what comes after
    may take what the machine has to spare. On a card the budget is the card's."""
    on_host = limits.read_gpu_memory() is None
    if on_host and limit is not None:
        limits.limit_growth(limit if budget is None else min(budget + IMPORTS, limit))
    user_functions.LISTENERS.append(lambda part: emit({"phase": part}))
    try:
        yield
    finally:
        user_functions.LISTENERS.pop()
        if on_host and limit is not None:
            limits.limit_growth(limit)


def _each_once(facts: dict[str, Any]) -> list[tuple[str, list[int], bool]]:
    """Weights and buffers; a tied weight has two names, under one of which its gradient stands."""
    return [param for param in facts["params"] if param[0] not in facts.get("tied", ())]


def _fits(facts: dict[str, Any], user: UserFile) -> None:
    """Raises Fault where the weights alone are too large."""
    size = 4 * sum(math.prod(shape) for _, shape, _ in _each_once(facts))
    if facts.get("budget") is not None and size > facts["budget"]:
        told = [f"{number / 2**20:,.1f} MiB" for number in (size, facts["budget"])]
        raise Fault(f"{user.locate('model')}: the weights alone take {told[0]}, and exceed the budget of {told[1]}")


def listed(observed: Observed) -> dict[str, dict[str, list[float]]]:
    return {kind: {name: list(one) for name, one in entries.items()} for kind, entries in observed.tensors.items()}


def told(error: Exception, user: UserFile) -> WorkerError:
    """Of the same error, or where no line of the file led to it (a layer called by another) one that names the model."""
    oom = limits.is_out_of_memory(error, limits.is_enforced())
    if not isinstance(error, Fault) and not find_line(error, user.file):
        error = Fault(f"{user.locate('model')}: in a step of this model: {type(error).__name__}: {str(error)[:500]}")
    return WorkerError(error, oom)


def write(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content))


def _one_array(adapter: Adapter, user: UserFile) -> None:
    """Raises Fault where the model gives something else."""
    adapter.one_step()
    if not [*iterate_arrays(adapter.output)]:
        raise Fault(
            f"{user.locate('model')}: the model returns {describe_type(adapter.output)}; in evaluation its "
            f"output is compared, and must "
            f"be or have tensors or arrays: put a module around the model"
        )


def _finite(adapter: Adapter, observed: Observed) -> Observed:
    """Raises Fault where a number is none."""
    module = adapter.model_module
    for name, value in observed.values.items():
        if not math.isfinite(value):
            where = module.first_infinite(reset_adapter(adapter, adapter.case))  # an update may have made it so
            number = name.rpartition("_")[2]
            step = "gradient" if "grad" in name else f"loss of step {int(number) + 1}" if number.isdigit() else name
            raise Fault(f"{module.user().locate('loss')}: the {step} is {value}" + (f"; {where}" if where else ""))
    return observed


def reset_adapter(adapter: Adapter, case: Case) -> Adapter:
    """Put the case's weights in place: in training in the same adapter, in evaluation in one that is newly built."""
    if case.stage.trains:
        adapter.case = case
        adapter.restore()
        return adapter
    other = _loaded(case, model_options(adapter))
    other.deterministic = adapter.deterministic
    return other


def model_options(adapter: Adapter) -> dict[str, Any]:
    """What the model is built by, where the framework's adapter has such options."""
    options: dict[str, Any] = getattr(getattr(adapter, "recipe", adapter), "model_options", {})
    return options


def _loaded(case: Case, options: dict[str, Any]) -> Adapter:
    """The case in another adapter, its model built by these options."""
    other: Any = adapters.load(case)
    if options:
        model_options(other).update(options)
    other.build()
    return other


def check_deterministic(adapter: Adapter, observed: Observed) -> Adapter:
    """Repeat the first steps twice, and return the adapter.

    The second time comes after one step more, so that what alternates from step to step shows. Raises Fault where the
    same weights give another loss or gradient, with the tensor that differs most, and where that begins.
    """
    for between in range(2):
        for _ in range(between):
            with adapter.disable_randomness():
                adapter.step()
        adapter = reset_adapter(adapter, adapter.case)
        again = first_steps(adapter)[1]
        what, off = checks.largest_difference(again, observed)
        if off > checks.SAME:
            raise _differs(adapter, again, observed, what, off)
    return adapter


def _differs(adapter: Adapter, again: Observed, observed: Observed, what: str, off: float) -> Fault:
    module = adapter.model_module
    each = _differences(again, observed)
    kind, name = max(each, key=lambda pair: each[pair])
    where = module.first_random(adapter)
    return Fault(
        f"{module.user().locate('model')}: two runs from the same weights differ, the {what} by {100 * off:.2g} %, most the "
        f"{kind} of {name} by {100 * each[kind, name]:.2g} %{f', {where}' if where else ''}: something changes from one step "
        f"to the next, as a counter, a cache or a schedule in Python does, or draws from a random generator of its own. "
        f"Nothing can be verified then: put a constant in its place"
    )


def _differences(one: Observed, other: Observed) -> dict[tuple[str, str], float]:
    return {
        (kind, name): max(measure_errors(one.tensors[kind][name], summary))
        for kind, summaries in other.tensors.items()
        for name, summary in summaries.items()
    }


def _moved(perturbed: list[Observed], observed: Observed, limit: float) -> set[str]:
    """Return the tensors whose gradient moved by more than this, relative to its norm."""
    names = set()
    for one in perturbed:
        for (sort, name), moved in _differences(one, observed).items():
            if sort == "gradient" and moved > limit:
                names.add(name)
    return names


def _observe_perturbed(adapter: Adapter, case: Case, seed: int, perturbation: float) -> Observed:
    """Observe the baseline's first steps from perturbed weights."""
    return first_steps(reset_adapter(adapter, PerturbedCase.of_case(case, seed, perturbation)))[1]


if __name__ == "__main__":
    serve(lambda orders, emit: survey(Case.from_id(orders["case"]), emit))
