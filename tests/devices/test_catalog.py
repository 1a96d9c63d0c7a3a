"""The catalog of devices: unknown ones name the nearest, and figures are those of one chip."""

import json

import pytest

from framebench.devices.catalog import DEVICES, UnknownDevice, find
from tests.processes import framebench


def test_a_device_is_found_by_name():
    assert find("h100-80gb").memory_bytes == 84942979072
    assert find("H100-80GB") is find("h100-80gb")
    assert find("rtx4090") is find("rtx4090-24gb")
    assert find("v5e") is find("tpu-v5e")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("a100", "a100-80gb"),
        ("rtx-4090", "rtx4090-24gb"),
        ("tpu-v5", "tpu-v5p"),
    ],
)
def test_an_unknown_device_names_the_nearest_and_all(name, nearest):
    with pytest.raises(
        UnknownDevice,
        match=f"no device '{name}'; the nearest is {nearest}; devices: h100-80gb, .*tpu-v6e",
    ):
        find(name)


def test_every_device_says_where_its_figures_come_from():
    for device in DEVICES:
        assert device.source
        assert device.gib > 7
        if device.kind == "gpu":
            assert device.cores > 0
            assert min(device.threads_per_core, device.bandwidth) > 0
        else:
            assert device.topology


def test_devices_are_found_by_a_part_of_their_names():
    listed = framebench("devices", "40gb", "--json")
    assert [device["name"] for device in json.loads(listed.stdout)] == ["a100-40gb"]
    assert "a100-40gb" in framebench("devices", "A100 SXM 40 GB").stdout
