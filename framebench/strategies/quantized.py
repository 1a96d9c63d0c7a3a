"""What is kept in 8 bits, with scales, by a package beside the framework: weights, products, the optimizer's moments."""

from __future__ import annotations

from framebench.strategies.strategy import Native, Strategy, Unsupported, cells

# of 8-bit optimizers, torchao's and bitsandbytes': numbers that share a scale, the least that are worth it, bytes of a scale and of the codes' table
BLOCK, LEAST, SCALE, TABLE = 256, 4096, 4, 1024
_FLOAT_LAYERS = "its layers keep and multiply floating-point weights only"
# a step that compiles its update is watched by PyTorch's profiler
_UNSEEN = "beside a compiled update nothing tells a product that was saved from one that is computed again"

ROWS = (
    Strategy(
        "adamw_8bit", ("train",), "optimizer", "Adam's moments in 8 bits, with a scale for each block (Dettmers et al. 2022)",
        "moments that are codes and scales; bytes of the states",
        cells(
            Native("torchao.optim.AdamW8bit, which compiles its update; moments of fewer than 4096 numbers stay in float32"),
            Unsupported("optax has no 8-bit states; see mu_bf16"),
            Unsupported("jt.optim has no 8-bit states"),
        ),
        precision="8-bit moments", workloads=("transformer",),
        exceptions={"transformer/torch/tiny": f"no weight has {LEAST} numbers there, and smaller ones keep float32 moments"},
        clashes=dict.fromkeys(("checkpoint_dots", "checkpoint_linear"), _UNSEEN),
    ),
    Strategy(
        "adamw_8bit_bnb", ("train",), "optimizer", "Adam's moments in 8 bits by bitsandbytes, with one table of codes for all weights",
        "moments that are codes and scales; bytes of the states",
        cells(
            Native("bitsandbytes.optim.AdamW8bit with its blocks of 256; moments of fewer than 4096 numbers stay in float32"),
            Unsupported("bitsandbytes is for PyTorch; see mu_bf16"),
            Unsupported("bitsandbytes is for PyTorch"),
        ),
        precision="8-bit moments", workloads=("transformer",),
        exceptions={"transformer/torch/tiny": f"no weight has {LEAST} numbers there, and smaller ones keep float32 moments"},
    ),
    Strategy(
        "int8_weights", ("eval",), "precision", "the weights of linear layers in 8 bits, with a scale for each output; float32 products",
        "linear layers whose weights are integers; dtypes of products",
        cells(
            Native("torchao's quantize_ with Int8WeightOnlyConfig; each product makes its weight wide again"),
            Unsupported(f"Flax: {_FLOAT_LAYERS}"),
            Unsupported(f"Jittor: {_FLOAT_LAYERS}"),
        ),
        how="int8", options={"products": False}, precision="int8 weights", workloads=("transformer",),
    ),
    Strategy(
        "int8_dynamic", ("eval",), "precision", "the same, and what they multiply rounded to 8 bits as it comes: integer products",
        "linear layers whose weights are integers; integer products",
        cells(
            Native("torchao's quantize_ with Int8DynamicActivationInt8WeightConfig"),
            Unsupported(f"Flax: {_FLOAT_LAYERS}"),
            Unsupported(f"Jittor: {_FLOAT_LAYERS}"),
        ),
        how="int8", options={"products": True}, precision="int8", workloads=("transformer",),
    ),
)  # fmt: skip


def moment_bytes(numbers: int) -> int:
    """Of one moment of a weight of so many numbers, by `adamw_8bit`."""
    if numbers < LEAST or numbers % BLOCK:
        return 4 * numbers
    return numbers + numbers // BLOCK * SCALE + TABLE
