"""What verification refuses: each test takes the float64 values themselves and changes one thing."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from framebench.adapters.base import State
from framebench.records.record import Verification
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from framebench.suite.tensors import errors
from framebench.suite.tolerance import LEAST, MULTIPLE, tolerance
from framebench.worker.observe import Observed, corrected
from framebench.worker.verification import STATES, again, compare, state_bytes, verify, wanted

TRAIN = parse("transformer/torch/train/fp32/b4/tiny")
EVAL = parse("transformer/torch/eval/no_grad/b4/tiny")
FROZEN = parse("resnet50/torch/finetune/half/b4/tiny")


def right(case: Case) -> Observed:
    found = copy.deepcopy(wanted(case))
    assert found
    observed = Observed(found.values, found.tensors)
    if case.stage.trains:
        observed.state_bytes = state_bytes(case, observed)
    return observed


def verified(case: Case, observed: Observed) -> Verification:
    return Verification(**verify(adapter(case), observed))


def adapter(case: Case, **more: Any) -> Any:
    return SimpleNamespace(case=case, workload=case.spec, **more)


@pytest.mark.parametrize("case", [TRAIN, EVAL, FROZEN], ids=str)
def test_what_is_right_passes(case: Case) -> None:
    found = verified(case, right(case))
    assert (found.passed, found.margin, found.reason) == (True, 0, None)
    assert sum(kind.count for kind in found.tensors.values()) == sum(map(len, right(case).tensors.values()))


def test_every_tensor_counts() -> None:
    """Twice its tolerance in any one of them is wrong, and it is named; half of it is not."""
    for kind, tensors in right(TRAIN).tensors.items():
        for name, (norm, *rest) in tensors.items():
            allowed, _ = tolerance("transformer", "torch", "fp32", TRAIN.golden_key, kind, name)
            for times, passes in ((2, False), (0.5, True)):
                observed = right(TRAIN)
                observed.tensors[kind][name] = (norm * (1 + times * allowed), *rest)
                found = verified(TRAIN, observed)
                assert found.passed == passes
                assert found.margin == pytest.approx(times)
                assert found.tensors[kind].worst == name
                assert found.tensors[kind].failed == (not passes)


def test_a_state_that_should_not_exist_and_one_that_is_missing() -> None:
    more, fewer = right(TRAIN), right(TRAIN)
    more.tensors["max_exp_avg_sq"] = more.tensors["second moment"]
    assert "max_exp_avg_sq of" in str(verified(TRAIN, more).reason)
    del fewer.tensors["second moment"]["ln_f.bias"]
    assert verified(TRAIN, fewer).reason == "no second moment of 1 tensors, such as ln_f.bias"


def test_the_bytes_of_the_optimizer() -> None:
    observed = right(TRAIN)
    plain = TRAIN.spec.parameter_count(TRAIN.config)
    assert observed.state_bytes == len(STATES["adamw"]) * 4 * plain
    observed.state_bytes //= 2
    assert "bytes instead of" in str(verified(TRAIN, observed).reason)


def test_a_frozen_weight_that_moved() -> None:
    observed = right(FROZEN)
    still = [name for name, summary in observed.tensors["weight"].items() if summary[0] == 0]
    assert "conv1.weight" in still
    observed.tensors["weight"]["conv1.weight"] = (1e-12, 0.0, 0.0, 0.0)
    found = verify(adapter(FROZEN), observed)
    assert not found["passed"]
    assert found["tensors"]["weight"]["error"] == math.inf


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_no_number_is_wrong(number: float) -> None:
    values, tensors = right(TRAIN), right(TRAIN)
    values.values["loss_3"] = number
    tensors.tensors["weight"]["ln_f.bias"] = (number, 0.0, 0.0, 0.0)
    assert not verify(adapter(TRAIN), values)["passed"]
    found = verify(adapter(TRAIN), tensors)
    assert not found["passed"]
    assert found["tensors"]["weight"]["worst"] == "ln_f.bias"


def timed(case: Case, observed: Observed) -> Any:
    """An adapter whose next step gives what was observed."""
    scale = 1 - case.spec.optimizer.betas[0]
    step = SimpleNamespace(restored=0, steps=0)
    arrays = {p.name: p.make() for p in case.spec.params(case.config)}
    return adapter(
        case, loader=None, restore=lambda: setattr(step, "restored", 1), loss=lambda: observed.values["loss_0"],
        step=lambda: None, synchronize=lambda: None, seen=step,
        states=lambda: iter([State("first moment", name, scale * array, 0) for name, array in arrays.items()]),
    )  # fmt: skip


def test_what_was_timed_is_looked_at_again() -> None:
    """The gradients of this adapter are the weights, so that they differ from what is wanted."""
    run = timed(TRAIN, right(TRAIN))
    found = again(run, [3.0, 2.0, 1.0])
    assert run.seen.restored
    assert not found["passed"]
    assert found["tensors"]["gradient"]["failed"] == found["tensors"]["gradient"]["count"]


def test_steps_that_do_nothing_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    observed = right(TRAIN)
    first = Observed({k: observed.values[k] for k in ("loss_0", "grad_norm")}, {"gradient": observed.tensors["gradient"]})
    monkeypatch.setattr("framebench.worker.verification.first_update", lambda adapter: ([0.1], first))
    run = timed(TRAIN, observed)
    assert again(run, [3.0, 2.0, 1.0])["passed"]
    every_other = again(run, [3.0, 2.0, 2.0, 1.0, 1.0])
    assert (every_other["passed"], every_other["unmoved_steps"]) == (False, 2)


def test_a_tolerance_is_four_honest_errors_and_never_less_than_rounding() -> None:
    for case in (TRAIN, EVAL, FROZEN):
        observed = right(case)
        for kind, tensors in observed.tensors.items():
            for name in tensors:
                assert min(tolerance(case.workload, "torch", "fp32", case.golden_key, kind, name)) >= MULTIPLE * LEAST["fp32"]
    found = compare(TRAIN, right(TRAIN), wanted(TRAIN))  # type: ignore[arg-type]
    assert found["margin"] == 0


def test_biased_variances_are_compared_as_unbiased_ones() -> None:
    """Two forward passes over n values each, in both ways of counting."""
    n, kept = 16, 0.9
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((2, n, 5))
    name = "bn1.running_var"
    start = np.ones(5, np.float32)
    unbiased, biased = start.astype(float), start.astype(float)
    for x in samples:
        unbiased = kept * unbiased + (1 - kept) * x.var(0, ddof=1)
        biased = kept * biased + (1 - kept) * x.var(0)
    jax = adapter(
        parse("resnet50/jax/train/fp32/b4/tiny"), biased_variance=True, micro=1, config=None,
    )  # fmt: skip
    jax.workload = SimpleNamespace(normalised=lambda config, batch: {name: n})
    ((_, found),) = corrected(jax, [(name, biased)], {name: start}, 2)
    assert not np.allclose(biased, unbiased, rtol=1e-3)
    assert np.allclose(found, unbiased, rtol=1e-12)


def test_relative_errors_are_of_the_norm_that_is_wanted() -> None:
    assert errors((2.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))[0] == 1
