"""What the scenarios beside training compare."""

from __future__ import annotations

from framebench.strategies.strategy import AlwaysOn, Emulated, Native, Strategy, Unsupported, cells, everywhere

_EVALUATION = (
    Strategy(
        "grad", ("eval",), "mode", "evaluation that forgets to switch gradients off", "graph kept: residuals held by the output",
        cells(
            Native("the output's grad_fn keeps the graph"),
            Emulated("the forward half of jax.vjp, whose residuals are returned"),
            Emulated("is_train cleared module by module: Module.eval() itself stops every gradient"),
        ),
        quick=True,
    ),
    Strategy(
        "no_grad", ("eval",), "mode", "evaluation without a graph, in strict float32", "no graph and no residuals kept",
        cells(Native("torch.no_grad()"), AlwaysOn("nothing is kept unless a derivative is asked for"), Native("jt.no_grad()")),
        quick=True,
    ),
    Strategy(
        "inference_mode", ("eval",), "mode", "no graph, no version counters", "outputs are inference tensors",
        cells(
            Native("torch.inference_mode()"),
            Unsupported("JAX records no tape that could be switched off; it is no_grad"),
            Unsupported("Jittor has jt.no_grad() only"),
        ),
        quick=True,
    ),
)  # fmt: skip

_FINETUNING = (
    Strategy(
        "half", ("finetune",), "frozen", "the upper half of the blocks and the head trained", "weights with a gradient",
        cells(
            Native("requires_grad_(False) below"),
            Native("derivatives asked of the upper part only"),
            Native("stop_grad() below"),
        ),
        how="frozen",
    ),
    Strategy(
        "head", ("finetune",), "frozen", "the last layer alone trained", "weights with a gradient",
        cells(Native("requires_grad_(False) below"), Native("derivatives asked of the head only"), Native("stop_grad() below")),
        how="frozen", options={"part": "head"}, mathematics="head",
        clashes={"checkpoint": "below a trained head nothing is saved for the backward pass, so nothing could be recomputed"},
    ),
    Strategy(
        "lora", ("finetune",), "frozen", "every weight frozen; adapters of rank 4 beside the attention's linear layers trained (LoRA, Hu et al. 2021)",
        "weights with a gradient, and with optimizer states",
        cells(
            Emulated("a module of two factors beside nn.Linear; requires_grad_(False) on all others"),
            Native("nnx.LoRALinear; derivatives asked of the adapters only"),
            Emulated("a module of two factors beside nn.Linear; stop_grad() on all others"),
        ),
        how="frozen", options={"part": "lora"}, variant="lora", workloads=("transformer",),
    ),
)  # fmt: skip

_STREAMS = (
    Strategy(
        "padded", ("varlen",), "lengths", "every batch padded to the longest length there can be", "distinct shapes",
        everywhere(Native("one shape")),
        how="stream",
    ),
    Strategy(
        "bucketed", ("varlen",), "lengths", "similar lengths together, padded to the next of four lengths", "distinct shapes",
        everywhere(Native("at most four shapes")),
        how="stream",
    ),
    Strategy(
        "raw", ("varlen",), "lengths", "each batch padded to its own longest sequence", "distinct shapes; programs compiled",
        cells(Native("a shape per batch"), Native("a shape, and a compilation, per batch"), Native("a shape per batch")),
        how="stream",
    ),
)

_PAIRS = (
    Strategy(
        "together", ("pair",), "pair", "both models in memory", "parameter bytes held",
        everywhere(Native("two models")),
    ),
    Strategy(
        "in_turn", ("pair",), "pair", "one model built, used and deleted, then the other", "parameter bytes held",
        everywhere(Native("del model")),
    ),
    Strategy(
        "in_turn_cleared", ("pair",), "pair", "the same, caches emptied in between", "parameter bytes held; calls counted",
        cells(
            Native("del model; gc.collect(); torch.cuda.empty_cache() on a GPU"),
            Native("del arrays; gc.collect(); jax.clear_caches(), and the executable dropped: compiled anew each time"),
            Native("del model; gc.collect(); jt.gc()"),
        ),
        how="in_turn", options={"cleared": True},
    ),
    Strategy(
        "shared_trunk", ("pair",), "pair", "two models with one trunk", "parameter bytes held",
        cells(
            Native("the same modules in both"),
            Native("the same arrays in both"),
            Native("the same modules in both"),
        ),
        how="together", options={"shared": True},
    ),
)  # fmt: skip

_PIPELINES = tuple(
    Strategy(
        name, ("pipeline",), "loading", summary, "batches made and buffers used, counted by the loader",
        everywhere(Native("NumPy on the host, copied to the framework at every step")),
        how="loading", options={"mode": name},
    )
    for name, summary in (
        ("iterator", "each batch prepared when it is asked for, from images in memory"),
        ("whole", "all batches prepared before the first step and kept"),
        ("memmap", "each batch prepared when it is asked for, from a memory-mapped file"),
        ("prefetch", "a thread prepares the next batch, from a memory-mapped file, beside the step"),
        ("reused", "as memmap, prepared into one buffer that is used again"),
    )
) + (
    Strategy(
        "pinned", ("pipeline",), "loading",
        "as prefetch, each batch put into page-locked memory and copied on a stream of its own while the step before runs",
        "share of the copies' time that lay beside a step, by events",
        cells(
            Native("Tensor.pin_memory(), copied with non_blocking=True under torch.cuda.stream", gpu=True),
            Unsupported("jax.device_put copies beside the step anyway, and JAX shows no events that would prove it"),
            Unsupported("jt.array copies at once; Jittor shows no streams"),
        ),
    ),
)  # fmt: skip

_CUSTOM = (
    Strategy(
        "built_in", ("custom_op",), "rule", "the framework's own GELU", "arrays saved by one GELU",
        everywhere(Native("the framework's function")),
    ),
    Strategy(
        "lean", ("custom_op",), "rule", "a rule that saves its input and computes the rest again", "arrays saved by one GELU",
        cells(
            Native("torch.autograd.Function"),
            Native("jax.custom_vjp, with a barrier: XLA:CPU would merge what is computed again"),
            Native("jt.Function"),
        ),
        how="custom_rule", options={"lean": True},
    ),
)


ROWS = (*_EVALUATION, *_FINETUNING, *_STREAMS, *_PAIRS, *_PIPELINES, *_CUSTOM)
