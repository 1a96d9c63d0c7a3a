"""Declare what a package next to the framework keeps in 8 bits, with scales.

That is weights, matmuls, and the optimizer's moments.
"""

from __future__ import annotations

from framebench.strategies.strategy import Native, Strategy, Unsupported

# of 8-bit optimizers, torchao's and bitsandbytes'
BLOCK = 256  # numbers that share a scale
LEAST = 4096  # numbers of the smallest weight that is worth it
SCALE = 4  # bytes
TABLE = 1024  # bytes of the codes' table
_FLOAT_LAYERS = "its layers keep and multiply floating-point weights only"
# a step that compiles its update is watched by PyTorch's profiler
_UNSEEN = (
    "beside a compiled update nothing tells a product that was saved from one that is "
    "computed again"
)

ROWS = (
    Strategy(
        name="adamw_8bit",
        scenarios=("train",),
        axis="optimizer",
        summary="Adam's moments in 8 bits, with a scale for each block (Dettmers et al. 2022)",
        effect="moments that are codes and scales; bytes of the states",
        support=dict(
            torch=Native(
                "torchao.optim.AdamW8bit, which compiles its update; moments of fewer "
                "than 4096 numbers stay in float32"
            ),
            jax=Unsupported("optax has no 8-bit states; see mu_bf16"),
            jittor=Unsupported("jt.optim has no 8-bit states"),
        ),
        precision="8-bit moments",
        workloads=("transformer",),
        exceptions={
            "transformer/torch/tiny": (
                f"no weight has {LEAST} numbers there, and smaller ones keep float32 moments"
            )
        },
        clashes=dict.fromkeys(("checkpoint_dots", "checkpoint_linear"), _UNSEEN),
    ),
    Strategy(
        name="adamw_8bit_bnb",
        scenarios=("train",),
        axis="optimizer",
        summary="Adam's moments in 8 bits by bitsandbytes, with one table of codes for all weights",
        effect="moments that are codes and scales; bytes of the states",
        support=dict(
            torch=Native(
                "bitsandbytes.optim.AdamW8bit with its blocks of 256; moments of fewer "
                "than 4096 numbers stay in float32"
            ),
            jax=Unsupported("bitsandbytes is for PyTorch; see mu_bf16"),
            jittor=Unsupported("bitsandbytes is for PyTorch"),
        ),
        precision="8-bit moments",
        workloads=("transformer",),
        exceptions={
            "transformer/torch/tiny": (
                f"no weight has {LEAST} numbers there, and smaller ones keep float32 moments"
            )
        },
    ),
    Strategy(
        name="int8_weights",
        scenarios=("eval",),
        axis="precision",
        summary=(
            "the weights of linear layers in 8 bits, with a scale for each output; float32 products"
        ),
        effect="linear layers whose weights are integers; dtypes of products",
        support=dict(
            torch=Native(
                "torchao's quantize_ with Int8WeightOnlyConfig; each product makes its "
                "weight wide again"
            ),
            jax=Unsupported(f"Flax: {_FLOAT_LAYERS}"),
            jittor=Unsupported(f"Jittor: {_FLOAT_LAYERS}"),
        ),
        how="int8",
        options={"products": False},
        precision="int8 weights",
        workloads=("transformer",),
    ),
    Strategy(
        name="int8_dynamic",
        scenarios=("eval",),
        axis="precision",
        summary="the same, and what they multiply rounded to 8 bits as it comes: integer products",
        effect="linear layers whose weights are integers; integer products",
        support=dict(
            torch=Native("torchao's quantize_ with Int8DynamicActivationInt8WeightConfig"),
            jax=Unsupported(f"Flax: {_FLOAT_LAYERS}"),
            jittor=Unsupported(f"Jittor: {_FLOAT_LAYERS}"),
        ),
        how="int8",
        options={"products": True},
        precision="int8",
        workloads=("transformer",),
    ),
)


def count_moment_bytes(numbers: int) -> int:
    """Return the bytes that `adamw_8bit` keeps for one moment of a weight of so many numbers."""
    if numbers < LEAST or numbers % BLOCK:
        return 4 * numbers
    return numbers + numbers // BLOCK * SCALE + TABLE
