"""Declare how a step computes: batching, loss, execution."""

from __future__ import annotations

from framebench.strategies.strategy import AlwaysOn, Emulated, Native, Strategy, Unsupported

_NO_SLOW_PATH = Unsupported("no slow path was found in this workload to write differently")


def make_accumulation(name: str, micro_batches: int) -> Strategy:
    """Return the row of gradient accumulation over so many micro-batches."""
    return Strategy(
        name=name,
        scenarios=("train",),
        axis="batching",
        summary=f"{micro_batches} micro-batches per optimizer step, the effective batch unchanged",
        effect="micro-steps counted",
        support=dict(
            torch=Native(f"backward of loss / {micro_batches} as often, then one optimizer step"),
            jax=Native("lax.scan over the micro-batches"),
            jittor=Native(f"optimizer.backward(loss / {micro_batches}) as often, then one step"),
        ),
        how="accumulate",
        micro_batches=micro_batches,
        quick=name == "accumulate",
    )


_BATCHING = (
    make_accumulation("accumulate_2", 2),
    make_accumulation("accumulate", 4),
    make_accumulation("accumulate_8", 8),
    Strategy(
        name="multi_steps",
        scenarios=("train",),
        axis="batching",
        summary=(
            "4 micro-batches per update, each a call of its own; the optimizer adds the "
            "gradients up"
        ),
        effect="updates of a step; the batch that was compiled for",
        support=dict(
            torch=AlwaysOn("backward adds to .grad, call by call: see accumulate"),
            jax=Native("optax.MultiSteps(optimizer, 4)"),
            jittor=AlwaysOn("Optimizer.backward adds up, call by call: see accumulate"),
        ),
        micro_batches=4,
    ),
)

_LOSS = (
    Strategy(
        name="chunked_loss",
        scenarios=("train",),
        axis="loss",
        summary=(
            "head and cross entropy over one eighth of the tokens after the other, computed again "
            "in the backward pass, so that the logits of all tokens are never there at once "
            "(as Cut Cross-Entropy and Liger do it in kernels)"
        ),
        effect="arrays as large as all logits; softmaxes per step (JAX: loops)",
        support=dict(
            torch=Emulated("torch.utils.checkpoint around the loss of each chunk"),
            jax=Emulated("lax.scan over the chunks, jax.checkpoint around the loss of each"),
            jittor=Emulated("the jt.Function of checkpoint around the loss of each chunk"),
        ),
        options={"chunks": 8},
        workloads=("transformer",),
        clashes={"distill": "each computes a loss of its own from the model's output"}
        | dict.fromkeys(
            ("compile", "memory_budget", "compile_reduce_overhead", "compile_max_autotune"),
            (
                "the head is computed piece by piece outside of the compiled model, whose "
                "proof is that nothing is"
            ),
        ),
    ),
)

