"""What QLoRA of Llama 7B needs on a GPU, which need not be here: `framebench.devices.simulate`.

    pip install "PATH_OF_THE_CHECKOUT[devices]" bitsandbytes
    python examples/llama_qlora.py rtx3090-24gb --length 1024

It is the model of llama_lora.py with frozen weights of 4 bits (NF4, double quantization).
"""

from __future__ import annotations

import argparse
from functools import partial

import bitsandbytes
import torch
from llama_lora import LENGTH, Llama, loss, optimizer
from torch.utils.checkpoint import checkpoint

from framebench.devices import GiB, simulate
from framebench.devices.catalog import find

make_base = partial(
    bitsandbytes.nn.Linear4bit, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4"
)


def make_step(device: torch.device, batch: int, length: int, recompute: bool):
    """Return a training step of so many texts."""
    model = Llama(make_base).to(device)
    if recompute:
        for block in model.blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    adamw = optimizer([weight for weight in model.parameters() if weight.requires_grad])
    tokens = torch.zeros(batch, length, dtype=torch.long, device=device)

    def step() -> None:
        adamw.zero_grad()
        loss(model(tokens), tokens).backward()
        adamw.step()

    return step


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Predict what QLoRA of Llama 7B needs on a GPU.")
    parser.add_argument("device", nargs="?", default="rtx3090-24gb")
    parser.add_argument("--batch", type=int, default=1, help="texts of a step")
    parser.add_argument("--length", type=int, default=LENGTH, help="tokens of a text")
    arguments = parser.parse_args()
    device = find(arguments.device)
    print(f"batch {arguments.batch} of {arguments.length:,} tokens on {device.title}:")
    for recompute in (False, True):
        make = partial(
            make_step, batch=arguments.batch, length=arguments.length, recompute=recompute
        )
        step = simulate(make, device, limit=2**40)  # answered, too, where the device has less
        words = "with" if recompute else "without"
        answer = "fits" if step.needs <= device.memory_bytes else "does not fit"
        print(f"{words} checkpointing: needs {step.needs / GiB:.1f} GiB, {answer}")
    print(f"The device has {device.gib:.2f} GiB. Not measured; the error of such predictions is")
    print(step.interval.describe())
