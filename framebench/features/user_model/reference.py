"""What is in a user's file, and what its float32 baseline computes: `python -m framebench.features.user_model.reference
'{"case": ...}'`.

Writes into $FRAMEBENCH_OWN what a workload's folder has (`framebench/features/user_model/spec.py`): what the harness must know
of the model, the baseline's values and tensors as references, and as rounding errors how far they move when the weights are
rounded otherwise.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.features.user_model import checks, functions
from framebench.features.user_model.functions import UserFile, kind
from framebench.features.user_model.rounding import DOUBTFUL, ROUNDOFF, SECONDS, Draws, explained, with_branches
from framebench.features.user_model.spec import Own
from framebench.instruments import limits
from framebench.instruments.host import status_bytes
from framebench.models.spec import OWN, workload
from framebench.suite.case import STILL, Case
from framebench.suite.tensors import errors, largest
from framebench.suite.tolerance import Errors, joined
from framebench.suite.trees import leaves
from framebench.suite.user_file import Fault, line_of
from framebench.worker.observe import Observed, first_steps
from framebench.worker.verification import Wanted, moves
from framebench.worker.worker import Emit, WorkerError, serve

UNDETERMINED = (
    0.1  # a gradient that float32's rounding moves by more has no digit that could be compared (a bias before a norm)
)
# A gradient that is zero but for rounding may still be the same from other weights, where a compiler rounds the same way each
# time. Then it grows with the roundoff, by 2^15 from float32 to bfloat16; no other grows tenfold when weights move by 0.2 %.
GROWN = 10.0
IMPORTS = 512 * 2**20  # bytes that packages and libraries take which a file imports, and which are no tensors


@dataclass(frozen=True)
class _Rounded(Case):
    """A case whose weights are as if a precision had rounded them, each by another share of its roundoff."""

    seed: int = 0
    roundoff: float = 0.0

    @property
    def weights(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        plain = super().weights
        return {name: self.off(array, rng) for name, array in plain.items()}

    def off(self, array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if not np.issubdtype(array.dtype, np.inexact):
            return array
        return np.asarray(array * (1 + self.roundoff * rng.uniform(-1, 1, array.shape)), array.dtype)


def survey(case: Case, emit: Emit, few: bool = False) -> dict[str, Any]:
    """`few`: with the other roundings that a first look begins with. Raises Fault where nothing can be compared with this
    model."""
    user_workload = workload(OWN)
    assert isinstance(user_workload, Own)
    emit({"phase": "import"})
    module = user_workload.model(case.framework)
    own = {name: fact for name, fact in user_workload.facts.items() if name != "random"}  # of a survey by fewer draws
    try:
        with within(own.get("budget"), own.get("limit"), emit):
            facts = own | module.facts(case.batch)
        _fits(facts, module.user())
        write(user_workload.folder / "own.json", facts)
        adapter, observed = _seen_twice(case, emit)
        found, more = _tolerances(adapter, case, observed, emit, few)
        facts |= more | {"narrow": checks.narrow(anew(adapter, case))}
        if facts["narrow"]:  # its own rounding is that of a lower precision, whatever the strategy's
            found = {key: (one, each | {"fp32": joined([each["fp32"], each["bf16"]])}) for key, (one, each) in found.items()}
        if case.stage.trains:
            facts |= _of_training(anew(adapter, case), facts, observed)  # weights may have been moved
        adapter.still = False
        facts["attention"] = adapter.batched_products() > 0
    except Exception as error:
        raise told(error, module.user()) from error
    _write_references(user_workload.folder, case.framework, found)
    write(user_workload.folder / "own.json", facts | {"surveyed": True})
    return {"facts": facts, "values": observed.values, "held": status_bytes("VmHWM")}


def _seen_twice(case: Case, emit: Emit) -> tuple[Adapter, Observed]:
    """The baseline, and what its first steps computed, the same twice. Raises Fault."""
    emit({"phase": "build"})
    adapter = adapters.load(case)
    adapter.build()
    if adapter.draws_anew:
        adapter.still = adapter.draws()
        adapter = anew(adapter, case)
    emit({"phase": "first steps"})
    if not case.stage.trains:
        _one_array(adapter, adapter.model_module.user())
    observed = _finite(adapter, first_steps(adapter)[1])
    emit({"phase": "first steps, repeated"})
    return same(adapter, observed), observed


def _tolerances(
    adapter: Adapter, case: Case, observed: Observed, emit: Emit, few: bool
) -> tuple[dict[str, tuple[Observed, dict[str, Errors]]], dict[str, Any]]:
    """References with what rounding explains of each, by key: as the model draws, and without random numbers. And what was
    found out beside them."""
    random = adapter.still or adapter.draws()
    emit({"phase": "first steps, rounded otherwise"})
    draws = Draws(SECONDS / (2 if random else 1), few=few)
    lost, rounding = _sensitivity(adapter, case, observed, draws)
    found, still = {case.golden_key + STILL * adapter.still: (observed, rounding)}, observed
    if random and not adapter.still:
        emit({"phase": "first steps, without random numbers"})
        adapter.still = True
        adapter = anew(adapter, case)
        still = first_steps(adapter)[1]
        draws = Draws(SECONDS / 2, few=few)
        lost_too, rounding = _sensitivity(adapter, case, still, draws)
        lost, found[case.golden_key + STILL] = sorted({*lost, *lost_too}), (still, rounding)
    unsharp = checks.unsharp(rounding["bf16"], still)  # whose strategies draw otherwise
    return found, {"random": random, "undetermined": lost, "few_runs": draws.in_words(), "unsharp": unsharp}


def _of_training(adapter: Adapter, facts: dict[str, Any], observed: Observed) -> dict[str, Any]:
    """Whether a step shows in the loss, which weights have no gradient, and whether micro-batches add up to the batch."""
    same = checks.SAME_IN_BF16 if facts["narrow"] else checks.SAME
    other = ""
    if not facts["couples"]:
        apart = _loaded(adapter.case, model_options(adapter))  # which half a batch may leave changed
        apart.still = adapter.still
        other = checks.DRAWN if checks.draws_in_python(adapter) else checks.accumulation(apart, same)
    return {
        "level": not moves(adapter.case, Wanted(observed.values, {}), [*observed.values.values()]),
        "without_gradient": checks.without_gradient(_each_once(facts), observed),
        "accumulation": checks.DRAWN if other and facts.get("draws") else other,
        "remembers": (name := checks.remembered(adapter)),
        "blocks_change": bool(name) and getattr(adapter.model_module, "changed_by_blocks", lambda adapter: False)(adapter),
    }


def _write_references(folder: Path, framework: str, found: dict[str, tuple[Observed, dict[str, Errors]]]) -> None:
    """As a workload's folder has them."""
    write(folder / "golden.json", {"values": {key: one.values for key, (one, _) in found.items()}})
    tensors = {key: listed(one) for key, (one, _) in found.items()}
    (folder / "tensors.json.gz").write_bytes(gzip.compress(json.dumps(tensors).encode()))
    precisions = next(iter(found.values()))[1]
    by_precision = {precision: {key: each[precision] for key, (_, each) in found.items()} for precision in precisions}
    write(folder / "honest.json", {"machines": {"here": {"errors": {framework: by_precision}}}})


