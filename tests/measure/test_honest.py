"""Which honest computations tolerances come from."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest

from framebench.measure.honest import ROUNDS, cases
from framebench.suite.profiles import every_case
from framebench.suite.selectors import parse
from framebench.worker.honest import Nudged, off
from models.spec import NAMES


@pytest.mark.parametrize("size", ["tiny", "cpu"])
@pytest.mark.parametrize("workload", NAMES)
def test_all_that_may_change_the_order_of_sums_is_measured(workload: str, size: str) -> None:
    """Once for each framework and scenario, but for what a processor cannot run."""
    measured = {(c.framework, c.scenario, c.strategy) for c in cases(workload, size)}
    for case in every_case():
        here = (case.workload, case.size) == (workload, size) and case.support.supported and not case.support.gpu
        if here and any(part.axis in ROUNDS for part in case.plan.parts):
            assert (case.framework, case.scenario, case.strategy) in measured


def test_a_case_in_which_a_framework_is_wrong_widens_no_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty = SimpleNamespace(known_fault=lambda: "a kernel leaves it unwritten")
    monkeypatch.setattr("framebench.adapters.load", lambda case: faulty)
    assert off(parse("unet3d/torch/train/amp_bf16/b4/cpu")) == {"reason": "a kernel leaves it unwritten"}


def test_nudged_weights_are_as_good_as_the_canonical_ones() -> None:
    case = parse("resnet50/torch/train/fp32/b4/tiny")
    first, second = (Nudged(**{f.name: getattr(case, f.name) for f in fields(case)}, seed=seed) for seed in range(2))
    assert first.golden_key == case.golden_key
    for name, plain in case.weights.items():
        moved, other = first.weights[name], second.weights[name]
        assert moved.dtype == np.float32
        assert np.all((moved == plain) | (moved == np.nextafter(plain, np.float32(0))))
        if plain.size > 100:
            assert 0.3 < np.mean(moved != plain) < 0.7
            assert np.any(moved != other)
