"""The weights must have moved as the optimizer's own states say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from framebench.adapters.base import State
from framebench.models.spec import Optimizer
from framebench.suite.selectors import parse
from framebench.worker import optimizer_check
from framebench.worker.observe import Observed
from framebench.worker.optimizer_check import OptimizerCheck, divide_error
from framebench.worker.tolerances import UPDATE, Tolerances
from framebench.worker.verification import compare_updates

ADAM = parse("transformer/torch/train/amp_bf16/b4/tiny")
SGD = parse("resnet50/torch/train/amp_bf16/b4/tiny")
NAMES = {"adamw": ("ln_f.bias", "blocks.0.fc1.weight"), "sgd": ("fc.bias", "conv1.weight")}


class Trained:
    """NumPy's own optimizer in float32, whose gradients are any numbers at all."""

    def __init__(self, case: Any, o: Optimizer) -> None:
        self.case, self.o, self.workload = case, o, case.spec
        self.now = {name: case.weights[name].copy() for name in NAMES[o.name]}
        self.first, self.second = (
            {name: np.zeros_like(w) for name, w in self.now.items()} for _ in range(2)
        )
        self.count, self.rng = 0, np.random.default_rng(0)

    def step(self) -> None:
        self.count += 1
        o, t = self.o, self.count
        for name, w in self.now.items():
            g = self.rng.standard_normal(w.shape, np.float32)
            if o.name == "sgd":
                self.first[name] = o.momentum * self.first[name] + g
                w -= np.float32(o.lr) * self.first[name]
                continue
            self.first[name] = o.betas[0] * self.first[name] + (1 - o.betas[0]) * g
            self.second[name] = o.betas[1] * self.second[name] + (1 - o.betas[1]) * g * g
            spread = np.sqrt(self.second[name] / (1 - o.betas[1] ** t)) + o.eps
            w -= np.float32(o.lr * o.weight_decay) * w
            w -= np.float32(o.lr / (1 - o.betas[0] ** t)) * self.first[name] / spread

    def states(self) -> Any:
        kinds = (
            {"momentum": self.first}
            if self.o.name == "sgd"
            else {"first moment": self.first, "second moment": self.second}
        )
        found = (
            (kind, name, array) for kind, arrays in kinds.items() for name, array in arrays.items()
        )
        return iter([State(kind, name, array, array.nbytes) for kind, name, array in found])

    def weights(self) -> Any:
        return iter(self.now.items())


def followed(case: Any, **changed: float) -> dict[str, float]:
    run: Any = Trained(case, replace(case.spec.optimizer, **changed))
    run.step()
    check = OptimizerCheck(run, case.weights)
    run.step()
    check.record_update(run)
    return check.compute_errors(run)


@pytest.mark.parametrize("case", [ADAM, SGD], ids=str)
def test_what_the_textbook_says_passes(case: Any) -> None:
    found = followed(case)
    assert found.keys() == set(NAMES[case.spec.optimizer.name])
    assert max(found.values()) < 1e-3, "float32 weights round"
    assert compare_updates(found, Tolerances({}, {}, UPDATE)).margin < 1


@pytest.mark.parametrize(
    ("case", "changed"),
    [
        (SGD, {"lr": 5e-4}),
        (ADAM, {"lr": 1.5e-4}),
        (ADAM, {"weight_decay": 0.0}),
        (ADAM, {"eps": 1e-2}),
    ],
    ids=["half the rate of SGD", "half the rate of Adam", "no weight decay", "another eps"],
)
def test_another_rule_is_wrong_whatever_the_gradients_are(
    case: Any, changed: dict[str, float]
) -> None:
    found = compare_updates(followed(case, **changed), Tolerances({}, {}, UPDATE))
    assert found.margin > 1
    assert found.failed


@pytest.mark.parametrize(
    ("off", "size", "error"), [(0.0, 0.0, 0.0), (1.0, 0.0, float("inf")), (1.0, 2.0, 0.5)]
)
def test_a_weight_without_a_gradient_must_stay(off: float, size: float, error: float) -> None:
    assert divide_error(off, size) == error


@pytest.mark.parametrize("case", [ADAM, SGD], ids=str)
def test_a_weight_is_followed_in_parts_as_it_is_whole(
    case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = followed(case)
    monkeypatch.setattr(optimizer_check, "CHUNK", 7)
    assert followed(case) == whole


def test_a_state_that_is_missing_is_left_to_the_comparison_of_tensors() -> None:
    run: Any = Trained(ADAM, ADAM.spec.optimizer)
    whole = run.states
    run.states = lambda: iter([state for state in whole() if state.kind != "second moment"])
    run.step()
    assert OptimizerCheck(run, ADAM.weights).compute_errors(run) == {}


def test_narrow_weights_are_left_out() -> None:
    """A change of float16 weights is rounded away."""
    run: Any = Trained(ADAM, ADAM.spec.optimizer)
    run.step()
    check = OptimizerCheck(run, ADAM.weights)
    run.now = {name: w.astype(np.float16) for name, w in run.now.items()}
    assert check.compute_errors(run) == {}
    assert Observed({}).updates == {}
