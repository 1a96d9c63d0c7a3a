"""Declare the strategies that only test an article's sentence, or show what a default is worth.

Nobody would choose them to save memory. Tables, heat maps and the first part of the support matrix
leave them out; the claims' pages show them. The switch of a row of STEPS, MEMORY or SCENARIOS is in
the adapters' file of that name, as for the rows of the other modules.
"""

from __future__ import annotations

from functools import partial

from framebench.strategies.memory import XLA_OWNS
from framebench.strategies.precision import FLOAT16_LOOPS
from framebench.strategies.strategy import AlwaysOn, Native, Strategy, Unsupported, use_everywhere

ClaimStrategy = partial(Strategy, only_for_claims=True)
_COMPILED = ("compile", "compile_reduce_overhead", "compile_max_autotune")
_NO_OPERATORS = dict.fromkeys(_COMPILED, "in a compiled graph no operator tells which rule ran")
_SMALLER = use_everywhere(Native("a smaller configuration of the same model file"))


def make_amp_level(level: int) -> Strategy:
    """Return the row of one of Jittor's levels of mixed precision.

    Below 4 no variable changes its type.
    """
    if level > 3:
        native = Native(
            f"jt.flags.amp_level = {level}; it turns the weights to float16 too; {FLOAT16_LOOPS}",
            gpu=True,
        )
    else:
        native = Native(f"jt.flags.amp_level = {level}, at which no variable changes its type")
    return ClaimStrategy(
        name=f"amp_level_{level}",
        scenarios=("train",),
        axis="precision",
        summary=f"Jittor's amp_level {level}, as it is",
        effect="dtypes of the graph's variables, and those that Jittor chooses for others",
        support=dict(
            torch=Unsupported("amp_level is Jittor's; see amp_bf16 and amp_fp16"),
            jax=Unsupported("amp_level is Jittor's; see amp_bf16"),
            jittor=native,
        ),
        how="amp_level",
        options={"level": level},
        precision="fp16" if level > 3 else "fp32",
    )


def make_collector(name: str, summary: str, options: dict[str, str | int]) -> Strategy:
    """Return the row of a way to run Python's garbage collector."""
    return ClaimStrategy(
        name=name,
        scenarios=("train", "pipeline"),
        axis="collector",
        summary=summary,
        effect="collections counted by gc.callbacks",
        support=use_everywhere(Native("Python's gc module, around the framework's step")),
        how="collector",
        options=options,
    )


def make_depth(layers: int) -> Strategy:
    """Return the row of a Transformer with so many layers."""
    return ClaimStrategy(
        name=f"depth_{layers}",
        scenarios=("train",),
        axis="structure",
        summary=f"{layers} layers",
        effect="parameters counted",
        support=use_everywhere(Native("another depth of the same model file")),
        how="variant",
        variant=f"depth_{layers}",
        workloads=("transformer",),
    )


def make_rule(name: str) -> Strategy:
    """Return the row that evaluates with a differentiation rule of `custom_op`."""
    return ClaimStrategy(
        name=f"{name}_rule",
        scenarios=("eval",),
        axis="rule",
        summary=f"evaluation with the {name} differentiation rule of custom_op",
        effect="arrays saved by one GELU",
        support=dict(
            torch=Native("torch.autograd.Function"),
            jax=AlwaysOn("nothing is kept unless a derivative is asked for, whatever the rule"),
            jittor=Native("jt.Function"),
        ),
        how="custom_rule",
        options={"lean": name == "lean"},
        workloads=("transformer",),
        clashes=_NO_OPERATORS,
    )


PRECISION = (make_amp_level(3), make_amp_level(4), make_amp_level(5), make_amp_level(6))

STEPS = (
    ClaimStrategy(
        name="long",
        scenarios=("train",),
        axis="structure",
        summary="sequences four times as long",
        effect="shape of the input",
        support=use_everywhere(Native("a longer configuration of the same model file")),
        how="variant",
        variant="long",
        workloads=("transformer",),
    ),
    ClaimStrategy(
        name="no_onednn",
        scenarios=("eval",),
        axis="library",
        summary="Jittor's own loops in place of oneDNN's convolutions and products",
        effect="kernels of oneDNN executed; its library among the process's mappings",
        support=dict(
            torch=Unsupported("what is compared is Jittor's fusion"),
            jax=Unsupported("what is compared is Jittor's fusion"),
            jittor=Native("use_mkl=0 in the environment", env={"use_mkl": "0"}),
        ),
    ),
    ClaimStrategy(
        name="not_lazy",
        scenarios=("train", "eval"),
        axis="execution",
        summary="every operator executed as soon as it is called",
        effect="operations pending after a call",
        support=dict(
            torch=AlwaysOn("eager mode executes at once"),
            jax=Unsupported("a compiled step has no order of calls; no_jit is the nearest"),
            jittor=Native("jt.flags.lazy_execution = 0"),
        ),
    ),
)

