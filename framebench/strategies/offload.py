"""Declare what waits in host memory until a step needs it again.

That is saved activations, and the optimizer's states.
"""

from __future__ import annotations

from framebench.strategies.strategy import Emulated, Native, Strategy, Unsupported

_JITTOR_STAYS = Unsupported("a variable of a Jittor graph cannot be moved between devices")
_HOST_GRADIENTS = (
    "the update reads the copies of gradients that set out for the host during the backward pass"
)

ROWS = (
    Strategy(
        name="offload",
        scenarios=("train",),
        axis="recomputation",
        summary="saved activations wait in host memory",
        effect="bytes moved to the host",
        support=dict(
            torch=Native(
                (
                    "torch.autograd.graph.save_on_cpu(pin_memory=True): every tensor that is "
                    "saved for backward"
                ),
                gpu=True,
            ),
            jax=Native(
                "jax.checkpoint that keeps each block's input in pinned_host, that alone, and "
                "recomputes the rest; XLA:CPU drops the copies",
                gpu=True,
            ),
            jittor=_JITTOR_STAYS,
        ),
    ),
    Strategy(
        name="offload_streamed",
        scenarios=("train",),
        axis="recomputation",
        summary="saved activations wait in host memory, copied beside the computation",
        effect=(
            "copies on streams that compute nothing; tensors that were back before they were "
            "asked for"
        ),
        support=dict(
            torch=Emulated(
                "torch.autograd.graph.saved_tensors_hooks that copy on two streams of their own; "
                "the backward pass sends for eight tensors ahead; weights stay",
                gpu=True,
            ),
            jax=Unsupported(
                "XLA itself starts the copies of `offload` early and waits for them late: "
                "there is no other row"
            ),
            jittor=_JITTOR_STAYS,
        ),
    ),
    Strategy(
        name="optimizer_offload",
        scenarios=("train",),
        axis="optimizer",
        summary="the optimizer's states in host memory (ZeRO-Offload, Ren et al. 2021)",
        effect="states in host memory, weights on the device",
        support=dict(
            torch=Native(
                (
                    "torchao.optim.CPUOffloadOptimizer, which updates on the host; weights "
                    "of fewer than 4096 numbers stay"
                ),
                gpu=True,
            ),
            jax=Native(
                (
                    "states in pinned_host between two steps, on the device for the update; "
                    "XLA:CPU drops the copies"
                ),
                gpu=True,
            ),
            jittor=_JITTOR_STAYS,
        ),
        clashes={
            "amp_fp16": f"{_HOST_GRADIENTS}, before the loss scale is divided out",
            "keep_grads": "torchao's optimizer frees gradients on the device",
            "optimizer_in_backward": (
                f"{_HOST_GRADIENTS}: there is an update of all of them, at the end"
            ),
            "compile_step": "it compiles the update, which is made on the host here",
        },
    ),
)
