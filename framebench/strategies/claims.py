"""Arms that exist to test an article's sentence, or to show what a default is worth; nobody would choose them to save memory.

Tables, heat maps and the first part of the support matrix leave them out; the claims' pages show them. As in the other files,
the switch of a row of STEPS, MEMORY or SCENARIOS is in the adapters' file of that name.
"""

from __future__ import annotations

from functools import partial

from framebench.strategies.memory import XLA_OWNS
from framebench.strategies.precision import FLOAT16_LOOPS
from framebench.strategies.strategy import AlwaysOn, Native, Strategy, Unsupported, cells, everywhere

arm = partial(Strategy, only_for_claims=True)
COLLECTOR = everywhere(Native("Python's gc module, around the framework's step"))
_COMPILED = ("compile", "compile_reduce_overhead", "compile_max_autotune")
_NO_OPERATORS = dict.fromkeys(_COMPILED, "in a compiled graph no operator tells which rule ran")
SMALLER = everywhere(Native("a smaller configuration of the same model file"))

PRECISION = (
    *(
        arm(
            f"amp_level_{level}", ("train",), "precision", f"Jittor's amp_level {level}, as it is",
            "dtypes of the graph's variables, and those that Jittor chooses for others",
            cells(
                Unsupported("amp_level is Jittor's; see amp_bf16 and amp_fp16"),
                Unsupported("amp_level is Jittor's; see amp_bf16"),
                Native(f"jt.flags.amp_level = {level}; it turns the weights to float16 too; {FLOAT16_LOOPS}", gpu=True)
                if level > 3 else Native(f"jt.flags.amp_level = {level}, at which no variable changes its type"),
            ),
            how="amp_level", options={"level": level}, precision="fp16" if level > 3 else "fp32",
        )
        for level in (3, 4, 5, 6)
    ),
)

STEPS = (
    arm(
        "long", ("train",), "structure", "sequences four times as long", "shape of the input",
        everywhere(Native("a longer configuration of the same model file")),
        how="variant", variant="long", workloads=("transformer",),
    ),
    arm(
        "no_onednn", ("eval",), "library", "Jittor's own loops in place of oneDNN's convolutions and products",
        "kernels of oneDNN executed; its library among the process's mappings",
        cells(
            Unsupported("what is compared is Jittor's fusion"), Unsupported("what is compared is Jittor's fusion"),
            Native("use_mkl=0 in the environment", env={"use_mkl": "0"}),
        ),
    ),
    arm(
        "not_lazy", ("train", "eval"), "execution", "every operator executed as soon as it is called", "operations pending after a call",
        cells(
            AlwaysOn("eager mode executes at once"),
            Unsupported("a compiled step has no order of calls; no_jit is the nearest"),
            Native("jt.flags.lazy_execution = 0"),
        ),
    ),
)  # fmt: skip

MEMORY = (
    arm(
        "empty_cache_every_10", ("train",), "cache", "the allocator's cache given back every ten steps (an epoch)", "calls counted",
        cells(Native("torch.cuda.empty_cache() every 10 steps", gpu=True), XLA_OWNS, Native("jt.gc() every 10 steps")),
        how="empty_cache", options={"every": 10},
    ),
    arm(
        "cufft_cache_off", ("train",), "plan cache", "no cuFFT plans kept", "plans in the cache",
        cells(*[Unsupported("no workload here runs a Fourier transform, so there are no plans to keep")] * 3),
    ),
    *(
        arm(
            name, ("eval",), "before", summary, "training step run before; what was given back",
            cells(
                Native(f"one training step first{', then gc.collect() and empty_cache()' * cleared}", gpu=True),
                Native(f"one training step first, its arrays dropped{', then gc.collect() and jax.clear_caches()' * cleared}"),
                Native(f"one training step first{', then gc.collect() and jt.gc()' * cleared}"),
            ),
            how="after_training", options={"cleared": cleared},
        )
        for name, summary, cleared in (
            ("after_training", "evaluation in the process that has trained", False),
            ("after_training_cleared", "the same, caches emptied in between", True),
        )
    ),
    *(
        arm(
            name, ("train", "pipeline"), "collector", summary, "collections counted by gc.callbacks", COLLECTOR,
            how="collector", options=options,
        )
        for name, summary, options in (
            ("gc_off", "Python's collector off", {"mode": "off"}),
            ("gc_frozen", "what is there before the first step kept out of collections", {"mode": "frozen"}),
            ("gc_every_1", "a full collection after every step", {"every": 1}),
            ("gc_every_2", "a full collection after every second step", {"every": 2}),
        )
    ),
)  # fmt: skip

