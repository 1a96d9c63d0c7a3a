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


CONVERTED = """
import torch
from torch import nn

def model():
    layers = nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 8, 3), nn.Flatten()
    return nn.Sequential(*layers).to(torch.bfloat16).to(memory_format=torch.channels_last)

def batch(n):
    return torch.randn(n, 3, 32, 32, dtype=torch.bfloat16), torch.zeros(n, dtype=torch.long)

def loss(output, target):
    return nn.functional.cross_entropy(output.float(), target)
"""


@pytest.mark.slow
def test_predict_takes_a_file_and_says_what_convolutions_may_add(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here no cuDNN can be asked. The model is converted after it was made."""
    monkeypatch.setenv("FRAMEBENCH_CUDNN", str(tmp_path))
    file = tmp_path / "mine.py"
    file.write_text(CONVERTED)
    asked = ("--device", "a100-40gb", "--results", str(tmp_path / "results"))
    done = framebench("predict", str(file), "--batch", "64", *asked)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "PyTorch with convolutions whose workspaces are not known" in text
    combined = "amp_fp16+channels_last+fused_optimizer"
    done = framebench("predict", str(file), *asked, "--strategies", combined, "--json")
    assert done.returncode == 0, done.stderr
    (planned,) = json.loads(done.stdout)
    assert planned["case"].split("/")[3] == combined
    assert planned["outcome"] == "planned"


@pytest.mark.slow
@pytest.mark.parametrize("command", [("max-batch",), ("try", "--max-batch")])
def test_the_largest_batch_of_a_file_is_searched_on_the_device(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    name, *flags = command
    strategies = ("--strategies", "fp32")
    asked = ("--device", "rtx4090-24gb", "--budget", "2GiB", "--json")
    results = ("--results", str(tmp_path / "results"))
    done = framebench(name, str(file), *flags, *strategies, *asked, *results)
    assert done.returncode == 0, done.stderr
    (offer,) = json.loads(done.stdout)["offers"]
    assert offer["fits"]
    batch = int(offer["case"].split("/")[4].removeprefix("b"))
    # segments of 20 MiB hide how little one more of these samples takes
    assert offer["next_batch_was_tried"] or offer["not_certain_from"] <= 1.2 * batch
    # a sample has two inputs and some activations of 4 KiB each in every layer
    assert 1000 < batch < 2**30 // (2 * 4096)
    assert offer["needs_bytes"] <= 2 * 2**30


@pytest.mark.slow
def test_a_file_that_compiles_its_model_is_not_answered_as_eager(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE.replace("return nn.Sequential(*[layer()", "return compiled(*[layer()"))
    file.write_text(
        file.read_text()
        + "\ndef compiled(*layers):\n    return torch.compile(nn.Sequential(*layers))\n"
    )
    asked = ("--device", "rtx4090-24gb", "--results", str(tmp_path / "results"), "--json")
    done = framebench("predict", str(file), *asked)
    (planned,) = json.loads(done.stdout)
    assert planned["outcome"] == "not planned"
    assert "compiles its model" in planned["reason"]


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("amp_fp16+nothing", "no strategy 'nothing' for a user model"),
        ("amp_fp16+amp_bf16", "amp_fp16+amp_bf16"),
    ],
)
def test_a_combination_that_does_not_exist_is_refused(
    tmp_path: Path, strategy: str, message: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    asked = ("--device", "rtx4090-24gb", "--strategies", strategy)
    done = framebench("predict", str(file), *asked)
    assert done.returncode == 2
    assert message in done.stderr


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
