"""The mathematics: sizes, determinism, and the float64 references of two frameworks against each other."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from framebench.engine.environments import Environment
from framebench.models.spec import Param, UnknownName, list_workloads, load_workload
from framebench.references import golden

PARAMETERS = {"resnet50": 25_557_032, "unet3d": 31_190_243, "transformer": 124_475_904}


@pytest.mark.parametrize("name", PARAMETERS)
def test_full_size_has_the_published_number_of_parameters(name: str) -> None:
    assert load_workload(name).parameter_count(load_workload(name).config("full")) == PARAMETERS[name]


def test_small_presets_keep_their_shape() -> None:
    for name, count in (("resnet50", 25_557_032), ("unet3d", 1_035_243)):
        assert load_workload(name).parameter_count(load_workload(name).config("cpu")) == count


def test_variants_really_are_smaller() -> None:
    resnet = load_workload("resnet50")
    count = {v: resnet.parameter_count(resnet.config("full", v)) for v in ("", *resnet.variants)}
    assert count["depthwise"] < count["grouped"] < 0.65 * count[""]
    assert count["student"] < count["width_half"] < 0.3 * count[""]


def test_a_stream_holds_the_same_tokens_however_it_is_batched() -> None:
    w = load_workload("transformer")
    streams = {how: w.make_stream(w.config("tiny"), 4, how) for how in ("padded", "bucketed", "raw")}
    real = {how: np.sort(np.concatenate([y[y >= 0] for _, y in found])) for how, found in streams.items()}
    assert np.array_equal(real["padded"], real["bucketed"])
    assert np.array_equal(real["padded"], real["raw"])
    tokens = {how: sum(x.size for x, _ in found) for how, found in streams.items()}
    assert tokens["padded"] > tokens["bucketed"]
    assert tokens["padded"] > tokens["raw"]
    with pytest.raises(ValueError, match="padded, bucketed, raw"):
        w.make_stream(w.config("tiny"), 4, "packed")


def test_weights_depend_on_the_name_alone() -> None:
    one, two = Param("a", (4, 3), std=1.0), Param("b", (4, 3), std=1.0)
    assert np.array_equal(one.make(), Param("a", (4, 3), std=1.0).make())
    assert not np.array_equal(one.make(), two.make())
    assert one.make().dtype == np.float32


@pytest.mark.parametrize("name", list_workloads())
def test_inputs_are_reproducible(name: str) -> None:
    w = load_workload(name)
    for a, b in zip(w.make_batch(w.config("tiny"), 4), w.make_batch(w.config("tiny"), 4)):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("name", list_workloads())
def test_no_canonical_tensor_hides_anything(name: str) -> None:
    """None is constant, so that one left out, or put in another's place, changes the result; variances are positive."""
    w = load_workload(name)
    for variant in ("", *w.variants):
        tensors = w.make_weights(w.config("tiny", variant))
        for tensor, array in tensors.items():
            assert np.abs(array - array.mean()).min() > 0, tensor
            assert len(np.unique(array)) > 0.9 * min(array.size, 10_000), tensor
            assert array.min() > 0 or not tensor.endswith("running_var"), tensor
        same_shape = {array.shape: tensor for tensor, array in tensors.items()}
        assert all(tensor == same_shape[array.shape] or not np.array_equal(array, tensors[same_shape[array.shape]])
                   for tensor, array in tensors.items())  # fmt: skip


def test_unknown_names_are_answered() -> None:
    with pytest.raises(UnknownName, match="unet3d"):
        load_workload("unet2d")
    with pytest.raises(UnknownName, match="tiny, cpu, full"):
        load_workload("unet3d").preset("medium")
    with pytest.raises(UnknownName, match="width_half, student"):
        load_workload("unet3d").config("tiny", "grouped")


BASELINES = {"tiny/train/b4", "tiny/eval/b4"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "framework", "keys"),
    [
        *((name, "torch", ()) for name in list_workloads()),
        ("transformer", "jax", BASELINES),
        *(pytest.param(name, "jax", (), marks=pytest.mark.all_cells) for name in list_workloads()),
    ],
)
def test_golden_values_hold_in_float64(
    name: str, framework: str, keys: Collection[str], environment: dict[str, Environment]
) -> None:
    """torch made them; JAX, an independent implementation, confirms them to float64 rounding: for minutes where it has many
    layers to compile. In float32 every cell of JAX is compared with them. Without `keys` all of them."""
    w = load_workload(name)
    values = golden.compute(name, environment[framework], ("tiny",), but=[key for key in w.golden if keys and key not in keys])
    assert values.keys() >= set(keys)
    assert values
    stored = {key: {"values": w.golden[key], "tensors": w.golden_tensors[key]} for key in values}
    assert golden.measure_difference(values, stored) <= golden.AGREEMENT
