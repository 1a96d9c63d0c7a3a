"""The examples about a GPU that is not here, with fewer or smaller layers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from framebench.devices.needs import INTERVALS
from tests.processes import ROOT, read_json, run_process

pytestmark = pytest.mark.slow


@pytest.fixture
def one_layer(tmp_path) -> Path:
    """Return a folder with both examples, of a model with one layer."""
    code = (ROOT / "examples/llama_lora.py").read_text()
    assert "= 4096, 32," in code
    (tmp_path / "llama_lora.py").write_text(code.replace("= 4096, 32,", "= 4096, 1,"))
    (tmp_path / "llama_qlora.py").write_text((ROOT / "examples/llama_qlora.py").read_text())
    return tmp_path


def test_lora_trains_16_ranks_next_to_frozen_weights_in_bfloat16(one_layer):
    options = ("--batch", "1", "--device", "rtx4090-24gb", "--results", one_layer)
    (planned,) = read_json("predict", one_layer / "llama_lora.py", *options)
    kinds = planned["parts"]
    embeddings = 2 * 32_000 * 4096
    layer = 4 * 4096**2 + 3 * 4096 * 11_008
    adapters = 16 * (4 * 2 * 4096 + 3 * (4096 + 11_008))
    norms = 3 * 4096
    assert kinds["weights"] == 2 * (embeddings + layer + adapters + norms)
    assert kinds["optimizer_states"] == pytest.approx(2 * 2 * adapters, rel=0.05)


def test_qlora_takes_a_batch_and_a_length_and_says_whether_it_fits(environment, one_layer):
    def ask(*options: str) -> str:
        command = (environment["torch"].python, "llama_qlora.py", "rtx3090-24gb", *options)
        return run_process(command, folder=one_layer, PYTHONPATH=str(ROOT)).stdout

    short = ask("--length", "128")
    assert "batch 1 of 128 tokens" in short
    assert "without checkpointing: needs" in short
    assert short.count("GiB, fits") == 2
    assert INTERVALS["torch, weights of 4 bits"].describe() in short
    assert ask("--batch", "64").count("GiB, does not fit") == 2


def test_autocast_holds_a_copy_of_all_weights_that_fsdps_own_mixed_precision_does_not(
    environment, tmp_path
):
    layers, width = 8, 2048
    code = (ROOT / "examples/fsdp_mixed_precision.py").read_text()
    sizes = "LAYERS, WIDTH, HEADS = 40, 5120, 40"
    assert sizes in code
    file = tmp_path / "example.py"
    file.write_text(code.replace(sizes, f"LAYERS, WIDTH, HEADS = {layers}, {width}, 16"))

    command = (environment["torch"].python, file.name)
    answer = run_process(command, folder=tmp_path, PYTHONPATH=str(ROOT)).stdout

    autocast, own = (float(number) for number in re.findall(r"([\d.]+) GiB", answer))
    copies = layers * 12 * width**2 * 2 / 2**30
    assert autocast - own == pytest.approx(copies, abs=0.25)