@contextmanager
def within(budget: int | None, limit: int | None, emit: Emit) -> Iterator[None]:
    """What the file makes when it is imported, its weights and its batch, each told and held to the budget; what comes after
    may take what the machine has to spare. On a card the budget is the card's."""
    on_host = limits.card_bytes() is None
    if on_host and limit is not None:
        limits.limit_growth(limit if budget is None else min(budget + IMPORTS, limit))
    functions.LISTENERS.append(lambda part: emit({"phase": part}))
    try:
        yield
    finally:
        functions.LISTENERS.pop()
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
        raise Fault(f"{user.line('model')}: the weights alone take {told[0]}, and exceed the budget of {told[1]}")


def listed(observed: Observed) -> dict[str, dict[str, list[float]]]:
    return {kind: {name: list(one) for name, one in entries.items()} for kind, entries in observed.tensors.items()}


def told(error: Exception, user: UserFile) -> WorkerError:
    """Of the same error, or where no line of the file led to it (a layer called by another) one that names the model."""
    oom = limits.ran_out(error, limits.enforced())
    if not isinstance(error, Fault) and not line_of(error, user.file):
        error = Fault(f"{user.line('model')}: in a step of this model: {type(error).__name__}: {str(error)[:500]}")
    return WorkerError(error, oom)


def write(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content))


def _one_array(adapter: Adapter, user: UserFile) -> None:
    """Raises Fault where the model gives something else."""
    adapter.one_step()
    if not [*leaves(adapter.output)]:
        raise Fault(
            f"{user.line('model')}: the model returns {kind(adapter.output)}; in evaluation its output is compared, and must "
            f"be or have tensors or arrays: put a module around the model"
        )


def _finite(adapter: Adapter, observed: Observed) -> Observed:
    """Raises Fault where a number is none."""
    module = adapter.model_module
    for name, value in observed.values.items():
        if not math.isfinite(value):
            where = module.first_infinite(anew(adapter, adapter.case))  # an update may have made it so
            number = name.rpartition("_")[2]
            step = "gradient" if "grad" in name else f"loss of step {int(number) + 1}" if number.isdigit() else name
            raise Fault(f"{module.user().line('loss')}: the {step} is {value}" + (f"; {where}" if where else ""))
    return observed


def anew(adapter: Adapter, case: Case) -> Adapter:
    """With the case's weights: the same one, where these have states beside them that go with them."""
    if case.stage.trains:
        adapter.case = case
        adapter.restore()
        return adapter
    other = _loaded(case, model_options(adapter))
    other.still = adapter.still
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


