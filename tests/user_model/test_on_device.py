"""`framebench try --device`: what a user's model needs on a device that is not here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from framebench.suite.user_file import Fault
from framebench.user_file import trial
from tests.processes import framebench
from tests.user_model.small_file import write_variant

TORCH = """
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
COMPILED = f"""{TORCH}
eager_model = model
def model():
    return torch.compile(eager_model())
"""
# a frozen weight, a trained one, and a buffer
MIXED = """
import torch
from torch import nn

class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(1024, 1024, bias=False, dtype=torch.FROZEN).requires_grad_(False)
        self.trained = nn.Linear(1024, 1024, bias=False, dtype=torch.TRAINED)
        self.register_buffer("scale", torch.ones(1024, 1024, dtype=torch.float16))

    def forward(self, x):
        x = self.frozen(x).to(self.trained.weight.dtype)
        return self.trained(x) * self.scale[0]

def model():
    return Mixed()

def batch(n):
    return torch.randn(n, 1024, dtype=torch.FROZEN), torch.randn(n, 1024)

def loss(output, target):
    return ((output - target) ** 2).mean()
"""
# as models of timm's and torchvision's compute their widths and rates, and draw their weights
COMPUTED = """
import torch
from torch import nn

def model():
    widths = (torch.linspace(1, 2, 2) * 512).int().tolist()
    rates = [rate.item() for rate in torch.linspace(0, 0.1, 2)]
    layers = nn.Linear(*widths, bias=False), nn.Dropout(rates[1])
    nn.init.trunc_normal_(layers[0].weight, std=0.02)
    return nn.Sequential(*layers)

def batch(n):
    return torch.randn(n, 512), torch.randn(n, 1024)

def loss(output, target):
    return ((output - target) ** 2).mean()
"""
# texts of LENGTH of 64 words each, packed one after the other
PACKED = """
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(100, 1024), nn.Linear(1024, 4096)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embedding(words), lengths.cpu(), batch_first=True)
        return self.layer(packed.data).relu().mean()

def model():
    return Packed()

def batch(n):
    return (torch.ones(n, 64, dtype=torch.long), torch.full((n,), LENGTH)), torch.zeros(())

def loss(output, target):
    return (output - target) ** 2
"""
# as in QLoRA
QUANTIZED = """
import bitsandbytes
import torch
from torch import nn

class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = bitsandbytes.nn.Linear4bit(
            1024, 1024, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4"
        )
        self.down, self.up = nn.Linear(1024, 16, bias=False), nn.Linear(16, 1024, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))

def model():
    return Adapted()

def batch(n):
    return torch.randn(n, 1024), torch.randn(n, 1024)

def loss(output, target):
    return ((output - target) ** 2).mean()

def optimizer(parameters):
    return bitsandbytes.optim.PagedAdamW8bit([p for p in parameters if p.requires_grad])
"""
THIN = 2 * 16 * 1024  # trained numbers of QUANTIZED
MIB = 2**20
pytestmark = pytest.mark.usefixtures("imported_once")


def run_on_file(
    command: str, code: str, folder: Path, *options: str, device: str = "rtx4090-24gb"
) -> subprocess.CompletedProcess[str]:
    """Run a command on a file with this code, for a device."""
    file = folder / "mine.py"
    file.write_text(code)
    usual = ("--device", device, "--results", str(folder / "results"))
    return framebench(command, str(file), *usual, *options)


