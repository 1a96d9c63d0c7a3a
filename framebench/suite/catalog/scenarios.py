"""Other models, and what the scenarios beside training compare."""

from __future__ import annotations

from framebench.suite.strategy import AlwaysOn, Emulated, Native, Strategy, Unsupported, cells

_VARIANT = {f: Native("a smaller configuration of the same model file") for f in ("torch", "jax", "jittor")}

_STRUCTURE = (
    Strategy(
        "width_half", ("train", "eval"), "structure", "half the channels of every layer, really removed", "parameters counted", _VARIANT,
        how="variant", variant="width_half",
    ),
    Strategy(
        "grouped", ("train", "eval"), "structure", "3x3 convolutions in groups", "parameters counted", _VARIANT,
        how="variant", variant="grouped", workloads=("resnet50",),
    ),
    Strategy(
        "depthwise", ("train", "eval"), "structure", "3x3 convolutions channel by channel", "parameters counted", _VARIANT,
        how="variant", variant="depthwise", workloads=("resnet50",),
    ),
    Strategy(
        "student", ("train", "eval"), "structure", "a smaller model of the same kind, on its own", "parameters counted", _VARIANT,
        how="variant", variant="student",
    ),
    Strategy(
        "distill", ("train",), "structure", "the student trained on the labels and on the full model's outputs", "forward passes of both",
        {f: Native("teacher without a graph, Kullback-Leibler divergence beside the loss") for f in ("torch", "jax", "jittor")},
        variant="student", mathematics="distill", workloads=("resnet50", "transformer"),
    ),
    *(
        Strategy(
            f"depth_{n}", ("train",), "structure", f"{n} layers", "parameters counted",
            {f: Native("another depth of the same model file") for f in ("torch", "jax", "jittor")},
            how="variant", variant=f"depth_{n}", workloads=("transformer",),
        )
        for n in (4, 16)
    ),
)  # fmt: skip

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
    Strategy(
        "frozen_weights", ("eval",), "mode", "gradients left on, but no weight asks for one", "no graph and no residuals kept",
        cells(
            Native("model.requires_grad_(False)"),
            AlwaysOn("nothing is kept unless a derivative is asked for"),
            AlwaysOn("Module.eval() stops the gradient of every weight"),
        ),
    ),
    Strategy(
        "batch_stats", ("eval",), "normalisation", "evaluation that forgets eval(): batch norm uses and updates batch statistics",
        "buffers changed by a forward pass",
        cells(Native("model.train() under no_grad"), Native("model.train()"), Native("Module.train() under no_grad")),
        mathematics="batch_stats", workloads=("resnet50",),
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
        how="frozen", mathematics="head",
        clashes={"checkpoint": "below a trained head nothing is saved for the backward pass, so nothing could be recomputed"},
    ),
)

_STREAMS = (
    Strategy(
        "padded", ("varlen",), "lengths", "every batch padded to the longest length there can be", "distinct shapes",
        {f: Native("one shape") for f in ("torch", "jax", "jittor")},
        how="stream",
    ),
    Strategy(
        "bucketed", ("varlen",), "lengths", "similar lengths together, padded to the next of four lengths", "distinct shapes",
        {f: Native("at most four shapes") for f in ("torch", "jax", "jittor")},
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
        {f: Native("two models") for f in ("torch", "jax", "jittor")},
    ),
    Strategy(
        "in_turn", ("pair",), "pair", "one model built, used and deleted, then the other", "parameter bytes held",
        {f: Native("del model") for f in ("torch", "jax", "jittor")},
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
    Strategy(
        "scripted", ("pair",), "pair", "two TorchScript models", "parameter bytes held",
        cells(Native("torch.jit.trace"), *[Unsupported("PyTorch's own")] * 2),
    ),
    Strategy(
        "scripted_shared_trunk", ("pair",), "pair", "two TorchScript models with one scripted trunk", "parameter bytes held",
        cells(Native("torch.jit.trace, the trunk once"), *[Unsupported("PyTorch's own")] * 2),
        how="scripted", options={"shared": True},
    ),
)  # fmt: skip

_PIPELINES = tuple(
    Strategy(
        name, ("pipeline",), "loading", summary, "batches made and buffers used, counted by the loader",
        {f: Native("NumPy on the host, copied to the framework at every step") for f in ("torch", "jax", "jittor")},
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
        {f: Native("the framework's function") for f in ("torch", "jax", "jittor")},
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
    Strategy(
        "wasteful", ("custom_op",), "rule", "a rule that saves every intermediate result", "arrays saved by one GELU",
        cells(Native("torch.autograd.Function"), Native("jax.custom_vjp"), Native("jt.Function")),
        how="custom_rule", options={"lean": False},
    ),
)


ROWS = (*_STRUCTURE, *_EVALUATION, *_FINETUNING, *_STREAMS, *_PAIRS, *_PIPELINES, *_CUSTOM)
