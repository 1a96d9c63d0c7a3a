"""The mathematics: sizes, determinism, and the float64 references of two frameworks."""

import numpy as np
import pytest

from framebench.models.spec import list_workloads, load_workload
from framebench.references import golden
from tests.marks import rarely

PARAMETERS = {"resnet50": 25_557_032, "unet3d": 31_190_243, "transformer": 124_475_904}


@pytest.mark.parametrize("name", PARAMETERS)
def test_full_size_has_the_published_number_of_parameters(name):
    workload = load_workload(name)
    assert workload.parameter_count(workload.config("full")) == PARAMETERS[name]


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_workload_says_whether_it_has_convolutions(name):
    workload = load_workload(name)
    axes = [len(param.shape) for param in workload.params(workload.config("tiny"))]
    # the weight of a convolution has two axes of channels, and those of its kernel
    assert workload.has_convolutions == (max(axes) > 2)


def test_a_stream_holds_the_same_tokens_however_it_is_batched():
    transformer = load_workload("transformer")
    sequences = []  # of all tokens that are no padding, with their targets
    sizes = []
    for how in ("padded", "bucketed", "raw"):
        pairs = []
        stream = transformer.make_stream(transformer.config("tiny"), 4, how)
        for tokens, targets in stream:
            is_real = targets >= 0
            pairs += zip(tokens[is_real].tolist(), targets[is_real].tolist(), strict=True)
        sequences.append(sorted(pairs))
        sizes.append(sum(tokens.size for tokens, _ in stream))
    padded, bucketed, raw = sizes
    assert sequences[0] == sequences[1] == sequences[2]
    assert padded > bucketed
    assert padded > raw


@pytest.mark.parametrize("name", list_workloads())
def test_no_canonical_tensor_hides_anything(name):
    """No tensor is constant or equals another, so that one left out or misplaced is seen."""
    workload = load_workload(name)
    for variant in ("", *workload.variants):
        first_of_shape = {}
        for tensor, array in workload.make_weights(workload.config("tiny", variant)).items():
            assert np.abs(array - array.mean()).min() > 0, tensor
            assert len(np.unique(array)) > 0.9 * min(array.size, 10_000), tensor
            assert array.min() > 0 or not tensor.endswith("running_var"), tensor
            if array.shape in first_of_shape:
                assert not np.array_equal(array, first_of_shape[array.shape]), tensor
            else:
                first_of_shape[array.shape] = array


def test_unknown_names_are_answered_by_the_valid_ones():
    unet, transformer = load_workload("unet3d"), load_workload("transformer")
    with pytest.raises(ValueError, match="unet3d"):
        load_workload("unet2d")
    with pytest.raises(ValueError, match="tiny, cpu, full"):
        unet.preset("medium")
    with pytest.raises(ValueError, match="width_half, student"):
        unet.config("tiny", "grouped")
    with pytest.raises(ValueError, match="bucketed, raw"):
        transformer.make_stream(None, 4, "packed")


BASELINES = {"tiny/train/b4", "tiny/eval/b4"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "framework", "keys"),
    [
        *((name, "torch", ()) for name in list_workloads()),
        ("transformer", "jax", BASELINES),
        *(rarely(name, "jax", ()) for name in list_workloads()),
    ],
)
def test_golden_values_hold_in_float64(name, framework, keys, environment):
    """PyTorch made the values, and JAX, an independent implementation, confirms them.

    JAX takes minutes to compile deep models, so `make test` checks only the values of `keys` there.
    No keys means every value.
    """
    workload = load_workload(name)
    unchecked = [key for key in workload.golden if key not in keys] if keys else []
    values = golden.compute_references(
        name, environment[framework], sizes=("tiny",), excluded_keys=unchecked
    )
    assert values.keys() >= set(keys)
    assert values
    stored = {}
    for key in values:
        stored[key] = {"values": workload.golden[key], "tensors": workload.golden_tensors[key]}
    assert golden.measure_difference(values, stored) <= golden.AGREEMENT