def read_offers(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """Return what is offered, by strategy."""
    assert done.returncode == 0, done.stderr
    return {offer["case"].split("/")[3]: offer for offer in json.loads(done.stdout)["offers"]}


@pytest.mark.slow
def test_a_model_is_predicted_with_its_dropout_and_its_optimizer(tmp_path):
    done = run_on_file("try", TORCH, tmp_path, "--strategies", "offload,compile", "--json")
    offers = read_offers(done)
    assert "4,198,400 parameters, 4 blocks" in done.stderr
    assert set(offers) == {"fp32", "offload", "compile"}, "strategies that need a GPU too"
    # weights, gradients and two moments are 64 MiB, and foreach Adam's temporaries once more the
    # weights
    assert 64 * MIB < offers["fp32"]["peak_bytes"] < 128 * MIB
    assert offers["fp32"]["source"] == "allocator.simulated"
    assert offers["compile"]["fits"] is True
    assert offers["compile"]["source"] == "allocator.simulated"


@pytest.mark.slow
def test_a_file_may_move_its_model_and_its_batch_to_the_gpu_itself(tmp_path):
    peaks = set()
    for device in (None, '"cuda"', 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'):
        code = TORCH
        if device:
            code = code.replace("for _ in range(4)])", f"for _ in range(4)]).to({device})")
            code = code.replace("randn(n, WIDTH)", f"randn(n, WIDTH).to({device})")
            assert code.count(device) == 3
        done = run_on_file("predict", code, tmp_path, "--json")
        assert done.returncode == 0, done.stderr
        (planned,) = json.loads(done.stdout)
        assert planned["outcome"] == "planned", planned["reason"]
        peaks.add(planned["peak_bytes"])
    assert len(peaks) == 1


@pytest.mark.slow
def test_layers_of_8_bits_are_refused_with_those_that_are_predicted(tmp_path):
    layer = "bitsandbytes.nn.Linear8bitLt(WIDTH, WIDTH)"
    code = TORCH.replace("nn.Linear(WIDTH, WIDTH)", layer).replace(
        "import torch\n", "import bitsandbytes, torch\n"
    )
    done = run_on_file("predict", code, tmp_path)
    assert done.returncode == 2
    assert "Linear4bit is" in " ".join(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("frozen", "trained", "weights", "types"),
    [
        ("bfloat16", "float32", 2 + 4 + 2, "bfloat16 (50%) and float32 (50%)"),
        ("float32", "bfloat16", 4 + 2 + 2, "float32 (50%) and bfloat16 (50%)"),
    ],
)
def test_weights_are_predicted_in_the_types_that_the_file_gives_them(
    frozen, trained, weights, types, tmp_path
):
    code = MIXED.replace("FROZEN", frozen).replace("TRAINED", trained)
    done = run_on_file("predict", code, tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    (planned,) = json.loads(done.stdout)
    assert planned["outcome"] == "planned", planned["reason"]
    assert planned["parts"]["weights"] == weights * MIB
    assert planned["weight_types"] == types
    # a gradient has the type of its weight
    assert planned["parts"]["gradients"] == (4 if trained == "float32" else 2) * MIB


@pytest.mark.slow
def test_frozen_weights_of_4_bits_are_predicted_next_to_trained_ones(tmp_path):
    done = run_on_file("predict", QUANTIZED, tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    (planned,) = json.loads(done.stdout)
    assert planned["outcome"] == "planned", planned["reason"]
    # half a byte for each of 2^20 numbers
    assert planned["parts"]["weights"] == 0.5 * MIB + 4 * THIN
    assert planned["weight_types"] == "nf4 (97%) and float32 (3%)"


@pytest.mark.slow
@pytest.mark.parametrize("command", [("predict",), ("try", "--rounds", "0")], ids=" ".join)
def test_weights_of_4_bits_are_refused_without_a_device_with_the_way(command, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(QUANTIZED)
    done = framebench(*command[:1], str(file), *command[1:], code=2)
    assert "weight of 4 bits (nf4)" in done.stderr
    assert f"framebench predict {file} --device" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_a_file_may_compute_its_widths_by_tensors_and_draw_weights_within_bounds(tmp_path):
    done = run_on_file("predict", COMPUTED, tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    (planned,) = json.loads(done.stdout)
    assert planned["parts"]["weights"] == 512 * 1024 * 4


@pytest.mark.slow
def test_a_model_may_read_lengths_that_come_with_its_batch(tmp_path):
    temporaries = {}
    for length in (16, 48):
        code = PACKED.replace("LENGTH", str(length))
        done = run_on_file("predict", code, tmp_path, "--batch", "64", "--json")
        assert done.returncode == 0, done.stderr
        (planned,) = json.loads(done.stdout)
        temporaries[length] = planned["parts"]["temporaries"]
    assert temporaries[16] > 64 * 16 * 4096 * 4, "a gradient of the layer's result is among them"
    assert temporaries[48] == 3 * temporaries[16]


@pytest.mark.parametrize(
    ("types", "label"),
    [
        pytest.param({"float32": 8}, "own/torch/train/fp32/b4/mine", id="float32"),
        pytest.param({}, "own/torch/train/fp32/b4/mine", id="a framework that tells no types"),
        pytest.param(
            {"bfloat16": 8},
            "own/torch/train/as-written/b4/mine, with weights in bfloat16",
            id="bfloat16",
        ),
        pytest.param(
            {"float32": 1, "float16": 9},
            "own/torch/train/as-written/b4/mine, with weights in float16 (90%) and float32 (10%)",
            id="two types",
        ),
    ],
)
def test_a_label_says_in_which_types_a_file_is_simulated(types, label, tmp_path):
    model = trial.inspect_file(write_variant(tmp_path), 4)
    with trial.use_model(model) as folder:
        facts = folder / "own.json"
        facts.write_text(json.dumps(json.loads(facts.read_text()) | {"types": types}))
        assert model.baseline.label == label


@pytest.mark.parametrize(
    "command",
    [
        "predict FILE --strategies as-written,checkpoint --device a100-40gb",
        "max-batch FILE --strategies as-written --budget 1GiB",
        "try FILE --strategies as-written",
        "explain FILE --strategy as-written",
    ],
)
def test_the_baseline_may_be_named_as_tables_name_it(command, tmp_path, monkeypatch):
    """An unknown strategy is refused before an environment is chosen."""

    def stop(*arguments):
        raise Fault("an environment is chosen")

    monkeypatch.setattr(trial, "choose_environment", stop)
    file = write_variant(tmp_path)
    words = command.replace("FILE", str(file)).split()
    done = framebench(*words, results=tmp_path / "results", code=2)
    assert "an environment is chosen" in done.stderr


@pytest.mark.all_cases
@pytest.mark.slow
def test_a_model_in_flax_is_planned_with_its_optimizer(tmp_path):
    offers = read_offers(run_on_file("try", FLAX, tmp_path, "--strategies", "no_donate", "--json"))
    # weights and two moments are 48 MiB, gradients 16 more at the most; without donation all but
    # these are there twice
    peak = offers["fp32"]["peak_bytes"]
    assert 48 * MIB < peak < 72 * MIB
    assert offers["no_donate"]["peak_bytes"] > peak + 40 * MIB
    assert offers["fp32"]["source"] == "compiler.plan"


@pytest.mark.slow
@pytest.mark.parametrize("command", [("max-batch",), ("try", "--max-batch")])
def test_the_largest_batch_of_a_file_is_searched_on_the_device(tmp_path, command):
    name, *flags = command
    options = (*flags, "--strategies", "fp32", "--budget", "2GiB", "--json")
    offer = read_offers(run_on_file(name, TORCH, tmp_path, *options))["fp32"]
    assert offer["fits"]
    batch = int(offer["case"].split("/")[4].removeprefix("b"))
    # segments of 20 MiB hide how little one more of these samples takes
    assert offer["next_batch_was_tried"] or offer["not_certain_from"] <= 1.2 * batch
    # a sample has two inputs and some activations of 4 KiB each in every layer
    assert 1000 < batch < 2**30 // (2 * 4096)
    assert offer["needs_bytes"] <= 2 * 2**30


@pytest.mark.slow
def test_predict_names_unknown_workspaces_of_convolutions(tmp_path, monkeypatch):
    """Here no cuDNN can be asked. The model is converted after it was made."""
    monkeypatch.setenv("FRAMEBENCH_CUDNN", str(tmp_path))
    done = run_on_file("predict", CONVERTED, tmp_path, "--batch", "64", device="a100-40gb")
    assert done.returncode == 0, done.stderr
    printed = " ".join(done.stdout.split())
    assert "PyTorch with convolutions whose workspaces are not known" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "strategy"),
    [(CONVERTED, "amp_fp16+channels_last+fused_optimizer"), (TORCH, "compile")],
)
def test_predict_plans_combinations_and_compiled_steps(code, strategy, tmp_path):
    done = run_on_file("predict", code, tmp_path, "--strategies", strategy, "--json")
    (planned,) = json.loads(done.stdout)
    assert planned["case"].split("/")[3] == strategy
    assert planned["outcome"] == "planned"


@pytest.mark.slow
def test_predict_plans_no_file_that_compiles_its_model(tmp_path):
    done = run_on_file("predict", COMPILED, tmp_path, "--strategies", "fp32", "--json")
    (planned,) = json.loads(done.stdout)
    assert planned["outcome"] == "not planned"
    assert "compiles its model" in planned["reason"]


@pytest.mark.parametrize(
    ("code", "options", "device", "message"),
    [
        (TORCH, (), "a100", "a100-80gb"),
        (
            TORCH.replace("return torch.randn(n, WIDTH), torch.randn(n, WIDTH)", "return n"),
            (),
            "rtx4090-24gb",
            "and it returned int;",
        ),
        (
            TORCH,
            ("--strategies", "amp_fp16+nothing"),
            "rtx4090-24gb",
            "no strategy 'nothing' for a user model",
        ),
        (
            TORCH,
            ("--strategies", "amp_fp16+amp_bf16"),
            "rtx4090-24gb",
            "amp_fp16+amp_bf16",
        ),
    ],
)
def test_invalid_files_strategies_and_devices_end_with_a_hint(
    code, options, device, message, tmp_path
):
    done = run_on_file("try", code, tmp_path, *options, device=device)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
