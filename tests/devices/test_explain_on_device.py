"""`explain --device` leads on where the device refuses the case."""

from __future__ import annotations

import pytest

from framebench.devices import show
from framebench.devices.catalog import GIB
from framebench.devices.plans.planned import find_upper_needs
from tests.devices.fake_predictions import make_unplanned
from tests.processes import framebench

CASE = "transformer/jax/train/amp_bf16/b1/1.3B"


@pytest.mark.parametrize(
    ("device", "needs_gib", "larger"),
    [
        ("rtx3090-24gb", 27, "a100-40gb"),  # the smallest GPU with as much; no TPU
        ("rtx3090-24gb", 36, "h100-80gb"),  # with the error and a context more than 39.4 GiB
        ("rtx3090-24gb", None, "a100-40gb"),  # the compiler does not tell
        ("tpu-v5e", 20, "tpu-v6e"),
        ("b200", 200, None),
    ],
)
def test_a_refused_case_names_a_larger_device(device, needs_gib, larger, monkeypatch, tmp_path):
    needs_bytes = needs_gib and needs_gib * GIB
    refused = make_unplanned("refused", case=CASE, device=device, needs_bytes=needs_bytes)
    monkeypatch.setattr(show, "plan_with_progress", lambda *_: [refused])
    options = ("--device", device, "--results", tmp_path)
    done = framebench("explain", CASE, *options, code=2)
    command = f"framebench explain {CASE} --device {larger}"
    assert (command in done.stderr) == (larger is not None)
    if needs_gib:
        needs = f"{find_upper_needs(refused) / GIB:,.1f} GiB"
        assert f"does not fit: needs {needs}, and the device has " in done.stderr
    else:
        assert f"refused: {refused.reason}" in done.stderr
