"""How a prediction is held against a row.

Fixed before any error was looked at; a change needs its reason here.

- The prediction is the largest value over the run, by the counter that the row has
  (`programs.Quantity`): bytes in blocks for
  `max_memory_allocated`, bytes taken from the card for `max_memory_reserved`. xMem's rows are what
  the whole card used beyond the first sample: reserved, and what libraries load beside the pool
  (`rows.beside_the_pool`: a number of the card, read from the authors' pairs of runs). No context
  is added: it was there at the first sample.
- error = predicted / measured - 1. Nothing is fitted: no factor, no constant comes from these
  errors.
- Every row that can be written counts, alone for being written, whatever its error. What cannot is
  listed with its reason.
- A row whose prediction fails, or says that it does not fit the card on which it ran, counts as an
  error of 100 %.
- Goals are over rows of good or high trust. xMem's count as good: what its figure is was read from
  code and data, not proven.
- Other estimators are held against the same rows as we are. Where one stopped at the card's limit
  its figure is a lower bound,
  and left out of its own numbers.
"""

from __future__ import annotations

from typing import Literal

from studies.published_peaks.rows import XMEM, Row

Trust = Literal["high", "good", "fair", "low"]
# of absolute errors: the median, and what nine of ten rows are within
MEDIAN_GOAL, NINTH_GOAL = 0.02, 0.06
XMEM_MEDIAN, XMEM_NINTH = 0.031, 0.106  # what xMem reaches on its own rows, which is to be undercut
CLOSE = 0.05  # "within 5 %"
TRUST: dict[str, Trust] = {
    "PEFT method comparison": "high",
    "JAX host-offloading notebook": "high",
    "openxla PR 10803": "high",
    XMEM: "good",
    "torchtitan benchmarks": "good",
    "torchtitan NVFP4 page": "good",
    "torchao float8/mx training docs": "good",
    "forgather peak-memory experiments": "good",
    "LitGPT config hub": "good",
    "LitGPT resource tables": "good",
    "MMAction2 model zoo": "good",
    "optimum-benchmark (ROCm runs)": "good",
    "HF transformers docs": "fair",
    "torchtune docs (LoRA, QLoRA tutorials)": "fair",
    "torchao optimizer offload": "fair",
    "torchao quantized training": "fair",
    "torchao float8nocompile": "fair",
}
FAMILIES = {
    "ResNet 101, 152": ("ResNet101", "ResNet152"),
    "VGG 16, 19": ("VGG16", "VGG19"),
    "MobileNet V2, V3, MnasNet": ("MobileNetV2", "MobeNetV3Small", "MobeNetV3Large", "MnasNet"),
    "ConvNeXt Tiny, Base": ("ConvNeXtTiny", "ConvNeXtBase"),
    "RegNet X, Y 400MF": ("RegNetX400MF", "RegNetY400MF"),
    "GPT-2, DistilGPT2, Cerebras 111M": (
        "openai-community/gpt2",
        "distilbert/distilgpt2",
        "cerebras/Cerebras-GPT-111M",
    ),
    "GPT-Neo 125M": ("EleutherAI/gpt-neo-125M",),
    "OPT 125M, 350M": ("facebook/opt-125m", "facebook/opt-350m"),
    "T5-small": ("T5-small",),
}


def trust(row: Row) -> Trust:
    """By the row's source; of a page with several kinds of rows by the row."""
    if row.source == "torchao low-bit optimizers":
        return "high" if "vit" in row.model else "fair"
    if row.source == "torchtune README":
        return "good" if "optimization flags" in row.link else "fair"
    return TRUST.get(row.source, "low")


def family(row: Row) -> str:
    """xMem's rows by architecture, others by source."""
    if row.source != XMEM:
        return row.source
    return next(name for name, models in FAMILIES.items() if row.model in models)
