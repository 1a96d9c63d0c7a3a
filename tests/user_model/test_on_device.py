"""`framebench try --device`: what a user's model needs on a device that is not here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import framebench

FILE = """
import torch
from torch import nn

WIDTH = 1024

def model():
    def layer():
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Dropout(0.1))
    return nn.Sequential(*[layer() for _ in range(4)])

def batch(n):
    return torch.randn(n, WIDTH), torch.randn(n, WIDTH)

def loss(output, target):
    return ((output - target) ** 2).mean()

def optimizer(parameters):
    return torch.optim.Adam(parameters)
"""
MIB = 2**20
pytestmark = pytest.mark.usefixtures("imported_once")


@pytest.mark.slow
def test_a_model_is_predicted_with_its_dropout_and_its_optimizer(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    done = framebench(
        "try",
        str(file),
        "--batch",
        "8",
        "--device",
        "rtx4090-24gb",
        "--strategies",
        "offload,compile",
        "--json",
        "--results",
        str(tmp_path / "results"),
    )
    assert done.returncode == 0, done.stderr
    assert "4,198,400 parameters, 4 blocks" in done.stderr
    by_strategy = {
        offer["case"].split("/")[3]: offer for offer in json.loads(done.stdout)["offers"]
    }
    assert set(by_strategy) == {"fp32", "offload", "compile"}, "what needs a GPU is told for one"
    # weights, gradients and two moments are 64 MiB, and foreach Adam's temporaries once more the
    # weights
    assert 64 * MIB < by_strategy["fp32"]["peak_bytes"] < 128 * MIB
    assert by_strategy["fp32"]["source"] == "allocator.simulated"
    assert by_strategy["compile"]["fits"] is None
    planned = list((tmp_path / "results" / "planned").rglob("*.jsonl"))
    assert {path.parent.name for path in planned} == {"rtx4090-24gb"}


FLAX = """
import jax
import optax
from flax import nnx

WIDTH = 1024

def model():
    rngs = nnx.Rngs(0)
    def layer():
        return nnx.Sequential(nnx.Linear(WIDTH, WIDTH, rngs=rngs), nnx.relu)
    return nnx.Sequential(*[layer() for _ in range(4)])

def batch(n):
    x, y = jax.random.normal(jax.random.key(0), (2, n, WIDTH))
    return x, y

def loss(output, target):
    return ((output - target) ** 2).mean()

def optimizer():
    return optax.adam(1e-3)
"""


@pytest.mark.all_cases
@pytest.mark.slow
def test_a_model_in_flax_is_planned_with_its_optimizer(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FLAX)
    done = framebench(
        "try",
        str(file),
        "--batch",
        "8",
        "--device",
        "rtx4090-24gb",
        "--strategies",
        "no_donate",
        "--json",
        "--results",
        str(tmp_path / "results"),
    )
    assert done.returncode == 0, done.stderr
    assert "4,198,400 parameters" in done.stderr
    by_strategy = {
        offer["case"].split("/")[3]: offer for offer in json.loads(done.stdout)["offers"]
    }
    # weights and two moments are 48 MiB, gradients 16 more at the most; without donation all but
    # these are there twice
    assert 48 * MIB < by_strategy["fp32"]["peak_bytes"] < 72 * MIB
    assert by_strategy["no_donate"]["peak_bytes"] > by_strategy["fp32"]["peak_bytes"] + 40 * MIB
    assert by_strategy["fp32"]["source"] == "compiler.plan"


@pytest.mark.parametrize(
    ("code", "device", "message"),
    [
        (FILE, "rtx4090", "rtx4090-24gb"),
        (
            FILE.replace("torch.randn(n, WIDTH), ", ""),
            "rtx4090-24gb",
            "and it returned torch.Tensor;",
        ),
    ],
)
def test_invalid_files_and_devices_end_with_a_hint(
    tmp_path: Path, code: str, device: str, message: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(code)
    done = framebench("try", str(file), "--device", device, "--results", str(tmp_path / "results"))
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
