"""The one table: every scenario, every strategy, and how each framework does it or why it cannot. A missing cell is an import error."""

from __future__ import annotations

from collections.abc import Iterator

from framebench.strategies import AlwaysOn, Cell, Emulated, Native, Scenario, Strategy, Unsupported, combine

_SCENARIOS = (
    Scenario("train", "forward, backward and optimizer step", "fp32", "training"),
    Scenario("eval", "a forward pass in evaluation mode", "no_grad", "logits"),
    Scenario("finetune", "a training step of the upper half of the blocks; the lower half is frozen", "half", "training"),
    Scenario(
        "varlen", "evaluation of a fixed stream of batches whose sequences differ in length (images do not)", "padded", "loss",
        workloads=("transformer",),
    ),
    Scenario(
        "pair", "evaluation by two models that differ in their last layer", "together", "loss", workloads=("resnet50",)
    ),
    Scenario(
        "pipeline", "a training step on images that are read and prepared on the host beside it", "iterator", "training",
        workloads=("resnet50",),
    ),
    Scenario(
        "custom_op", "a training step whose GELU is a differentiation rule written by hand", "built_in", "training",
        workloads=("transformer",), mathematics="train",
    ),
)  # fmt: skip
SCENARIOS: dict[str, Scenario] = {s.name: s for s in _SCENARIOS}
BASELINES = {s.name: s.baseline for s in _SCENARIOS}  # what the ratios of a table refer to

_NO_BF16 = Unsupported(
    "oneDNN products take float32 only there; amp levels 0-3 change nothing, 4-5 turn the weights to bfloat16 too"
)
_FLOAT16_LOOPS = "on a CPU, where oneDNN takes no float16, one step of the CPU sizes takes half a minute to minutes"
_NO_SLOW_PATH = Unsupported("no slow path was found in this workload to write differently")
_JITTOR_ONLY = Unsupported("a setting of Jittor's")
_XLA_OWNS = Unsupported("XLA plans the step's buffers ahead; nothing is cached between steps that could be emptied")
_VARIANT = {f: Native("a smaller configuration of the same model file") for f in ("torch", "jax", "jittor")}
_COLLECTOR = {f: Native("Python's gc module, around the framework's step") for f in ("torch", "jax", "jittor")}


def _cells(torch: Cell, jax: Cell, jittor: Cell) -> dict[str, Cell]:
    return {"torch": torch, "jax": jax, "jittor": jittor}


