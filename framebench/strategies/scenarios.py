"""Declare the strategies of the scenarios other than training."""

from __future__ import annotations

from framebench.strategies.strategy import (
    AlwaysOn,
    Emulated,
    Native,
    Strategy,
    Unsupported,
    use_everywhere,
)

_EVALUATION = (
    Strategy(
        name="grad",
        scenarios=("eval",),
        axis="mode",
        summary="evaluation that forgets to switch gradients off",
        effect="graph kept: residuals held by the output",
        support=dict(
            torch=Native("the output's grad_fn keeps the graph"),
            jax=Emulated("the forward half of jax.vjp, whose residuals are returned"),
            jittor=Emulated(
                "is_train cleared module by module: Module.eval() itself stops every gradient"
            ),
        ),
        quick=True,
    ),
    Strategy(
        name="no_grad",
        scenarios=("eval",),
        axis="mode",
        summary="evaluation without a graph, in strict float32",
        effect="no graph and no residuals kept",
        support=dict(
            torch=Native("torch.no_grad()"),
            jax=AlwaysOn("nothing is kept unless a derivative is asked for"),
            jittor=Native("jt.no_grad()"),
        ),
        quick=True,
    ),
    Strategy(
        name="inference_mode",
        scenarios=("eval",),
        axis="mode",
        summary="no graph, no version counters",
        effect="outputs are inference tensors",
        support=dict(
            torch=Native("torch.inference_mode()"),
            jax=Unsupported("JAX records no tape that could be switched off; it is no_grad"),
            jittor=Unsupported("Jittor has jt.no_grad() only"),
        ),
        quick=True,
    ),
)

_FINETUNING = (
    Strategy(
        name="half",
        scenarios=("finetune",),
        axis="frozen",
        summary="the upper half of the blocks and the head trained",
        effect="weights with a gradient",
        support=dict(
            torch=Native("requires_grad_(False) below"),
            jax=Native("derivatives asked of the upper part only"),
            jittor=Native("stop_grad() below"),
        ),
        how="frozen",
    ),
    Strategy(
        name="head",
        scenarios=("finetune",),
        axis="frozen",
        summary="the last layer alone trained",
        effect="weights with a gradient",
        support=dict(
            torch=Native("requires_grad_(False) below"),
            jax=Native("derivatives asked of the head only"),
            jittor=Native("stop_grad() below"),
        ),
        how="frozen",
        options={"part": "head"},
        mathematics="head",
        clashes={
            "checkpoint": (
                "below a trained head nothing is saved for the backward pass, so nothing could "
                "be recomputed"
            )
        },
    ),
    Strategy(
        name="lora",
        scenarios=("finetune",),
        axis="frozen",
        summary=(
            "every weight frozen; adapters of rank 4 beside the attention's linear layers "
            "trained (LoRA, Hu et al. 2021)"
        ),
        effect="weights with a gradient, and with optimizer states",
        support=dict(
            torch=Emulated(
                "a module of two factors beside nn.Linear; requires_grad_(False) on all others"
            ),
            jax=Native("nnx.LoRALinear; derivatives asked of the adapters only"),
            jittor=Emulated("a module of two factors beside nn.Linear; stop_grad() on all others"),
        ),
        how="frozen",
        options={"part": "lora"},
        variant="lora",
        workloads=("transformer",),
    ),
)

_STREAMS = (
    Strategy(
        name="padded",
        scenarios=("varlen",),
        axis="lengths",
        summary="every batch padded to the longest length there can be",
        effect="distinct shapes",
        support=use_everywhere(Native("one shape")),
        how="stream",
    ),
    Strategy(
        name="bucketed",
        scenarios=("varlen",),
        axis="lengths",
        summary="similar lengths together, padded to the next of four lengths",
        effect="distinct shapes",
        support=use_everywhere(Native("at most four shapes")),
        how="stream",
    ),
    Strategy(
        name="raw",
        scenarios=("varlen",),
        axis="lengths",
        summary="each batch padded to its own longest sequence",
        effect="distinct shapes; programs compiled",
        support=dict(
            torch=Native("a shape per batch"),
            jax=Native("a shape, and a compilation, per batch"),
            jittor=Native("a shape per batch"),
        ),
        how="stream",
    ),
)