MEMORY = (
    ClaimStrategy(
        name="empty_cache_every_10",
        scenarios=("train",),
        axis="cache",
        summary="the allocator's cache given back every ten steps (an epoch)",
        effect="calls counted",
        support=dict(
            torch=Native("torch.cuda.empty_cache() every 10 steps", gpu=True),
            jax=XLA_OWNS,
            jittor=Native("jt.gc() every 10 steps"),
        ),
        how="empty_cache",
        options={"every": 10},
    ),
    ClaimStrategy(
        name="cufft_cache_off",
        scenarios=("train",),
        axis="plan cache",
        summary="no cuFFT plans kept",
        effect="plans in the cache",
        support=use_everywhere(
            Unsupported("no workload here runs a Fourier transform, so there are no plans to keep")
        ),
    ),
    ClaimStrategy(
        name="after_training",
        scenarios=("eval",),
        axis="before",
        summary="evaluation in the process that has trained",
        effect="training step run before; what was given back",
        support=dict(
            torch=Native("one training step first", gpu=True),
            jax=Native("one training step first, its arrays dropped"),
            jittor=Native("one training step first"),
        ),
        how="after_training",
        options={"cleared": False},
    ),
    ClaimStrategy(
        name="after_training_cleared",
        scenarios=("eval",),
        axis="before",
        summary="the same, caches emptied in between",
        effect="training step run before; what was given back",
        support=dict(
            torch=Native(
                "one training step first, then gc.collect() and empty_cache()",
                gpu=True,
            ),
            jax=Native(
                "one training step first, its arrays dropped, then gc.collect() and "
                "jax.clear_caches()"
            ),
            jittor=Native("one training step first, then gc.collect() and jt.gc()"),
        ),
        how="after_training",
        options={"cleared": True},
    ),
    make_collector("gc_off", "Python's collector off", {"mode": "off"}),
    make_collector(
        "gc_frozen",
        "what is there before the first step kept out of collections",
        {"mode": "frozen"},
    ),
    make_collector("gc_every_1", "a full collection after every step", {"every": 1}),
    make_collector("gc_every_2", "a full collection after every second step", {"every": 2}),
)

SCENARIOS = (
    ClaimStrategy(
        name="width_half",
        scenarios=("train", "eval"),
        axis="structure",
        summary="half the channels of every layer, really removed",
        effect="parameters counted",
        support=_SMALLER,
        how="variant",
        variant="width_half",
    ),
    ClaimStrategy(
        name="grouped",
        scenarios=("train", "eval"),
        axis="structure",
        summary="3x3 convolutions in groups",
        effect="parameters counted",
        support=_SMALLER,
        how="variant",
        variant="grouped",
        workloads=("resnet50",),
    ),
    ClaimStrategy(
        name="depthwise",
        scenarios=("train", "eval"),
        axis="structure",
        summary="3x3 convolutions channel by channel",
        effect="parameters counted",
        support=_SMALLER,
        how="variant",
        variant="depthwise",
        workloads=("resnet50",),
    ),
    ClaimStrategy(
        name="student",
        scenarios=("train", "eval"),
        axis="structure",
        summary="a smaller model of the same kind, on its own",
        effect="parameters counted",
        support=_SMALLER,
        how="variant",
        variant="student",
    ),
    ClaimStrategy(
        name="distill",
        scenarios=("train",),
        axis="structure",
        summary="the student trained on the labels and on the full model's outputs",
        effect="forward passes of both",
        support=use_everywhere(
            Native("teacher without a graph, Kullback-Leibler divergence beside the loss")
        ),
        variant="student",
        mathematics="distill",
        workloads=("resnet50", "transformer"),
    ),
    make_depth(4),
    make_depth(16),
    ClaimStrategy(
        name="frozen_weights",
        scenarios=("eval",),
        axis="mode",
        summary="gradients left on, but no weight asks for one",
        effect="no graph and no residuals kept",
        support=dict(
            torch=Native("model.requires_grad_(False)"),
            jax=AlwaysOn("nothing is kept unless a derivative is asked for"),
            jittor=AlwaysOn("Module.eval() stops the gradient of every weight"),
        ),
    ),
    ClaimStrategy(
        name="batch_stats",
        scenarios=("eval",),
        axis="normalisation",
        summary="evaluation that forgets eval(): batch norm uses and updates batch statistics",
        effect="every buffer changed by a forward pass",
        support=dict(
            torch=Native("model.train() under no_grad"),
            jax=Native("model.train()"),
            jittor=Native("Module.train() under no_grad"),
        ),
        mathematics="batch_stats",
        workloads=("resnet50",),
    ),
    ClaimStrategy(
        name="whole_every_step",
        scenarios=("pipeline",),
        axis="loading",
        summary="all batches prepared and copied at every step, of which it takes one",
        effect="batches made and buffers used, counted by the loader",
        support=use_everywhere(Native("NumPy on the host, copied to the framework at every step")),
        how="loading",
        options={"mode": "whole_every_step"},
    ),
    make_rule("lean"),
    make_rule("wasteful"),
    ClaimStrategy(
        name="scripted",
        scenarios=("pair",),
        axis="pair",
        summary="two TorchScript models",
        effect="parameter bytes held",
        support=dict(
            torch=Native("torch.jit.trace"),
            jax=Unsupported("PyTorch's own"),
            jittor=Unsupported("PyTorch's own"),
        ),
    ),
    ClaimStrategy(
        name="scripted_shared_trunk",
        scenarios=("pair",),
        axis="pair",
        summary="two TorchScript models with one scripted trunk",
        effect="parameter bytes held",
        support=dict(
            torch=Native("torch.jit.trace, the trunk once"),
            jax=Unsupported("PyTorch's own"),
            jittor=Unsupported("PyTorch's own"),
        ),
        how="scripted",
        options={"shared": True},
    ),
    ClaimStrategy(
        name="wasteful",
        scenarios=("custom_op",),
        axis="rule",
        summary="a rule that saves every intermediate result",
        effect="arrays saved by one GELU",
        support=dict(
            torch=Native("torch.autograd.Function"),
            jax=Native("jax.custom_vjp"),
            jittor=Native("jt.Function"),
        ),
        how="custom_rule",
        options={"lean": False},
    ),
)
