"""The weights must have moved as the optimizer's own states say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from framebench.adapters.base import State
from framebench.models.spec import USER_MODEL, Optimizer
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from framebench.worker import optimizer_check
from framebench.worker.optimizer_check import OptimizerCheck
from framebench.worker.tolerances import UPDATE, Tolerances
from framebench.worker.verification import compare_updates

ADAM = parse("transformer/torch/train/amp_bf16/b4/tiny")
SGD = parse("resnet50/torch/train/amp_bf16/b4/tiny")
WEIGHT_BY_OPTIMIZER = {"adamw": "blocks.0.fc1.weight", "sgd": "conv1.weight"}
NO_TOLERANCE_BUT_UPDATES = Tolerances(values={}, tensors={}, update=UPDATE)
each_optimizer = pytest.mark.parametrize("case", [ADAM, SGD], ids=["adam", "sgd"])


class NumpyAdapter:
    """Trains a weight by NumPy in float32, with random gradients.

    `optimizer`: SGD or Adam with the settings that it is trained with.
    """

    def __init__(self, case: Case, optimizer: Optimizer) -> None:
        self.case = case
        self.optimizer = optimizer
        self.name = WEIGHT_BY_OPTIMIZER[optimizer.name]
        self.weight = case.weights[self.name].copy()
        self.first = np.zeros_like(self.weight)
        self.second = np.zeros_like(self.weight)
        self.steps = 0
        self.rng = np.random.default_rng(0)

    def step(self) -> None:
        self.steps += 1
        gradient = self.rng.standard_normal(self.weight.shape, np.float32)
        if self.optimizer.name == "sgd":
            self.step_sgd(gradient)
        else:
            self.step_adamw(gradient)

    def step_sgd(self, gradient: np.ndarray) -> None:
        """Take a step of SGD, whose momentum is `first`."""
        self.first = self.optimizer.momentum * self.first + gradient
        self.weight -= self.optimizer.lr * self.first

    def step_adamw(self, gradient: np.ndarray) -> None:
        """Take a step of AdamW (Algorithm 2 of https://arxiv.org/abs/1711.05101)."""
        settings = self.optimizer
        beta1, beta2 = settings.betas
        self.first = beta1 * self.first + (1 - beta1) * gradient
        self.second = beta2 * self.second + (1 - beta2) * gradient**2
        # without the bias of moments that began at zero
        first = self.first / (1 - beta1**self.steps)
        second = self.second / (1 - beta2**self.steps)
        direction = first / (np.sqrt(second) + settings.eps)
        decay = settings.weight_decay * self.weight
        self.weight -= settings.lr * (direction + decay)

    def states(self) -> Iterator[State]:
        for kind, array in zip(self.optimizer.states, (self.first, self.second)):
            yield State(kind, self.name, array, array.nbytes)

    def weights(self) -> Iterator[tuple[str, np.ndarray]]:
        yield self.name, self.weight


def make_adapter(case: Case, **settings: float) -> Any:
    """Return an adapter whose optimizer differs from the case's in these settings."""
    return NumpyAdapter(case, replace(case.workload_spec.optimizer, **settings))


def compute_errors(case: Case, **settings: float) -> dict[str, float]:
    """Return the errors of two updates by an optimizer with other settings than the case's."""
    adapter = make_adapter(case, **settings)
    adapter.step()
    check = OptimizerCheck(adapter, case.weights)
    adapter.step()
    check.record_update(adapter)
    return check.compute_errors(adapter)


@each_optimizer
def test_textbook_update_passes(case):
    errors = compute_errors(case)
    assert errors.keys() == {WEIGHT_BY_OPTIMIZER[case.workload_spec.optimizer.name]}
    assert max(errors.values()) < 1e-3  # not zero: weights in float32 round
    assert compare_updates(errors, NO_TOLERANCE_BUT_UPDATES).margin < 1


@pytest.mark.parametrize(
    ("case", "settings"),
    [
        (SGD, {"lr": 5e-4}),
        (ADAM, {"weight_decay": 0.0}),
        (ADAM, {"eps": 1e-2}),
    ],
    ids=["half the rate of SGD", "no weight decay of Adam", "another eps of Adam"],
)
def test_update_with_another_setting_is_wrong(case, settings):
    comparison = compare_updates(compute_errors(case, **settings), NO_TOLERANCE_BUT_UPDATES)
    assert comparison.margin > 1
    assert comparison.failed


@each_optimizer
def test_errors_do_not_depend_on_the_chunks(case, monkeypatch):
    whole = compute_errors(case)
    monkeypatch.setattr(optimizer_check, "CHUNK", 7)
    assert compute_errors(case) == whole


def test_narrow_weights_are_left_out():
    """float16 rounds the change away."""
    adapter = make_adapter(ADAM)
    adapter.step()
    check = OptimizerCheck(adapter, ADAM.weights)
    adapter.weight = adapter.weight.astype(np.float16)
    assert check.compute_errors(adapter) == {}


@each_optimizer
def test_skipped_update_is_wrong(case):
    """The states stay with the weight: it is missed all the same."""
    adapter = make_adapter(case)
    adapter.step()
    check = OptimizerCheck(adapter, case.weights)
    check.record_update(adapter)
    assert check.compute_errors(adapter)[adapter.name] > UPDATE


class TwoWeights(NumpyAdapter):
    """Trains a user's model of two layers, of which a step may leave one as it is.

    `skipped`: the weights that the baseline's updates leave as they are.
    """

    def __init__(self, case: Case, skipped: list[str]) -> None:
        super().__init__(case, case.workload_spec.optimizer)
        workload_spec = SimpleNamespace(facts={"skipped": {"mine/train/b4": skipped}})
        self.case: Any = SimpleNamespace(
            workload=USER_MODEL,
            optimizer=case.workload_spec.optimizer,
            workload_spec=workload_spec,
            golden_key="mine/train/b4",
        )
        self.other = NumpyAdapter(case, case.workload_spec.optimizer)
        self.other.name = "other layer"

    def states(self) -> Iterator[State]:
        yield from super().states()
        yield from self.other.states()

    def weights(self) -> Iterator[tuple[str, np.ndarray]]:
        yield from super().weights()
        yield from self.other.weights()


def make_two_weights(case: Case, skipped: list[str]) -> tuple[Any, OptimizerCheck]:
    """Return an adapter that has made two steps, the second of the other layer only."""
    adapter = TwoWeights(case, skipped)
    before = {name: weight.copy() for name, weight in adapter.weights()}
    adapter.step()
    adapter.other.step()
    check = OptimizerCheck(adapter, before)
    adapter.other.step()
    check.record_update(adapter)
    return adapter, check


@each_optimizer
def test_a_layer_that_a_users_step_drops_stays(case):
    adapter, check = make_two_weights(
        case, skipped=[WEIGHT_BY_OPTIMIZER[case.workload_spec.optimizer.name]]
    )
    assert max(check.compute_errors(adapter).values()) < UPDATE
    # it must not move in such a step
    adapter.weight *= np.float32(1.01)
    assert check.compute_errors(adapter)[adapter.name] > UPDATE


@each_optimizer
@pytest.mark.parametrize(
    "skipped_by_baseline", [[], ["other layer"]], ids=["no weight", "another weight"]
)
def test_a_weight_that_only_the_strategy_skips_is_wrong(case, skipped_by_baseline):
    """In a low precision the tolerance of its moments is too wide to show that: its missing update
    does.
    """
    adapter, check = make_two_weights(case, skipped_by_baseline)
    assert check.skipped == {adapter.name}
    errors = check.compute_errors(adapter)
    assert errors[adapter.name] > UPDATE
    assert errors["other layer"] < UPDATE


@each_optimizer
@pytest.mark.parametrize("skips_all", [False, True])
def test_a_users_step_without_update_is_wrong_unless_the_baseline_has_none(case, skips_all):
    name = WEIGHT_BY_OPTIMIZER[case.workload_spec.optimizer.name]
    adapter, check = make_two_weights(case, [name, "other layer"] if skips_all else [name])
    check.record_update(adapter)
    assert (max(check.compute_errors(adapter).values()) > UPDATE) == (not skips_all)


class ComplexWeight:
    """Trains complex numbers by SGD, by PyTorch's formula; `wrong` of the update is left out."""

    def __init__(self, wrong: complex = 0) -> None:
        self.case = SGD
        self.rng = np.random.default_rng(0)
        self.weight = self.draw()
        self.momentum = np.zeros_like(self.weight)
        self.wrong = wrong

    def draw(self) -> np.ndarray:
        pairs = self.rng.standard_normal((5, 3, 2), np.float32)
        return pairs.view(np.complex64)[..., 0]

    def step(self) -> None:
        optimizer = SGD.workload_spec.optimizer
        self.momentum = np.complex64(optimizer.momentum) * self.momentum + self.draw()
        update = self.momentum.real * (1 - self.wrong.real)
        update = update + 1j * self.momentum.imag * (1 - self.wrong.imag)
        self.weight = (self.weight - optimizer.lr * update).astype(np.complex64)

    def states(self) -> Iterator[State]:
        yield State("momentum", "filter", self.momentum, self.momentum.nbytes)

    def weights(self) -> Iterator[tuple[str, np.ndarray]]:
        yield "filter", self.weight


@pytest.mark.filterwarnings("error")  # NumPy warns where it drops an imaginary part
@pytest.mark.parametrize(("wrong", "is_wrong"), [(0, False), (0.5, True), (0.5j, True)])
def test_both_parts_of_a_complex_weight_are_compared(wrong, is_wrong):
    adapter: Any = ComplexWeight(complex(wrong))
    before = dict(adapter.weights())
    adapter.step()
    check = OptimizerCheck(adapter, before)
    adapter.step()
    check.record_update(adapter)
    assert (check.compute_errors(adapter)["filter"] > UPDATE) == is_wrong
