"""Tolerances follow from rounding errors, and from nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from framebench.models import spec
from framebench.suite import tolerance as t
from framebench.suite.registry import STRATEGIES

GRADIENT = {"fc.bias": (1e-5, 4e-5)}


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Entries of honest.json by machine, written when they are asked for."""
    entries: dict[str, Any] = {}

    def path(workload: str) -> Path:
        (tmp_path / "honest.json").write_text(json.dumps({"machines": entries}))
        return tmp_path / "honest.json"

    monkeypatch.setattr(t, "path", path)
    monkeypatch.setattr(t, "one_by_one", lambda workload, key: 0.0)  # of a workload that there is not
    forget()
    yield entries
    forget()


def forget() -> None:
    for cached in (t.machines, t.measured, t.nearest, t.widest, t.rounding_errors):
        cached.cache_clear()


def entry(**errors: Any) -> dict[str, Any]:
    """Errors of `tiny/train/b4` in float32, by framework."""
    return {"errors": {f: {"fp32": {"tiny/train/b4": {"gradient": found}}} for f, found in errors.items()}}


def allowed(framework: str = "torch", precision: str = "fp32", key: str = "tiny/train/b4", name: str = "fc.bias") -> t.Pair:
    return t.tolerance("w", framework, precision, key, "gradient", name)


def test_four_times_the_largest_over_machines(machines: dict[str, Any]) -> None:
    machines["one"] = entry(torch=GRADIENT)
    machines["other"] = entry(torch={"fc.bias": (3e-5, 2e-5)})
    assert allowed() == (max(4 * 3e-5, 4e-5), 4 * 4e-5)


def test_a_framework_that_rounds_worse_widens_no_other(machines: dict[str, Any]) -> None:
    machines["m"] = entry(torch=GRADIENT, jax={"fc.bias": (1e-5, 8e-5)}, jittor={"fc.bias": (1e-2, 1e-2)})
    assert allowed("jittor") == (4e-2, 4e-2)
    assert allowed("torch") == allowed("jax") == (8e-5, 4 * 8e-5), "the middle of three: what was close by luck is no measure"


def test_what_was_not_measured_itself_is_known_no_better_than_what_was(machines: dict[str, Any]) -> None:
    machines["m"] = entry(torch=GRADIENT, jax=GRADIENT, jittor=GRADIENT)
    machines["m"]["errors"]["jittor"]["fp32"]["cpu/train/b4"] = {"gradient": {"fc.bias": (1e-3, 1e-3)}}
    assert allowed("torch", key="cpu/train/b4") == (4e-3, 4e-3)
    machines["m"]["errors"]["torch"]["fp32"]["cpu/train/b4"] = {"gradient": GRADIENT}
    forget()
    assert allowed("torch", key="cpu/train/b4") == allowed("torch") == (4e-5, 4 * 4e-5)


def test_nothing_is_known_better_than_it_is_rounded(machines: dict[str, Any]) -> None:
    machines["m"] = entry(torch={"fc.bias": (0.0, 1e-12)})
    assert allowed() == (4 * t.LEAST["fp32"],) * 2
    assert allowed(name="never.seen") == (4 * t.LEAST["fp32"],) * 2


def test_an_update_is_known_as_well_in_every_precision(machines: dict[str, Any]) -> None:
    machines["m"] = entry(torch=GRADIENT)
    for precision in t.LEAST:
        assert t.tolerance("w", "torch", precision, "tiny/train/b4", "update", "fc.bias") == (4 * t.LEAST_OF_UPDATE,) * 2


@pytest.mark.parametrize(
    "key", ["tiny/train/b8", "tiny/train/b4/student", "full/train/b64", "cpu/train/b8/m4", "cpu/finetune/b8"]
)
def test_the_nearest_that_was_measured_stands_in(key: str, machines: dict[str, Any]) -> None:
    machines["m"] = entry(torch=GRADIENT)
    assert allowed(key=key) == allowed()


@pytest.mark.parametrize("apart", ["m4", "adafactor"])
def test_its_own_group_counts_alone(apart: str, machines: dict[str, Any]) -> None:
    machines["m"] = entry(torch=GRADIENT)
    machines["m"]["errors"]["torch"]["fp32"][f"tiny/train/b4/{apart}"] = {"gradient": {"fc.bias": (1e-2, 1e-2)}}
    assert allowed() == (4e-5, 4 * 4e-5)
    assert allowed(key=f"tiny/train/b8/{apart}") == (4e-2, 4e-2)