_EXECUTION = (
    Strategy(
        name="compile",
        scenarios=("train", "eval"),
        axis="execution",
        summary="the model compiled and fused as a whole",
        effect="graphs run and products outside of them, by the profiler; graph breaks",
        support=dict(
            torch=Native("torch.compile, default mode"),
            jax=AlwaysOn("jax.jit compiles the whole step"),
            jittor=AlwaysOn("Jittor fuses and compiles every operator it meets"),
        ),
    ),
    Strategy(
        name="compile_step",
        scenarios=("train",),
        axis="execution",
        summary="forward pass, backward pass and update compiled, not the model alone",
        effect=(
            "graphs run, operators outside of them and nodes that autograd walked through, "
            "by the profiler"
        ),
        support=dict(
            torch=Native(
                "torch.compile with torch._dynamo.config.trace_autograd_ops; the update, "
                "where torch.optim breaks the graph, is one of its own"
            ),
            jax=AlwaysOn("jax.jit compiles the whole step"),
            jittor=AlwaysOn("Jittor fuses and compiles every operator it meets"),
        ),
        clashes=dict.fromkeys(
            (
                "amp_bf16",
                "amp_fp16",
                "accumulate",
                "accumulate_2",
                "accumulate_8",
                "optimizer_in_backward",
                "keep_grads",
                "chunked_loss",
                "distill",
            ),
            "it compiles a plain step: one pass, its loss, and the update",
        )
        | {
            "fused_optimizer": (
                "the compiler calls the fused kernel as it is: there is no update to compile"
            ),
            "foreach": "a compiled update shows no operators on lists",
            "adafactor": (
                "PyTorch's update reads how large each weight is, which breaks the compiler's graph"
            ),
            "adamw_8bit": "torchao compiles the update by itself",
            "adamw_8bit_bnb": "bitsandbytes makes the update by kernels of its own",
            **dict.fromkeys(
                ("checkpoint", "checkpoint_every_2"),
                (
                    "the compiler recomputes in a backward graph of its own, not inside of a "
                    "whole step"
                ),
            ),
            **dict.fromkeys(
                ("offload", "offload_streamed"),
                "hooks on saved tensors are not called inside of a compiled step",
            ),
        },
        workloads=("transformer",),
    ),
    Strategy(
        name="memory_budget",
        scenarios=("train",),
        axis="execution",
        summary=(
            "compiled, the compiler recomputing until the model keeps half of the "
            "activations that it would keep"
        ),
        effect="as for compile; products computed again",
        support=dict(
            torch=Native(
                "torch._functorch.config.activation_memory_budget = 0.5, with torch.compile"
            ),
            jax=Unsupported("no such option; what is recomputed is said by jax.checkpoint"),
            jittor=Unsupported("no such option"),
        ),
        how="compile",
        options={"budget": 0.5},
        workloads=("transformer",),
    ),
    Strategy(
        name="compile_reduce_overhead",
        scenarios=("train", "eval"),
        axis="execution",
        summary="compiled, and replayed as CUDA graphs",
        effect="CUDA graphs captured",
        support=dict(
            torch=Native("torch.compile(mode='reduce-overhead')", gpu=True),
            jax=Unsupported("no such mode; XLA builds command buffers by itself"),
            jittor=Unsupported("no such mode"),
        ),
        how="compile",
        options={"mode": "reduce-overhead"},
    ),
    Strategy(
        name="compile_max_autotune",
        scenarios=("train", "eval"),
        axis="execution",
        summary="compiled, with every kernel variant tried",
        effect="kernels tried",
        support=dict(
            torch=Native("torch.compile(mode='max-autotune')", gpu=True),
            jax=Unsupported("no such mode; XLA autotunes by itself on a GPU"),
            jittor=Unsupported("no such mode"),
        ),
        how="compile",
        options={"mode": "max-autotune"},
    ),
    Strategy(
        name="jit_script",
        scenarios=("train", "eval"),
        axis="execution",
        summary="the blocks as TorchScript",
        effect="blocks that are ScriptModules",
        support=dict(
            torch=Native("torch.jit.script, or trace where a block cannot be scripted"),
            jax=Unsupported("PyTorch's own"),
            jittor=Unsupported("PyTorch's own"),
        ),
        clashes=dict.fromkeys(
            ("checkpoint", "checkpoint_every_2", "checkpoint_dots", "checkpoint_linear"),
            (
                "batch norm's momentum, which recomputation sets to 0, is a constant of a "
                "scripted block"
            ),
        )
        | {
            "int8_dynamic": "TorchScript does not call the products of quantized tensors",
            "lean_rule": "TorchScript has no torch.autograd.Function",
            "wasteful_rule": "TorchScript has no torch.autograd.Function",
        },
    ),
    Strategy(
        name="no_jit",
        scenarios=("train",),
        axis="execution",
        summary="the step executed operation by operation",
        effect="operations dispatched one by one",
        support=dict(
            torch=AlwaysOn("eager mode is PyTorch's default"),
            jax=Native("the step under jax.disable_jit"),
            jittor=Unsupported("Jittor compiles every operator; not_lazy is the nearest"),
        ),
        clashes={
            "no_donate": "operations that are executed one by one donate nothing",
            "mu_bf16": (
                "one by one, each operation on the moment rounds to bfloat16, which was "
                "never measured"
            ),
        },
    ),
    Strategy(
        name="no_fuse",
        scenarios=("train", "eval"),
        axis="execution",
        summary="operators compiled one by one, not fused",
        effect="kernels executed per step",
        support=dict(
            torch=AlwaysOn("eager mode fuses nothing"),
            jax=Unsupported("fusion is no option of XLA's; no_jit is the nearest"),
            jittor=Native("jt.flags.no_fuse = 1"),
        ),
        clashes={
            "rewrite": (
                "Jittor finds oneDNN's convolutions by fusing, so a step written as 2-D ones "
                "reaches no fast kernel"
            )
        },
    ),
    Strategy(
        name="scan",
        scenarios=("train",),
        axis="execution",
        summary="identical layers compiled once and looped over",
        effect="loops in the program",
        support=dict(
            torch=Unsupported("eager PyTorch loops in Python already"),
            jax=Native("nnx.scan over the stacked layers"),
            jittor=Unsupported("Jittor has no loop operator"),
        ),
        workloads=("transformer",),
    ),
    Strategy(
        name="attention_plain",
        scenarios=("train", "eval"),
        axis="attention",
        summary="attention as two products and a softmax",
        effect="fused attention operators executed",
        support=dict(
            torch=Native("softmax(q k^T) v instead of scaled_dot_product_attention"),
            jax=AlwaysOn(
                "jax.nn.dot_product_attention is two products and a softmax by default, on a GPU "
                "too (measured on the CPU: written out, the step has the same plan to the byte); "
                "its cudnn implementation takes half precision only"
            ),
            jittor=AlwaysOn(
                "Jittor has no fused attention; its softmax and mask are fused by the compiler"
            ),
        ),
        workloads=("transformer",),
    ),
    Strategy(
        name="sdpa_math",
        scenarios=("train", "eval"),
        axis="attention",
        summary="scaled_dot_product_attention without a fused kernel",
        effect="attention operators executed",
        support=dict(
            torch=Native("torch.nn.attention.sdpa_kernel(SDPBackend.MATH)"),
            jax=AlwaysOn("jax.nn.dot_product_attention(implementation='xla') is the default"),
            jittor=AlwaysOn("Jittor has no fused attention"),
        ),
        how="sdpa",
        options={"backend": "MATH"},
        workloads=("transformer",),
        clashes=dict.fromkeys(
            ("amp_bf16", "amp_fp16", "bf16", "fp16"),
            "it computes in float32, whatever the weights' type or autocast says",
        ),
    ),
    Strategy(
        name="sdpa_efficient",
        scenarios=("train", "eval"),
        axis="attention",
        summary="the memory-efficient attention kernel alone",
        effect="attention operators executed",
        support=dict(
            torch=Native(
                ("torch.nn.attention.sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION)"), gpu=True
            ),
            jax=Unsupported("jax.nn.dot_product_attention has the implementations xla and cudnn"),
            jittor=Unsupported("Jittor has no fused attention"),
        ),
        how="sdpa",
        options={"backend": "EFFICIENT_ATTENTION"},
        workloads=("transformer",),
    ),
    Strategy(
        name="sdpa_flash",
        scenarios=("train", "eval"),
        axis="attention",
        summary="the flash attention kernel alone",
        effect="attention operators executed",
        support=dict(
            torch=Native(
                (
                    "torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION), which takes "
                    "half precision only"
                ),
                gpu=True,
            ),
            jax=Unsupported("jax.nn.dot_product_attention has the implementations xla and cudnn"),
            jittor=Unsupported("Jittor has no fused attention"),
        ),
        how="sdpa",
        options={"backend": "FLASH_ATTENTION"},
        workloads=("transformer",),
        needs=("amp_bf16", "amp_fp16"),
    ),
    Strategy(
        name="sdpa_cudnn",
        scenarios=("train", "eval"),
        axis="attention",
        summary="cuDNN's attention kernel alone",
        effect="attention operators executed",
        support=dict(
            torch=Native(
                (
                    "torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION), which takes "
                    "half precision only"
                ),
                gpu=True,
            ),
            jax=Native(
                (
                    "jax.nn.dot_product_attention(implementation='cudnn'), which takes half "
                    "precision only"
                ),
                gpu=True,
            ),
            jittor=Unsupported("Jittor has no fused attention"),
        ),
        how="sdpa",
        options={"backend": "CUDNN_ATTENTION"},
        workloads=("transformer",),
        needs=("amp_bf16", "amp_fp16"),
    ),
    Strategy(
        name="autotune",
        scenarios=("train", "eval"),
        axis="autotuning",
        summary="the library's algorithms tried out for every new shape, the fastest kept",
        effect="allocations of a first convolution",
        support=dict(
            torch=Native("torch.backends.cudnn.benchmark = True", gpu=True),
            jax=AlwaysOn("XLA tries its and the libraries' kernels out when it compiles for a GPU"),
            jittor=AlwaysOn("Jittor tries cuDNN's algorithms for the first 100 shapes it meets"),
        ),
        workloads=("resnet50", "unet3d"),
    ),
    Strategy(
        name="autotune_off",
        scenarios=("train", "eval"),
        axis="autotuning",
        summary="the library's first choice of an algorithm taken untried",
        effect=(
            "JAX: allocations while a convolution is compiled; Jittor: no entry in the table "
            "of what was tried"
        ),
        support=dict(
            torch=AlwaysOn("torch.backends.cudnn.benchmark is off by default"),
            jax=Native(
                (
                    "XLA_FLAGS=--xla_gpu_autotune_level=0; XLA ends the process for a flag "
                    "that it does not know"
                ),
                gpu=True,
                env={"XLA_FLAGS": "--xla_gpu_autotune_level=0"},
            ),
            jittor=Native("jt.cudnn.set_algorithm_cache_size(0)", gpu=True),
        ),
        workloads=("resnet50", "unet3d"),
    ),
    Strategy(
        name="rewrite",
        scenarios=("train",),
        axis="rewriting",
        summary="a slow kernel avoided by writing the same mathematics differently",
        effect="operations counted",
        support=dict(
            torch=_NO_SLOW_PATH,
            jax=Emulated("see the workload's `rewrites`"),
            jittor=Emulated("see the workload's `rewrites`"),
        ),
        exceptions={
            "resnet50/jax": (
                "XLA:CPU is slow at grouped convolutions, which only the variants have; "
                "no other way to write them is here"
            )
        },
        quick=True,
    ),
)


ROWS = (*_BATCHING, *_LOSS, *_EXECUTION)