_PAIRS = (
    Strategy(
        name="together",
        scenarios=("pair",),
        axis="pair",
        summary="both models in memory",
        effect="parameter bytes held",
        support=use_everywhere(Native("two models")),
    ),
    Strategy(
        name="in_turn",
        scenarios=("pair",),
        axis="pair",
        summary="one model built, used and deleted, then the other",
        effect="parameter bytes held",
        support=use_everywhere(Native("del model")),
    ),
    Strategy(
        name="in_turn_cleared",
        scenarios=("pair",),
        axis="pair",
        summary="the same, caches emptied in between",
        effect="parameter bytes held; calls counted",
        support=dict(
            torch=Native("del model; gc.collect(); torch.cuda.empty_cache() on a GPU"),
            jax=Native(
                "del arrays; gc.collect(); jax.clear_caches(), and the executable dropped: "
                "compiled anew each time"
            ),
            jittor=Native("del model; gc.collect(); jt.gc()"),
        ),
        how="in_turn",
        options={"cleared": True},
    ),
    Strategy(
        name="shared_trunk",
        scenarios=("pair",),
        axis="pair",
        summary="two models with one trunk",
        effect="parameter bytes held",
        support=dict(
            torch=Native("the same modules in both"),
            jax=Native("the same arrays in both"),
            jittor=Native("the same modules in both"),
        ),
        how="together",
        options={"shared": True},
    ),
)


def make_loading(name: str, summary: str) -> Strategy:
    """Return the row of a way to prepare images on the host."""
    return Strategy(
        name=name,
        scenarios=("pipeline",),
        axis="loading",
        summary=summary,
        effect="batches made and buffers used, counted by the loader",
        support=use_everywhere(Native("NumPy on the host, copied to the framework at every step")),
        how="loading",
        options={"mode": name},
    )


_PIPELINES = (
    make_loading("iterator", "each batch prepared when it is asked for, from images in memory"),
    make_loading("whole", "all batches prepared before the first step and kept"),
    make_loading("memmap", "each batch prepared when it is asked for, from a memory-mapped file"),
    make_loading(
        "prefetch",
        "a thread prepares the next batch, from a memory-mapped file, beside the step",
    ),
    make_loading("reused", "as memmap, prepared into one buffer that is used again"),
    Strategy(
        name="pinned",
        scenarios=("pipeline",),
        axis="loading",
        summary=(
            "as prefetch, each batch put into page-locked memory and copied on a stream "
            "of its own while the step before runs"
        ),
        effect="share of the copies' time that lay beside a step, by events",
        support=dict(
            torch=Native(
                "Tensor.pin_memory(), copied with non_blocking=True under torch.cuda.stream",
                gpu=True,
            ),
            jax=Unsupported(
                "jax.device_put copies beside the step anyway, and JAX shows no events that "
                "would prove it"
            ),
            jittor=Unsupported("jt.array copies at once; Jittor shows no streams"),
        ),
    ),
)

_CUSTOM = (
    Strategy(
        name="built_in",
        scenarios=("custom_op",),
        axis="rule",
        summary="the framework's own GELU",
        effect="arrays saved by one GELU",
        support=use_everywhere(Native("the framework's function")),
    ),
    Strategy(
        name="lean",
        scenarios=("custom_op",),
        axis="rule",
        summary="a rule that saves its input and computes the rest again",
        effect="arrays saved by one GELU",
        support=dict(
            torch=Native("torch.autograd.Function"),
            jax=Native(
                "jax.custom_vjp, with a barrier: XLA:CPU would merge what is computed again"
            ),
            jittor=Native("jt.Function"),
        ),
        how="custom_rule",
        options={"lean": True},
    ),
)


ROWS = (*_EVALUATION, *_FINETUNING, *_STREAMS, *_PAIRS, *_PIPELINES, *_CUSTOM)
