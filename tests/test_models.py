"""The mathematics: sizes, determinism, and the float64 references of two frameworks against each other."""

from __future__ import annotations

import numpy as np
import pytest

from framebench import golden
from framebench.environments import Environment
from models.spec import NAMES, Param, UnknownName, logits_summary, workload

PARAMETERS = {"resnet50": 25_557_032, "unet3d": 31_190_243, "transformer": 124_475_904}


@pytest.mark.parametrize("name", NAMES)
def test_full_size_has_the_published_number_of_parameters(name: str) -> None:
    assert workload(name).parameter_count("full") == PARAMETERS[name]


def test_small_presets_keep_their_shape() -> None:
    assert workload("resnet50").parameter_count("cpu") == 25_557_032
    assert workload("unet3d").parameter_count("cpu") == 1_035_243


def test_weights_depend_on_the_name_alone() -> None:
    one, two = Param("a", (4, 3), std=1.0), Param("b", (4, 3), std=1.0)
    assert np.array_equal(one.make(), Param("a", (4, 3), std=1.0).make())
    assert not np.array_equal(one.make(), two.make())
    assert one.make().dtype == np.float32


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_reproducible(name: str) -> None:
    w = workload(name)
    for a, b in zip(w.batch("tiny", 4), w.batch("tiny", 4)):
        assert np.array_equal(a, b)


def test_summary_sees_permutation_and_sign() -> None:
    logits = np.arange(1.0, 7.0)
    plain = logits_summary(logits)
    assert plain["logits_norm"] == pytest.approx(np.sqrt(91))
    assert logits_summary(logits[::-1])["logits_checksum"] != pytest.approx(plain["logits_checksum"])
    assert logits_summary(-logits)["logits_checksum"] == pytest.approx(-plain["logits_checksum"])


def test_unknown_names_are_answered() -> None:
    with pytest.raises(UnknownName, match="unet3d"):
        workload("unet2d")
    with pytest.raises(UnknownName, match="tiny, cpu, full"):
        workload("unet3d").preset("medium")


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize("name", NAMES)
def test_golden_values_hold_in_float64(name: str, framework: str, environment: dict[str, Environment]) -> None:
    """torch made them; JAX, an independent implementation, confirms them to float64 rounding."""
    values = golden.compute(name, environment[framework], ("tiny",))
    assert values
    assert golden.difference(values, {key: workload(name).golden[key] for key in values}) <= golden.AGREEMENT