_PRECISION = (
    Strategy(
        "fp32", ("train",), "precision", "everything in strict float32", "dtype of every saved activation",
        _cells(
            Native("TF32 switched off for matmul and cuDNN"),
            Native("default_matmul_precision = highest"),
            Native("float32 is the only dtype used"),
        ),
        quick=True,
    ),
    Strategy(
        "tf32", ("train", "eval"), "precision", "float32 storage, products in TensorFloat-32", "rounding of a product",
        _cells(
            Native("allow_tf32 for matmul and cuDNN", gpu=True),
            Native("default_matmul_precision = tensorfloat32", gpu=True),
            Native("jt.flags.use_tensorcore = 1, by which cuDNN may round convolutions to float16 too", gpu=True),
        ),
        precision="tf32",
    ),
    Strategy(
        "amp_bf16", ("train", "eval"), "precision", "bfloat16 activations, float32 weights and optimizer", "dtype of the activations",
        _cells(Native("torch.autocast(dtype=bfloat16)"), Native("Flax dtype=bfloat16, param_dtype=float32"), _NO_BF16),
        precision="bf16", quick=True,
    ),
    Strategy(
        "amp_fp16", ("train",), "precision", "float16 activations, float32 weights, the loss scaled", "dtype of the activations, scale",
        _cells(
            Native("torch.autocast(dtype=float16) and torch.amp.GradScaler", gpu=True),
            Emulated("Flax dtype=float16, the loss multiplied and the gradient divided by a dynamic scale", gpu=True),
            Unsupported("Jittor has no gradient scaler, and its float16 products are not used below amp_level 4"),
        ),
        precision="fp16",
    ),
    Strategy(
        "bf16", ("eval",), "precision", "weights and activations in bfloat16", "dtype of weights and products",
        _cells(Native("model.bfloat16()"), Native("Flax dtype = param_dtype = bfloat16"), _NO_BF16),
        how="half", options={"dtype": "bfloat16"}, precision="bf16",
    ),
    Strategy(
        "fp16", ("eval",), "precision", "weights and activations in float16", "dtype of weights and products",
        _cells(
            Native("model.half()"),
            Native("Flax dtype = param_dtype = float16; on the CPU the attention is written out, as its float16 products fail"),
            Native(f"Module.float16(); {_FLOAT16_LOOPS}", gpu=True),
        ),
        how="half", options={"dtype": "float16"}, precision="fp16",
    ),
    *(
        Strategy(
            f"amp_level_{level}", ("train",), "precision", f"Jittor's amp_level {level}, as it is",
            "dtypes of the graph's variables, and those that Jittor chooses for others",
            _cells(
                Unsupported("amp_level is Jittor's; see amp_bf16 and amp_fp16"),
                Unsupported("amp_level is Jittor's; see amp_bf16"),
                Native(f"jt.flags.amp_level = {level}; it turns the weights to float16 too; {_FLOAT16_LOOPS}", gpu=True)
                if level > 3 else Native(f"jt.flags.amp_level = {level}, at which no variable changes its type"),
            ),
            how="amp_level", options={"level": level}, precision="fp16" if level > 3 else "fp32",
        )
        for level in (3, 4, 5, 6)
    ),
)

_RECOMPUTATION = (
    Strategy(
        "checkpoint", ("train", "finetune"), "recomputation", "recompute each block in the backward pass",
        "number of block executions per step",
        _cells(
            Native("torch.utils.checkpoint per block, non-reentrant"),
            Native(
                "jax.checkpoint per block, identical blocks as one scanned layer unless some are frozen; unrolled on XLA:CPU "
                "with the pass cse_barrier_expander off, which would merge the recomputation away"
            ),
            Emulated("a jt.Function that re-runs the block in its backward"),
        ),
        quick=True,
    ),
    Strategy(
        "checkpoint_every_2", ("train",), "recomputation", "recompute every second block only", "number of block executions per step",
        _cells(
            Native("torch.utils.checkpoint around every second block"),
            Native("jax.checkpoint around every second block, unrolled"),
            Emulated("the jt.Function around every second block"),
        ),
        how="checkpoint", options={"every": 2},
    ),
    Strategy(
        "checkpoint_dots", ("train",), "recomputation", "recompute all but the products", "products executed per step",
        _cells(
            Native("torch.utils.checkpoint with a selective policy that saves convolutions and matrix products"),
            Native("jax.checkpoint with the policy dots_saveable (convolutions saved likewise)"),
            Unsupported("our jt.Function sees a block as one operator; it cannot save single results inside"),
        ),
    ),
    Strategy(
        "offload", ("train",), "recomputation", "saved activations wait in host memory", "bytes moved to the host",
        _cells(
            Native("torch.autograd.graph.save_on_cpu(pin_memory=True)", gpu=True),
            Native("jax.checkpoint that keeps each block's input in pinned_host; XLA:CPU drops the copies", gpu=True),
            Unsupported("a variable of a Jittor graph cannot be moved between devices"),
        ),
    ),
)