def test_an_optimizer_in_the_place_of_the_workloads_has_tolerances_of_its_own() -> None:
    own = [p.mathematics for p in STRATEGIES.values() if p.optimizer]
    assert own
    for name in own:
        assert t.group(f"tiny/train/b4/{name}") != t.group("tiny/train/b4")


def test_a_precision_that_was_not_measured_rounds_no_worse_than_a_coarser_one(machines: dict[str, Any]) -> None:
    machines["m"] = {"errors": {"torch": {"bf16": {"tiny/train/b4": {"gradient": {"fc.bias": (1e-2, 1e-2)}}}}}}
    assert allowed(precision="tf32") == allowed(precision="fp16") == allowed(precision="bf16") == (4e-2, 4e-2)


def test_evaluation_in_a_precision_says_nothing_of_training_in_it(machines: dict[str, Any]) -> None:
    """Its buffers, as a norm's means, do not move."""
    trained, evaluated = {"buffer": {"fc.bias": (1e-2, 1e-2)}}, {"buffer": {"fc.bias": (0.0, 0.0)}}
    coarser = {"tiny/train/b4": trained, "tiny/eval/b4": evaluated}
    machines["m"] = {"errors": {"torch": {"bf16": coarser, "fp16": {"tiny/eval/b4": evaluated}}}}
    assert t.tolerance("w", "torch", "fp16", "tiny/train/b4", "buffer", "fc.bias") == (4e-2, 4e-2)
    assert max(t.tolerance("w", "torch", "fp16", "tiny/eval/b4", "buffer", "fc.bias")) < 1e-3


def test_a_branch_of_a_relu_widens_the_tolerance_of_its_own_key_alone(machines: dict[str, Any]) -> None:
    machines["m"] = entry(torch=GRADIENT)
    keys = machines["m"]["errors"]["torch"]["fp32"]
    keys |= {f"tiny/train/b{batch}": {"gradient": {"fc.bias": (2e-5, 4e-5)}} for batch in (8, 16)}
    keys["tiny/train/b4/student"] = {"gradient": {"fc.bias": (3e-2, 2e-1)}}
    assert allowed() == allowed(key="tiny/train/b2") == (8e-5, 16e-5)
    assert allowed(key="tiny/train/b4/student") == (max(4 * 3e-2, 2e-1), 4 * 2e-1)


def test_what_is_a_little_worse_than_usual_counts_for_all(machines: dict[str, Any]) -> None:
    machines["m"] = entry(torch=GRADIENT)
    machines["m"]["errors"]["torch"]["fp32"]["tiny/train/b8"] = {"gradient": {"fc.bias": (9e-3, 9e-3)}}
    assert allowed() == (4 * 9e-3, 4 * 9e-3)


@pytest.mark.parametrize(("workload", "key"), [("unet3d", "tiny/train/b4"), ("transformer", "cpu/train/b4")])
def test_adding_one_term_after_the_other_is_not_wrong(workload: str, key: str) -> None:
    """The rule's size, against sums in float32 that are made so."""
    inputs = spec.workload(workload).batch(spec.workload(workload).config(key.split("/")[0]), 4)[0]
    terms = np.random.default_rng(0).standard_normal((200, inputs[:, 0].size if inputs.ndim > 2 else inputs.size))
    single = np.cumsum(terms.astype(np.float32), axis=1, dtype=np.float32)[:, -1]
    off = np.sqrt(np.mean((single - terms.sum(1)) ** 2)) / np.sqrt(terms.shape[1])
    allowed = t.one_by_one(workload, key)
    assert off < allowed < 4 * off
    for kind in ("gradient", "buffer"):
        assert t.tolerance(workload, "torch", "fp32", key, kind, "no such tensor")[0] >= t.MULTIPLE * allowed


@pytest.mark.parametrize(
    ("shape", "features"), [((8, 3, 32, 32), 3), ((8, 32, 32, 3), 3), ((8, 128, 16), 16), ((8,), 1), ((8, 20), 1)]
)
def test_of_a_users_input_the_smallest_axis_is_taken_for_features(
    shape: tuple[int, ...], features: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which axis has them is not known; to take a smaller one allows for more terms, never for fewer."""
    own = SimpleNamespace(input_shape=lambda size, batch: (batch, *shape[1:]))
    monkeypatch.setattr(spec, "workload", lambda name: own)
    t.one_by_one.cache_clear()
    try:
        assert t.one_by_one(spec.OWN, "net/train/b8") == 2.0**-24 * math.sqrt(math.prod(shape) / features / 2)
    finally:
        t.one_by_one.cache_clear()
