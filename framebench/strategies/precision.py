"""Declare in which types a step computes."""

from __future__ import annotations

from framebench.strategies.strategy import AlwaysOn, Emulated, Native, Strategy, Unsupported

_NO_BF16 = Unsupported(
    "on a CPU Jittor's matrix products run in oneDNN, which it calls with float32 alone; its amp "
    "levels 0 to 3 change nothing there, and 4 and 5 turn the weights to bfloat16 too"
)
FLOAT16_LOOPS = (
    "on a CPU, where oneDNN takes no float16, one step of the CPU sizes takes half a minute "
    "to minutes"
)
_WIDENED = "XLA:CPU widens what its products multiply to float32"

ROWS = (
    Strategy(
        name="fp32",
        scenarios=("train",),
        axis="precision",
        summary="everything in strict float32",
        effect="dtypes of products, weights and states; rounding of a product and of a convolution",
        support=dict(
            torch=Native(
                "TF32 switched off for matmul and cuDNN; batch norm's running variance is "
                "the unbiased one"
            ),
            jax=Native(
                "default_matmul_precision = highest; Flax keeps batch norm's biased running "
                "variance"
            ),
            jittor=Native(
                "float32 is the only dtype used; Jittor keeps batch norm's biased running variance"
            ),
        ),
        quick=True,
    ),
    Strategy(
        name="tf32",
        scenarios=("train", "eval"),
        axis="precision",
        summary="float32 storage, products in TensorFloat-32",
        effect="rounding of a product and of a convolution",
        support=dict(
            torch=Native("allow_tf32 for matmul and cuDNN", gpu=True),
            jax=Native("default_matmul_precision = tensorfloat32", gpu=True),
            jittor=Native(
                "jt.flags.use_tensorcore = 1, by which cuDNN may round convolutions to float16 too",
                gpu=True,
            ),
        ),
        precision="tf32",
    ),
    Strategy(
        name="default",
        scenarios=("train", "eval"),
        axis="precision",
        summary="float32 as the framework computes it where nothing is set",
        effect="rounding of a product or of a convolution",
        support=dict(
            torch=Native("allow_tf32 left as it is at import: for cuDNN, not for matmul", gpu=True),
            jax=Native("jax_default_matmul_precision left unset", gpu=True),
            jittor=AlwaysOn("fp32 sets nothing"),
        ),
        precision="tf32",
    ),
    Strategy(
        name="amp_bf16",
        scenarios=("train", "eval"),
        axis="precision",
        summary="bfloat16 activations, float32 weights and optimizer",
        effect="dtypes of the products that ran (JAX: of the executable), of weights and states",
        support=dict(
            torch=Native(
                "torch.autocast(dtype=bfloat16): products; norms, sums and the "
                "Transformer's residual stream stay float32"
            ),
            jax=Native(
                (
                    "Flax dtype=bfloat16, param_dtype=float32: every layer's output, the "
                    "residual stream too, is bfloat16"
                ),
                undone_on_cpu=_WIDENED,
            ),
            jittor=_NO_BF16,
        ),
        precision="bf16",
        quick=True,
    ),
    Strategy(
        name="amp_fp16",
        scenarios=("train",),
        axis="precision",
        summary="float16 activations, float32 weights, the loss scaled",
        effect="dtypes as for amp_bf16; the scale that gradients had",
        support=dict(
            torch=Native(
                (
                    "torch.autocast(dtype=float16), the residual stream in float32, and "
                    "torch.amp.GradScaler"
                ),
                gpu=True,
            ),
            jax=Emulated(
                (
                    "Flax dtype=float16, the residual stream too; the loss multiplied and "
                    "the gradient divided by a dynamic scale"
                ),
                gpu=True,
                undone_on_cpu=_WIDENED,
            ),
            jittor=Unsupported(
                "Jittor has no gradient scaler, and its float16 products are not used below "
                "amp_level 4"
            ),
        ),
        precision="fp16",
    ),
    Strategy(
        name="bf16",
        scenarios=("eval",),
        axis="precision",
        summary="weights and activations in bfloat16",
        effect="dtypes of weights and products (JAX: of the executable)",
        support=dict(
            torch=Native("model.bfloat16()"),
            jax=Native("Flax dtype = param_dtype = bfloat16", undone_on_cpu=_WIDENED),
            jittor=_NO_BF16,
        ),
        how="half",
        options={"dtype": "bfloat16"},
        precision="bf16",
    ),
    Strategy(
        name="fp16",
        scenarios=("eval",),
        axis="precision",
        summary="weights and activations in float16",
        effect="dtypes of weights and products (JAX: of the executable)",
        support=dict(
            torch=Native("model.half()"),
            jax=Native(
                (
                    "Flax dtype = param_dtype = float16; on the CPU the attention is written "
                    "out, as its float16 products fail"
                ),
                undone_on_cpu=_WIDENED,
            ),
            jittor=Native(f"Module.float16(); {FLOAT16_LOOPS}", gpu=True),
        ),
        how="half",
        options={"dtype": "float16"},
        precision="fp16",
    ),
)