_BATCHING = (
    *(
        Strategy(
            "accumulate" if k == 4 else f"accumulate_{k}", ("train",), "batching",
            f"{k} micro-batches per optimizer step, the effective batch unchanged", "micro-steps counted",
            _cells(
                Native(f"backward of loss / {k} as often, then one optimizer step"),
                Native("lax.scan over the micro-batches"),
                Native(f"optimizer.backward(loss / {k}) as often, then one step"),
            ),
            how="accumulate", micro_batches=k, quick=k == 4,
        )
        for k in (2, 4, 8)
    ),
    Strategy(
        "long", ("train",), "structure", "sequences four times as long", "shape of the input",
        {f: Native("a longer configuration of the same model file") for f in ("torch", "jax", "jittor")},
        how="variant", variant="long", workloads=("transformer",),
    ),
)  # fmt: skip

_EXECUTION = (
    Strategy(
        "compile", ("train", "eval"), "execution", "the model compiled and fused as a whole", "graphs and graph breaks",
        _cells(
            Native("torch.compile, default mode"),
            AlwaysOn("jax.jit compiles the whole step"),
            AlwaysOn("Jittor fuses and compiles every operator it meets"),
        ),
    ),
    Strategy(
        "compile_reduce_overhead", ("train", "eval"), "execution", "compiled, and replayed as CUDA graphs", "CUDA graphs captured",
        _cells(
            Native("torch.compile(mode='reduce-overhead')", gpu=True),
            Unsupported("no such mode; XLA builds command buffers by itself"),
            Unsupported("no such mode"),
        ),
        how="compile", options={"mode": "reduce-overhead"},
    ),
    Strategy(
        "compile_max_autotune", ("train", "eval"), "execution", "compiled, with every kernel variant tried", "kernels tried",
        _cells(
            Native("torch.compile(mode='max-autotune')", gpu=True),
            Unsupported("no such mode; XLA autotunes by itself on a GPU"),
            Unsupported("no such mode"),
        ),
        how="compile", options={"mode": "max-autotune"},
    ),
    Strategy(
        "jit_script", ("train", "eval"), "execution", "the blocks as TorchScript", "blocks that are ScriptModules",
        _cells(Native("torch.jit.script, or trace where a block cannot be scripted"), *[Unsupported("PyTorch's own")] * 2),
    ),
    Strategy(
        "no_jit", ("train",), "execution", "the step executed operation by operation", "operations dispatched one by one",
        _cells(
            AlwaysOn("eager mode is PyTorch's default"),
            Native("the step under jax.disable_jit"),
            Unsupported("Jittor compiles every operator; not_lazy is the nearest"),
        ),
    ),
    Strategy(
        "no_fuse", ("train", "eval"), "execution", "operators compiled one by one, not fused", "kernels executed per step",
        _cells(
            AlwaysOn("eager mode fuses nothing"),
            Unsupported("fusion is no option of XLA's; no_jit is the nearest"),
            Native("jt.flags.no_fuse = 1"),
        ),
    ),
    Strategy(
        "not_lazy", ("train", "eval"), "execution", "every operator executed as soon as it is called", "operations pending after a call",
        _cells(
            AlwaysOn("eager mode executes at once"),
            Unsupported("a compiled step has no order of calls; no_jit is the nearest"),
            Native("jt.flags.lazy_execution = 0"),
        ),
    ),
    Strategy(
        "scan", ("train",), "execution", "identical layers compiled once and looped over", "loops in the program",
        _cells(
            Unsupported("eager PyTorch loops in Python already"),
            Native("nnx.scan over the stacked layers"),
            Unsupported("Jittor has no loop operator"),
        ),
        workloads=("transformer",),
    ),
    Strategy(
        "attention_plain", ("train", "eval"), "attention", "attention as two products and a softmax", "fused attention operators executed",
        _cells(
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
        _cells(
            Native("torch.nn.attention.sdpa_kernel(SDPBackend.MATH)"),
            AlwaysOn("jax.nn.dot_product_attention(implementation='xla') is the default"),
            AlwaysOn("Jittor has no fused attention"),
        ),
        how="sdpa", options={"backend": "MATH"}, workloads=("transformer",),
        clashes={amp: "it computes in float32 whatever autocast says" for amp in ("amp_bf16", "amp_fp16")},
    ),
    Strategy(
        "sdpa_efficient", ("train", "eval"), "attention", "the memory-efficient attention kernel alone", "attention operators executed",
        _cells(
            Native("torch.nn.attention.sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION)", gpu=True),
            Unsupported("jax.nn.dot_product_attention has the implementations xla and cudnn"),
            Unsupported("Jittor has no fused attention"),
        ),
        how="sdpa", options={"backend": "EFFICIENT_ATTENTION"}, workloads=("transformer",),
    ),
    Strategy(
        "sdpa_flash", ("train", "eval"), "attention", "the flash attention kernel alone", "attention operators executed",
        _cells(
            Native("torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION), which takes half precision only", gpu=True),
            Unsupported("jax.nn.dot_product_attention has the implementations xla and cudnn"),
            Unsupported("Jittor has no fused attention"),
        ),
        how="sdpa", options={"backend": "FLASH_ATTENTION"}, workloads=("transformer",), needs=("amp_bf16", "amp_fp16"),
    ),
    Strategy(
        "sdpa_cudnn", ("train", "eval"), "attention", "cuDNN's attention kernel alone", "attention operators executed",
        _cells(
            Native("torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION), which takes half precision only", gpu=True),
            Native("jax.nn.dot_product_attention(implementation='cudnn'), which takes half precision only", gpu=True),
            Unsupported("Jittor has no fused attention"),
        ),
        how="sdpa", options={"backend": "CUDNN_ATTENTION"}, workloads=("transformer",), needs=("amp_bf16", "amp_fp16"),
    ),
    Strategy(
        "autotune", ("train", "eval"), "autotuning", "the library's algorithms tried out for every new shape, the fastest kept",
        "allocations of a first convolution",
        _cells(
            Native("torch.backends.cudnn.benchmark = True", gpu=True),
            AlwaysOn("XLA tries its and the libraries' kernels out when it compiles for a GPU"),
            AlwaysOn("Jittor tries cuDNN's algorithms for the first 100 shapes it meets"),
        ),
        workloads=("resnet50", "unet3d"),
    ),
    Strategy(
        "autotune_off", ("train", "eval"), "autotuning", "the library's first choice of an algorithm taken untried",
        "JAX: allocations while a convolution is compiled; Jittor: no entry in the table of what was tried",
        _cells(
            AlwaysOn("torch.backends.cudnn.benchmark is off by default"),
            Native("XLA_FLAGS=--xla_gpu_autotune_level=0; XLA ends the process for a flag that it does not know", gpu=True,
                   env={"XLA_FLAGS": "--xla_gpu_autotune_level=0"}),
            Native("jt.cudnn.set_algorithm_cache_size(0)", gpu=True),
        ),
        workloads=("resnet50", "unet3d"),
    ),
    Strategy(
        "rewrite", ("train",), "rewriting", "a slow kernel avoided by writing the same mathematics differently", "operations counted",
        _cells(_NO_SLOW_PATH, Emulated("see the workload's `rewrites`"), Emulated("see the workload's `rewrites`")),
        quick=True,
    ),
)  # fmt: skip

_BUFFERS = (
    Strategy(
        "donate", ("train",), "donation", "weights and states updated in place", "bytes of aliased arguments",
        _cells(
            AlwaysOn("the optimizer updates the weights in place"),
            Native("jax.jit(donate_argnums=...)"),
            AlwaysOn("the optimizer assigns to the weights; the old values are freed"),
        ),
    ),
    Strategy(
        "optimizer_in_backward", ("train",), "gradients", "each weight updated as soon as its gradient is there, which is then freed",
        "gradients alive at the end of the backward pass",
        _cells(
            Native("register_post_accumulate_grad_hook with one optimizer per weight"),
            Unsupported("the compiler already frees each gradient after its last use"),
            Unsupported("jt.grad returns all gradients at once; there are no hooks between them"),
        ),
        clashes={f"accumulate{k}": "a gradient that is used up at once cannot be accumulated" for k in ("", "_2", "_8")},
    ),
    Strategy(
        "keep_grads", ("train",), "gradients", "gradients zeroed, not freed, between steps", "gradients alive between steps",
        _cells(
            Native("optimizer.zero_grad(set_to_none=False)"),
            Unsupported("a gradient lives inside the compiled step only"),
            Unsupported("Jittor's zero_grad only counts; gradients are replaced at the next backward"),
        ),
    ),
    Strategy(
        "foreach", ("train",), "optimizer", "the optimizer works on lists of tensors at once", "multi-tensor operators executed, of which the default has none",
        _cells(Native("foreach=True; on a GPU that is the default, and the case the baseline's double: not proven"), Unsupported("XLA fuses the update as it likes"), Unsupported("no such option")),
    ),
    Strategy(
        "fused_optimizer", ("train",), "optimizer", "the optimizer as one kernel", "fused operators executed",
        _cells(Native("fused=True"), Unsupported("XLA fuses the update as it likes"), Unsupported("no such option; fusion makes one")),
    ),
    Strategy(
        "channels_last", ("train", "eval"), "memory format", "channels as the fastest axis", "strides of the convolutions' inputs",
        _cells(
            Native("memory_format=torch.channels_last"),
            AlwaysOn("Flax's layout"),
            Unsupported("Jittor's convolutions take NCHW only"),
        ),
        workloads=("resnet50", "unet3d"),
        exceptions={"unet3d/torch": "channels_last_3d does not survive instance norm, which returns NCDHW: no convolution sees it"},
    ),
)  # fmt: skip

_ALLOCATOR = (
    Strategy(
        "empty_cache", ("train", "eval"), "cache", "the allocator's cache given back after every step", "calls counted; bytes reserved after",
        _cells(Native("torch.cuda.empty_cache() after every step", gpu=True), _XLA_OWNS, Native("jt.gc() after every step")),
    ),
    Strategy(
        "empty_cache_every_10", ("train",), "cache", "the allocator's cache given back every ten steps (an epoch)", "calls counted",
        _cells(Native("torch.cuda.empty_cache() every 10 steps", gpu=True), _XLA_OWNS, Native("jt.gc() every 10 steps")),
        how="empty_cache", options={"every": 10},
    ),
    Strategy(
        "pool_off", ("train", "eval"), "allocator", "no caching between allocations", "bytes that the pool holds and counts",
        _cells(
            Native("PYTORCH_NO_CUDA_MEMORY_CACHING=1", gpu=True, env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
            Native("XLA_PYTHON_CLIENT_ALLOCATOR=platform", gpu=True, env={"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}),
            Unsupported(
                "use_sfrl_allocator = 0 computes wrong: a reshaped array shares memory by way of the pool, and gets uninitialised "
                "memory without it"
            ),
        ),
    ),
    Strategy(
        "expandable_segments", ("train",), "allocator", "the pool grows in place", "segments that say that they can grow",
        _cells(
            Native("expandable_segments:True", gpu=True, env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
            Unsupported("no such option"),
            Unsupported("no such option"),
        ),
    ),
    Strategy(
        "memory_fraction", ("train",), "limit", "the process may take 80 % of the card",
        "PyTorch: more is refused, and had without the limit; JAX: the allocator's limit",
        _cells(
            Native("torch.cuda.set_per_process_memory_fraction(0.8)", gpu=True),
            Native("XLA_PYTHON_CLIENT_MEM_FRACTION=0.8", gpu=True, env={"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.8"}),
            Unsupported("its cap, device_mem_limit, needs another build: see mem_limit"),
        ),
    ),
    Strategy(
        "preallocate", ("train",), "allocator", "most of the card taken at the start", "bytes reserved before the first step",
        _cells(
            Unsupported("the pool grows on demand"),
            Native("XLA_PYTHON_CLIENT_PREALLOCATE=true, which is JAX's default", gpu=True,
                   env={"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}),
            Unsupported("the pool grows on demand"),
        ),
    ),
    Strategy(
        "cufft_cache_off", ("train",), "plan cache", "no cuFFT plans kept", "plans in the cache",
        _cells(*[Unsupported("no workload here runs a Fourier transform, so there are no plans to keep")] * 3),
    ),
    Strategy(
        "managed_allocator", ("train",), "allocator", "CUDA's unified memory", "where the pool takes its memory from",
        _cells(
            Unsupported("not among its allocators"),
            Unsupported("not among the kinds this suite starts"),
            Native("jt.flags.use_cuda_managed_allocator = 1; the flag exists in CUDA builds only", gpu=True,
                   env={"use_cuda_managed_allocator": "1"}),
        ),
    ),
    Strategy(
        "mem_limit", ("train",), "limit", "Jittor built with JT_SAVE_MEM, which swaps variables out above a limit", "variables swapped out",
        _cells(
            _JITTOR_ONLY,
            _JITTOR_ONLY,
            Native(
                "cpu_mem_limit (device_mem_limit) at three quarters of a step's pool, in a build of its own; the CPU's go to a disk",
                env={"cc_flags": "-DJT_SAVE_MEM=1", "cache_name": "save_mem"},
            ),
        ),
    ),
    *(
        Strategy(
            name, ("eval",), "before", summary, "training step run before; what was given back",
            _cells(
                Native(f"one training step first{', then gc.collect() and empty_cache()' * cleared}", gpu=True),
                Native(f"one training step first, its arrays {('kept', 'deleted, then gc.collect()')[cleared]}"),
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
        Strategy(
            name, ("train", "pipeline"), "collector", summary, "collections counted by gc.callbacks", _COLLECTOR,
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
        _cells(
            Native("the output's grad_fn keeps the graph"),
            Emulated("the forward half of jax.vjp, whose residuals are returned"),
            Emulated("is_train cleared module by module: Module.eval() itself stops every gradient"),
        ),
        quick=True,
    ),
    Strategy(
        "no_grad", ("eval",), "mode", "evaluation without a graph, in strict float32", "no graph and no residuals kept",
        _cells(Native("torch.no_grad()"), AlwaysOn("nothing is kept unless a derivative is asked for"), Native("jt.no_grad()")),
        quick=True,
    ),
    Strategy(
        "inference_mode", ("eval",), "mode", "no graph, no version counters", "outputs are inference tensors",
        _cells(
            Native("torch.inference_mode()"),
            Unsupported("JAX records no tape that could be switched off; it is no_grad"),
            Unsupported("Jittor has jt.no_grad() only"),
        ),
        quick=True,
    ),
    Strategy(
        "frozen_weights", ("eval",), "mode", "gradients left on, but no weight asks for one", "no graph and no residuals kept",
        _cells(
            Native("model.requires_grad_(False)"),
            AlwaysOn("nothing is kept unless a derivative is asked for"),
            AlwaysOn("Module.eval() stops the gradient of every weight"),
        ),
    ),
    Strategy(
        "batch_stats", ("eval",), "normalisation", "evaluation that forgets eval(): batch norm uses and updates batch statistics",
        "buffers changed by a forward pass",
        _cells(Native("model.train() under no_grad"), Native("model.train()"), Native("Module.train() under no_grad")),
        mathematics="batch_stats", workloads=("resnet50",),
    ),
)  # fmt: skip

_FINETUNING = (
    Strategy(
        "half", ("finetune",), "frozen", "the upper half of the blocks and the head trained", "weights with a gradient",
        _cells(
            Native("requires_grad_(False) below"),
            Native("derivatives asked of the upper part only"),
            Native("stop_grad() below"),
        ),
        how="frozen",
    ),
    Strategy(
        "head", ("finetune",), "frozen", "the last layer alone trained", "weights with a gradient",
        _cells(Native("requires_grad_(False) below"), Native("derivatives asked of the head only"), Native("stop_grad() below")),
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
        _cells(Native("a shape per batch"), Native("a shape, and a compilation, per batch"), Native("a shape per batch")),
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
        _cells(
            Native("del model; gc.collect(); torch.cuda.empty_cache() on a GPU"),
            Native("del arrays; gc.collect(); jax.clear_caches(), and the executable dropped: compiled anew each time"),
            Native("del model; gc.collect(); jt.gc()"),
        ),
        how="in_turn", options={"cleared": True},
    ),
    Strategy(
        "shared_trunk", ("pair",), "pair", "two models with one trunk", "parameter bytes held",
        _cells(
            Native("the same modules in both"),
            Native("the same arrays in both"),
            Native("the same modules in both"),
        ),
        how="together", options={"shared": True},
    ),
    Strategy(
        "scripted", ("pair",), "pair", "two TorchScript models", "parameter bytes held",
        _cells(Native("torch.jit.trace"), *[Unsupported("PyTorch's own")] * 2),
    ),
    Strategy(
        "scripted_shared_trunk", ("pair",), "pair", "two TorchScript models with one scripted trunk", "parameter bytes held",
        _cells(Native("torch.jit.trace, the trunk once"), *[Unsupported("PyTorch's own")] * 2),
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
        _cells(
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
        _cells(
            Native("torch.autograd.Function"),
            Native("jax.custom_vjp, with a barrier: XLA:CPU would merge what is computed again"),
            Native("jt.Function"),
        ),
        how="custom_rule", options={"lean": True},
    ),
    Strategy(
        "wasteful", ("custom_op",), "rule", "a rule that saves every intermediate result", "arrays saved by one GELU",
        _cells(Native("torch.autograd.Function"), Native("jax.custom_vjp"), Native("jt.Function")),
        how="custom_rule", options={"lean": False},
    ),
)

_ROWS = (
    *_PRECISION, *_RECOMPUTATION, *_BATCHING, *_EXECUTION, *_BUFFERS, *_ALLOCATOR, *_STRUCTURE, *_EVALUATION, *_FINETUNING,
    *_STREAMS, *_PAIRS, *_PIPELINES, *_CUSTOM,
)  # fmt: skip
STRATEGIES: dict[tuple[str, str], Strategy] = {(s, row.name): row for s in SCENARIOS for row in _ROWS if s in row.scenarios}

# Combinations that people use: cases of every profile but the quick one. Any other sensible `a+b` can be asked for by name.
COMBINATIONS: dict[str, tuple[str, ...]] = {
    "train": (
        "amp_bf16+checkpoint",
        "amp_bf16+accumulate",
        "amp_bf16+channels_last",
        "amp_fp16+channels_last",
        "tf32+channels_last",
        "autotune+channels_last",
        "amp_bf16+sdpa_flash",
        "amp_bf16+sdpa_efficient",
        "amp_bf16+sdpa_cudnn",
        "amp_bf16+checkpoint+compile",
        "checkpoint+donate",
        "checkpoint+rewrite",
        "checkpoint+accumulate",
        "accumulate+long",
        "checkpoint+long",
        "checkpoint+depth_4",
        "checkpoint+depth_16",
    ),
    "pipeline": ("gc_frozen+prefetch",),
}


def names(scenario: str) -> tuple[str, ...]:
    """The strategies of a scenario, in the order of the table; combinations last."""
    return tuple(name for where, name in STRATEGIES if where == scenario) + COMBINATIONS.get(scenario, ())


def combinations() -> Iterator[Strategy]:
    for scenario, found in COMBINATIONS.items():
        for name in found:
            yield combine(tuple(STRATEGIES[scenario, p] for p in name.split("+")), SCENARIOS[scenario])
