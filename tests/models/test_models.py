"""The mathematics: sizes, determinism, and the float64 references of two frameworks against each
other.
"""

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
    assert (
        load_workload(name).parameter_count(load_workload(name).config("full")) == PARAMETERS[name]
    )


def test_small_presets_keep_their_shape() -> None:
    for name, count in (("resnet50", 25_557_032), ("unet3d", 1_035_243)):
        assert load_workload(name).parameter_count(load_workload(name).config("cpu")) == count


def test_variants_really_are_smaller() -> None:
    resnet = load_workload("resnet50")
    count = {v: resnet.parameter_count(resnet.config("full", v)) for v in ("", *resnet.variants)}
    assert count["depthwise"] < count["grouped"] < 0.65 * count[""]
    assert count["student"] < count["width_half"] < 0.3 * count[""]


def test_a_stream_holds_the_same_tokens_however_it_is_batched() -> None:
    transformer = load_workload("transformer")
    targets, sizes = {}, {}
    for how in ("padded", "bucketed", "raw"):
        stream = transformer.make_stream(transformer.config("tiny"), 4, how)
        real = [batch_targets[batch_targets >= 0] for _, batch_targets in stream]
        targets[how] = np.sort(np.concatenate(real))
        sizes[how] = sum(tokens.size for tokens, _ in stream)
    assert np.array_equal(targets["padded"], targets["bucketed"])
    assert np.array_equal(targets["padded"], targets["raw"])
    assert sizes["padded"] > sizes["bucketed"]
    assert sizes["padded"] > sizes["raw"]


def test_an_unknown_way_to_batch_is_answered_by_the_valid_ones() -> None:
    transformer = load_workload("transformer")
    with pytest.raises(ValueError, match="padded, bucketed, raw"):
        transformer.make_stream(transformer.config("tiny"), 4, "packed")


def test_weights_depend_on_the_name_alone() -> None:
    one, two = Param("a", (4, 3), std=1.0), Param("b", (4, 3), std=1.0)
    assert np.array_equal(one.make(), Param("a", (4, 3), std=1.0).make())
    assert not np.array_equal(one.make(), two.make())
    assert one.make().dtype == np.float32


@pytest.mark.parametrize("name", list_workloads())
def test_inputs_are_reproducible(name: str) -> None:
    workload = load_workload(name)
    inputs, targets = workload.make_batch(workload.config("tiny"), 4)
    same_inputs, same_targets = workload.make_batch(workload.config("tiny"), 4)
    assert np.array_equal(inputs, same_inputs)
    assert np.array_equal(targets, same_targets)


@pytest.mark.parametrize("name", list_workloads())
def test_no_canonical_tensor_hides_anything(name: str) -> None:
    """No tensor is constant or equals another, so that one left out or misplaced is seen."""
    workload = load_workload(name)
    for variant in ("", *workload.variants):
        first_of_shape: dict[tuple[int, ...], np.ndarray] = {}
        for tensor, array in workload.make_weights(workload.config("tiny", variant)).items():
            assert np.abs(array - array.mean()).min() > 0, tensor
            assert len(np.unique(array)) > 0.9 * min(array.size, 10_000), tensor
            assert array.min() > 0 or not tensor.endswith("running_var"), tensor
            if array.shape in first_of_shape:
                assert not np.array_equal(array, first_of_shape[array.shape]), tensor
            else:
                first_of_shape[array.shape] = array


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
        *(pytest.param(name, "jax", (), marks=pytest.mark.all_cases) for name in list_workloads()),
    ],
)
def test_golden_values_hold_in_float64(
    name: str, framework: str, keys: Collection[str], environment: dict[str, Environment]
) -> None:
    """torch made them; JAX, an independent implementation, confirms them to float64 rounding: for
    minutes where it has many layers to compile. In float32 every case of JAX is compared with them.
    Without `keys` all of them.
    """
    w = load_workload(name)
    values = golden.compute_references(
        name,
        environment[framework],
        ("tiny",),
        excluded_keys=[key for key in w.golden if keys and key not in keys],
    )
    assert values.keys() >= set(keys)
    assert values
    stored = {key: {"values": w.golden[key], "tensors": w.golden_tensors[key]} for key in values}
    assert golden.measure_difference(values, stored) <= golden.AGREEMENT
