"""What a step does not need yet, or no more until the update, kept in host memory: saved activations, the optimizer's states."""

from __future__ import annotations

from framebench.strategies.strategy import Emulated, Native, Strategy, Unsupported, cells

_JITTOR_STAYS = Unsupported("a variable of a Jittor graph cannot be moved between devices")
_HOST_GRADIENTS = "the update reads the copies of gradients that set out for the host during the backward pass"

ROWS = (
    Strategy(
        "offload", ("train",), "recomputation", "saved activations wait in host memory", "bytes moved to the host",
        cells(
            Native("torch.autograd.graph.save_on_cpu(pin_memory=True): every tensor that is saved for backward", gpu=True),
            Native(
                "jax.checkpoint that keeps each block's input in pinned_host, that alone, and recomputes the rest; XLA:CPU drops the "
                "copies", gpu=True,
            ),
            _JITTOR_STAYS,
        ),
    ),
    Strategy(
        "offload_streamed", ("train",), "recomputation", "saved activations wait in host memory, copied beside the computation",
        "copies on streams that compute nothing; tensors that were back before they were asked for",
        cells(
            Emulated(
                "torch.autograd.graph.saved_tensors_hooks that copy on two streams of their own; the backward pass sends for eight "
                "tensors ahead; weights stay", gpu=True,
            ),
            Unsupported("XLA itself starts the copies of `offload` early and waits for them late: there is no other row"),
            _JITTOR_STAYS,
        ),
    ),
    Strategy(
        "optimizer_offload", ("train",), "optimizer", "the optimizer's states in host memory (ZeRO-Offload, Ren et al. 2021)",
        "states in host memory, weights on the device",
        cells(
            Native("torchao.optim.CPUOffloadOptimizer, which updates on the host; weights of fewer than 4096 numbers stay", gpu=True),
            Native("states in pinned_host between two steps, on the device for the update; XLA:CPU drops the copies", gpu=True),
            _JITTOR_STAYS,
        ),
        clashes={
            "amp_fp16": f"{_HOST_GRADIENTS}, before the loss scale is divided out",
            "keep_grads": "torchao's optimizer frees gradients on the device",
            "optimizer_in_backward": f"{_HOST_GRADIENTS}: there is an update of all of them, at the end",
            "compile_step": "it compiles the update, which is made on the host here",
        },
    ),
)  # fmt: skip
