"""How a step computes: batching, loss, execution."""

from __future__ import annotations

from framebench.strategies.strategy import AlwaysOn, Emulated, Native, Strategy, Unsupported, cells

_NO_SLOW_PATH = Unsupported("no slow path was found in this workload to write differently")

_BATCHING = (
    *(
        Strategy(
            "accumulate" if k == 4 else f"accumulate_{k}", ("train",), "batching",
            f"{k} micro-batches per optimizer step, the effective batch unchanged", "micro-steps counted",
            cells(
                Native(f"backward of loss / {k} as often, then one optimizer step"),
                Native("lax.scan over the micro-batches"),
                Native(f"optimizer.backward(loss / {k}) as often, then one step"),
            ),
            how="accumulate", micro_batches=k, quick=k == 4,
        )
        for k in (2, 4, 8)
    ),
    Strategy(
        "multi_steps", ("train",), "batching", "4 micro-batches per update, each a call of its own; the optimizer adds the gradients up",
        "updates of a step; the batch that was compiled for",
        cells(
            AlwaysOn("backward adds to .grad, call by call: see accumulate"),
            Native("optax.MultiSteps(optimizer, 4)"),
            AlwaysOn("Optimizer.backward adds up, call by call: see accumulate"),
        ),
        micro_batches=4,
    ),
)  # fmt: skip

_LOSS = (
    Strategy(
        "chunked_loss", ("train",), "loss", "head and cross entropy over one eighth of the tokens after the other, computed again in the "
        "backward pass, so that the logits of all tokens are never there at once (as Cut Cross-Entropy and Liger do it in kernels)",
        "arrays as large as all logits; softmaxes per step (JAX: loops)",
        cells(
            Emulated("torch.utils.checkpoint around the loss of each chunk"),
            Emulated("lax.scan over the chunks, jax.checkpoint around the loss of each"),
            Emulated("the jt.Function of checkpoint around the loss of each chunk"),
        ),
        options={"chunks": 8}, workloads=("transformer",),
        clashes={"distill": "each computes a loss of its own from the model's output"}
        | dict.fromkeys(
            ("compile", "memory_budget", "compile_reduce_overhead", "compile_max_autotune"),
            "the head is computed piece by piece outside of the compiled model, whose proof is that nothing is",
        ),
    ),
)  # fmt: skip