def same(adapter: Adapter, observed: Observed) -> Adapter:
    """The adapter, once it was run twice more, the second time after one step between: what takes turns from step to step would
    be in phase with one of the two. Raises Fault where the same weights give another loss or gradient, with the tensor that
    differs most, and where that begins."""
    for between in range(2):
        for _ in range(between):
            with adapter.stilled():
                adapter.step()
        adapter = anew(adapter, adapter.case)
        again = first_steps(adapter)[1]
        what, off = checks.apart(again, observed)
        if off > checks.SAME:
            raise _differs(adapter, again, observed, what, off)
    return adapter


def _differs(adapter: Adapter, again: Observed, observed: Observed, what: str, off: float) -> Fault:
    module = adapter.model_module
    each = _differences(again, observed)
    kind, name = max(each, key=lambda pair: each[pair])
    where = module.first_random(adapter)
    return Fault(
        f"{module.user().line('model')}: two runs from the same weights differ, the {what} by {100 * off:.2g} %, most the "
        f"{kind} of {name} by {100 * each[kind, name]:.2g} %{f', {where}' if where else ''}: something changes from one step "
        f"to the next, as a counter, a cache or a schedule in Python does, or draws from a random generator of its own. "
        f"Nothing can be verified then: put a constant in its place"
    )


def _differences(one: Observed, other: Observed) -> dict[tuple[str, str], float]:
    return {
        (kind, name): max(errors(one.tensors[kind][name], summary))
        for kind, summaries in other.tensors.items()
        for name, summary in summaries.items()
    }


def _sensitivity(adapter: Adapter, case: Case, observed: Observed, draws: Draws) -> tuple[list[str], dict[str, Errors]]:
    """The tensors whose gradient is nothing but rounding, and how far the others move, by precision. In Flax a lower precision
    is that of each layer's inputs and output, which are moved, too."""
    seen = {}
    for precision, off in ROUNDOFF.items():
        one = _loaded(case, {"roundoff": off}) if precision == "bf16" and case.framework == "jax" else adapter
        seen[precision] = [_drawn(one, case, seed, off) for seed in draws.of(precision)]
    lost, doubtful = (
        _lost(seen["fp32"], observed, share * UNDETERMINED) | _lost(seen["bf16"], observed, share * GROWN)
        for share in (1.0, DOUBTFUL if draws.few else 1.0)
    )
    scales = {
        precision: explained(drawn, observed, doubtful, draws.quantile(precision)) for precision, drawn in seen.items() if drawn
    }
    rounded = once_rounded(observed, ROUNDOFF["bf16"])
    coarse = joined([scales["bf16"], rounded, undirected(adapter, ROUNDOFF["bf16"])])
    return sorted(lost), {"fp32": with_branches(scales["fp32"], scales.get("coarse", {})), "bf16": coarse}


def _lost(draws: list[Observed], observed: Observed, limit: float) -> set[str]:
    """The tensors whose gradient moved by more than this, relative."""
    each = [_differences(one, observed) for one in draws]
    return {name for moved in each for (kind, name), off in moved.items() if kind == "gradient" and off > limit}


def once_rounded(observed: Observed, roundoff: float) -> Errors:
    """A loss is one number, of few samples' outputs, which a lower precision may all round the same way: it may be off by a
    whole rounding, however close it came from a few other weights."""
    return {"value": {name: (roundoff, 0.0) for name in observed.values if name.startswith("loss")}}


def undirected(adapter: Adapter, roundoff: float) -> Errors:
    """How far weights may go astray under an optimizer that divides by a second moment: it moves each number by about the rate,
    and one whose gradient is below what a precision rounds (keys' biases in attention have none at all) in any direction."""
    states = list(adapter.states()) if adapter.case.stage.trains else []
    if all(state.kind != "second moment" for state in states):
        return {}
    errors_by_state = {}
    for state in states:
        if state.kind == "first moment":
            size = np.abs(state.array).astype(np.float64)
            share = min(0.5, float(np.mean(size <= roundoff * math.sqrt(float(np.mean(size**2))))))
            errors_by_state[state.name] = (math.sqrt(share / (1 - share)),) * 2
    return {"weight": largest(errors_by_state)}


def _drawn(adapter: Adapter, case: Case, seed: int, roundoff: float) -> Observed:
    """The baseline as it comes out with other roundings of this size (`rounding.py`)."""
    imitated = getattr(adapter.model_module, "imitated", None)
    if imitated is not None:
        adapter = anew(adapter, case)
        with imitated(adapter, roundoff, seed):
            drawn = first_steps(adapter)[1]
        if all(map(math.isfinite, drawn.values.values())):
            return drawn
    # where no operation is seen by itself, or one must not be rounded: from weights that are rounded otherwise
    rounded = _Rounded(**{f.name: getattr(case, f.name) for f in fields(case)}, seed=seed, roundoff=roundoff)
    return first_steps(anew(adapter, rounded))[1]


if __name__ == "__main__":
    serve(lambda orders, emit: survey(Case.of(orders["case"]), emit, orders["few"]))