SCENARIOS = (
    arm(
        "width_half", ("train", "eval"), "structure", "half the channels of every layer, really removed", "parameters counted", SMALLER,
        how="variant", variant="width_half",
    ),
    arm(
        "grouped", ("train", "eval"), "structure", "3x3 convolutions in groups", "parameters counted", SMALLER,
        how="variant", variant="grouped", workloads=("resnet50",),
    ),
    arm(
        "depthwise", ("train", "eval"), "structure", "3x3 convolutions channel by channel", "parameters counted", SMALLER,
        how="variant", variant="depthwise", workloads=("resnet50",),
    ),
    arm(
        "student", ("train", "eval"), "structure", "a smaller model of the same kind, on its own", "parameters counted", SMALLER,
        how="variant", variant="student",
    ),
    arm(
        "distill", ("train",), "structure", "the student trained on the labels and on the full model's outputs", "forward passes of both",
        everywhere(Native("teacher without a graph, Kullback-Leibler divergence beside the loss")),
        variant="student", mathematics="distill", workloads=("resnet50", "transformer"),
    ),
    *(
        arm(
            f"depth_{n}", ("train",), "structure", f"{n} layers", "parameters counted",
            everywhere(Native("another depth of the same model file")),
            how="variant", variant=f"depth_{n}", workloads=("transformer",),
        )
        for n in (4, 16)
    ),
    arm(
        "frozen_weights", ("eval",), "mode", "gradients left on, but no weight asks for one", "no graph and no residuals kept",
        cells(
            Native("model.requires_grad_(False)"),
            AlwaysOn("nothing is kept unless a derivative is asked for"),
            AlwaysOn("Module.eval() stops the gradient of every weight"),
        ),
    ),
    arm(
        "batch_stats", ("eval",), "normalisation", "evaluation that forgets eval(): batch norm uses and updates batch statistics",
        "every buffer changed by a forward pass",
        cells(Native("model.train() under no_grad"), Native("model.train()"), Native("Module.train() under no_grad")),
        mathematics="batch_stats", workloads=("resnet50",),
    ),
    arm(
        "whole_every_step", ("pipeline",), "loading", "all batches prepared and copied at every step, of which it takes one",
        "batches made and buffers used, counted by the loader",
        everywhere(Native("NumPy on the host, copied to the framework at every step")),
        how="loading", options={"mode": "whole_every_step"},
    ),
    *(
        arm(
            f"{name}_rule", ("eval",), "rule", f"evaluation with the {name} differentiation rule of custom_op", "arrays saved by one GELU",
            cells(
                Native("torch.autograd.Function"),
                AlwaysOn("nothing is kept unless a derivative is asked for, whatever the rule"),
                Native("jt.Function"),
            ),
            how="custom_rule", options={"lean": name == "lean"}, workloads=("transformer",), clashes=_NO_OPERATORS,
        )
        for name in ("lean", "wasteful")
    ),
    arm(
        "scripted", ("pair",), "pair", "two TorchScript models", "parameter bytes held",
        cells(Native("torch.jit.trace"), *[Unsupported("PyTorch's own")] * 2),
    ),
    arm(
        "scripted_shared_trunk", ("pair",), "pair", "two TorchScript models with one scripted trunk", "parameter bytes held",
        cells(Native("torch.jit.trace, the trunk once"), *[Unsupported("PyTorch's own")] * 2),
        how="scripted", options={"shared": True},
    ),
    arm(
        "wasteful", ("custom_op",), "rule", "a rule that saves every intermediate result", "arrays saved by one GELU",
        cells(Native("torch.autograd.Function"), Native("jax.custom_vjp"), Native("jt.Function")),
        how="custom_rule", options={"lean": False},
    ),
)  # fmt: skip