_EXECUTION = (
    Strategy(
        "compile", ("train", "eval"), "execution", "the model compiled and fused as a whole", "graphs run and products outside of them, by the profiler; graph breaks",
        cells(
            Native("torch.compile, default mode"),
            AlwaysOn("jax.jit compiles the whole step"),
            AlwaysOn("Jittor fuses and compiles every operator it meets"),
        ),
    ),
    Strategy(
        "compile_step", ("train",), "execution", "forward pass, backward pass and update compiled, not the model alone",
        "graphs run, operators outside of them and nodes that autograd walked through, by the profiler",
        cells(
            Native("torch.compile with torch._dynamo.config.trace_autograd_ops; the update, where torch.optim breaks the graph, is one of its own"),
            AlwaysOn("jax.jit compiles the whole step"),
            AlwaysOn("Jittor fuses and compiles every operator it meets"),
        ),
        clashes=dict.fromkeys(
            (
                "amp_bf16", "amp_fp16", "accumulate", "accumulate_2", "accumulate_8", "optimizer_in_backward", "keep_grads",
                "chunked_loss", "distill",
            ),
            "it compiles a plain step: one pass, its loss, and the update",
        )
        | {
            "fused_optimizer": "the compiler calls the fused kernel as it is: there is no update to compile",
            "foreach": "a compiled update shows no operators on lists",
            "adafactor": "PyTorch's update reads how large each weight is, which breaks the compiler's graph",
            "adamw_8bit": "torchao compiles the update by itself",
            "adamw_8bit_bnb": "bitsandbytes makes the update by kernels of its own",
            **dict.fromkeys(
                ("checkpoint", "checkpoint_every_2"), "the compiler recomputes in a backward graph of its own, not inside of a whole step"
            ),
            **dict.fromkeys(
                ("offload", "offload_streamed"), "hooks on saved tensors are not called inside of a compiled step"
            ),
        },
        workloads=("transformer",),
    ),
    Strategy(
        "memory_budget", ("train",), "execution",
        "compiled, the compiler recomputing until the model keeps half of the activations that it would keep", "as for compile; products computed again",
        cells(
            Native("torch._functorch.config.activation_memory_budget = 0.5, with torch.compile"),
            Unsupported("no such option; what is recomputed is said by jax.checkpoint"),
            Unsupported("no such option"),
        ),
        how="compile", options={"budget": 0.5}, workloads=("transformer",),
    ),
    Strategy(
        "compile_reduce_overhead", ("train", "eval"), "execution", "compiled, and replayed as CUDA graphs", "CUDA graphs captured",
        cells(
            Native("torch.compile(mode='reduce-overhead')", gpu=True),
            Unsupported("no such mode; XLA builds command buffers by itself"),
            Unsupported("no such mode"),
        ),
        how="compile", options={"mode": "reduce-overhead"},
    ),
    Strategy(
        "compile_max_autotune", ("train", "eval"), "execution", "compiled, with every kernel variant tried", "kernels tried",
        cells(
            Native("torch.compile(mode='max-autotune')", gpu=True),
            Unsupported("no such mode; XLA autotunes by itself on a GPU"),
            Unsupported("no such mode"),
        ),
        how="compile", options={"mode": "max-autotune"},
    ),
    Strategy(
        "jit_script", ("train", "eval"), "execution", "the blocks as TorchScript", "blocks that are ScriptModules",
        cells(Native("torch.jit.script, or trace where a block cannot be scripted"), *[Unsupported("PyTorch's own")] * 2),
        clashes=dict.fromkeys(
            ("checkpoint", "checkpoint_every_2", "checkpoint_dots", "checkpoint_linear"),
            "batch norm's momentum, which recomputation sets to 0, is a constant of a scripted block",
        )
        | {
            "int8_dynamic": "TorchScript does not call the products of quantized tensors",
            "lean_rule": "TorchScript has no torch.autograd.Function",
            "wasteful_rule": "TorchScript has no torch.autograd.Function",
        },
    ),
    Strategy(
        "no_jit", ("train",), "execution", "the step executed operation by operation", "operations dispatched one by one",
        cells(
            AlwaysOn("eager mode is PyTorch's default"),
            Native("the step under jax.disable_jit"),
            Unsupported("Jittor compiles every operator; not_lazy is the nearest"),
        ),
        clashes={
            "no_donate": "operations that are executed one by one donate nothing",
            "mu_bf16": "one by one, each operation on the moment rounds to bfloat16, which was never measured",
        },
    ),
    Strategy(
        "no_fuse", ("train", "eval"), "execution", "operators compiled one by one, not fused", "kernels executed per step",
        cells(
            AlwaysOn("eager mode fuses nothing"),
            Unsupported("fusion is no option of XLA's; no_jit is the nearest"),
            Native("jt.flags.no_fuse = 1"),
        ),
        clashes={"rewrite": "Jittor finds oneDNN's convolutions by fusing, so a step written as 2-D ones reaches no fast kernel"},
    ),
    Strategy(
        "scan", ("train",), "execution", "identical layers compiled once and looped over", "loops in the program",
        cells(
            Unsupported("eager PyTorch loops in Python already"),
            Native("nnx.scan over the stacked layers"),
            Unsupported("Jittor has no loop operator"),
        ),
        workloads=("transformer",),
    ),
    Strategy(
        "attention_plain", ("train", "eval"), "attention", "attention as two products and a softmax", "fused attention operators executed",
        cells(
            Native("softmax(q k^T) v instead of scaled_dot_product_attention"),
            AlwaysOn(
                "jax.nn.dot_product_attention is two products and a softmax by default, on a GPU too (measured on the CPU: "
                "written out, the step has the same plan to the byte); its cudnn implementation takes half precision only"
            ),
            AlwaysOn("Jittor has no fused attention; its softmax and mask are fused by the compiler"),
        ),
        workloads=("transformer",),
    ),
    Strategy(
        "sdpa_math", ("train", "eval"), "attention", "scaled_dot_product_attention without a fused kernel", "attention operators executed",
        cells(
            Native("torch.nn.attention.sdpa_kernel(SDPBackend.MATH)"),
            AlwaysOn("jax.nn.dot_product_attention(implementation='xla') is the default"),
            AlwaysOn("Jittor has no fused attention"),
        ),
        how="sdpa", options={"backend": "MATH"}, workloads=("transformer",),
        clashes=dict.fromkeys(
            ("amp_bf16", "amp_fp16", "bf16", "fp16"), "it computes in float32, whatever the weights' type or autocast says"
        ),
    ),
    Strategy(
        "sdpa_efficient", ("train", "eval"), "attention", "the memory-efficient attention kernel alone", "attention operators executed",
        cells(
            Native("torch.nn.attention.sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION)", gpu=True),
            Unsupported("jax.nn.dot_product_attention has the implementations xla and cudnn"),
            Unsupported("Jittor has no fused attention"),
        ),
        how="sdpa", options={"backend": "EFFICIENT_ATTENTION"}, workloads=("transformer",),
    ),
    Strategy(
        "sdpa_flash", ("train", "eval"), "attention", "the flash attention kernel alone", "attention operators executed",
        cells(
            Native("torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION), which takes half precision only", gpu=True),
            Unsupported("jax.nn.dot_product_attention has the implementations xla and cudnn"),
            Unsupported("Jittor has no fused attention"),
        ),
        how="sdpa", options={"backend": "FLASH_ATTENTION"}, workloads=("transformer",), needs=("amp_bf16", "amp_fp16"),
    ),
    Strategy(
        "sdpa_cudnn", ("train", "eval"), "attention", "cuDNN's attention kernel alone", "attention operators executed",
        cells(
            Native("torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION), which takes half precision only", gpu=True),
            Native("jax.nn.dot_product_attention(implementation='cudnn'), which takes half precision only", gpu=True),
            Unsupported("Jittor has no fused attention"),
        ),
        how="sdpa", options={"backend": "CUDNN_ATTENTION"}, workloads=("transformer",), needs=("amp_bf16", "amp_fp16"),
    ),
    Strategy(
        "autotune", ("train", "eval"), "autotuning", "the library's algorithms tried out for every new shape, the fastest kept",
        "allocations of a first convolution",
        cells(
            Native("torch.backends.cudnn.benchmark = True", gpu=True),
            AlwaysOn("XLA tries its and the libraries' kernels out when it compiles for a GPU"),
            AlwaysOn("Jittor tries cuDNN's algorithms for the first 100 shapes it meets"),
        ),
        workloads=("resnet50", "unet3d"),
    ),
    Strategy(
        "autotune_off", ("train", "eval"), "autotuning", "the library's first choice of an algorithm taken untried",
        "JAX: allocations while a convolution is compiled; Jittor: no entry in the table of what was tried",
        cells(
            AlwaysOn("torch.backends.cudnn.benchmark is off by default"),
            Native("XLA_FLAGS=--xla_gpu_autotune_level=0; XLA ends the process for a flag that it does not know", gpu=True,
                   env={"XLA_FLAGS": "--xla_gpu_autotune_level=0"}),
            Native("jt.cudnn.set_algorithm_cache_size(0)", gpu=True),
        ),
        workloads=("resnet50", "unet3d"),
    ),
    Strategy(
        "rewrite", ("train",), "rewriting", "a slow kernel avoided by writing the same mathematics differently", "operations counted",
        cells(_NO_SLOW_PATH, Emulated("see the workload's `rewrites`"), Emulated("see the workload's `rewrites`")),
        exceptions={
            "resnet50/jax": "XLA:CPU is slow at grouped convolutions, which only the variants have; no other way to write them is here"
        },
        quick=True,
    ),
)  # fmt: skip


ROWS = (*_BATCHING, *_LOSS, *_EXECUTION)
