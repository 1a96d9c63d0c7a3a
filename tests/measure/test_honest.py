"""Which honest computations tolerances come from."""

from __future__ import annotations

from dataclasses import fields
from fnmatch import fnmatch

import numpy as np
import pytest

from framebench.measure.honest import BROKEN, ROUNDS, cases
from framebench.suite.profiles import every_case
from framebench.suite.selectors import parse
from framebench.worker.honest import Nudged
from models.spec import NAMES


@pytest.mark.parametrize("size", ["tiny", "cpu"])
@pytest.mark.parametrize("workload", NAMES)
def test_all_that_may_change_the_order_of_sums_is_measured(workload: str, size: str) -> None:
    """Once for each framework and scenario, but for what is wrong and what a processor cannot run."""
    measured = {(c.framework, c.scenario, c.strategy) for c in cases(workload, size)}
    for case in every_case():
        if (case.workload, case.size) == (workload, size) and case.support.supported and not case.support.gpu:
            left_out = any(fnmatch(case.id, pattern) for pattern in BROKEN)
            if not left_out and any(part.axis in ROUNDS for part in case.plan.parts):
                assert (case.framework, case.scenario, case.strategy) in measured


def test_a_case_in_which_a_framework_is_wrong_widens_no_tolerance() -> None:
    ids = {size: {c.id for c in cases("unet3d", size)} for size in ("tiny", "cpu")}
    assert "unet3d/torch/train/amp_bf16/b4/cpu" not in ids["cpu"]
    assert "unet3d/jax/train/amp_bf16/b4/cpu" in ids["cpu"]
    assert "unet3d/torch/train/amp_bf16/b4/tiny" in ids["tiny"]
    assert all(any(fnmatch(case.id, pattern) and case.support.supported for case in every_case()) for pattern in BROKEN)


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
