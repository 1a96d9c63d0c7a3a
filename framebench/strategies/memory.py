"""What a step leaves in memory, and who gives it back: buffers and the allocator."""

from __future__ import annotations

from framebench.models.spec import Optimizer
from framebench.strategies.strategy import AlwaysOn, Native, Strategy, Unsupported, cells

_JITTOR_ONLY = Unsupported("a setting of Jittor's")
XLA_OWNS = Unsupported("XLA plans the step's buffers ahead; nothing is cached between steps that could be emptied")

_BUFFERS = (
    Strategy(
        "no_donate", ("train",), "donation", "the old weights and states kept until the step is done", "arguments deleted; bytes of aliased arguments",
        cells(
            Unsupported("the optimizer updates the weights in place"),
            Native("jax.jit without donate_argnums, its default; the baseline donates, as flax's own examples do"),
            Unsupported("the optimizer assigns to the weights; the old values are freed"),
        ),
    ),
    Strategy(
        "optimizer_in_backward", ("train",), "gradients", "each weight updated as soon as its gradient is there, which is then freed",
        "gradients alive at the end of the backward pass",
        cells(
            Native("register_post_accumulate_grad_hook with one optimizer per weight"),
            Unsupported("the compiler already frees each gradient after its last use"),
            Unsupported("jt.grad returns all gradients at once; there are no hooks between them"),
        ),
        clashes={f"accumulate{k}": "a gradient that is used up at once cannot be accumulated" for k in ("", "_2", "_8")}
        | {"amp_fp16": "the update comes before the loss scale is divided out of the gradients"},
    ),
    Strategy(
        "keep_grads", ("train",), "gradients", "gradients zeroed, not freed, between steps", "gradients alive between steps",
        cells(
            Native("optimizer.zero_grad(set_to_none=False)"),
            Unsupported("a gradient lives inside the compiled step only"),
            Unsupported("Jittor's zero_grad only counts; gradients are replaced at the next backward"),
        ),
    ),
    Strategy(
        "foreach", ("train",), "optimizer", "the optimizer works on lists of tensors at once", "multi-tensor operators executed, of which the default has none",
        cells(Native("foreach=True; on a GPU that is the default, and the case the baseline's double: not proven"), Unsupported("XLA fuses the update as it likes"), Unsupported("no such option")),
    ),
    Strategy(
        "fused_optimizer", ("train",), "optimizer", "the optimizer as one kernel", "fused operators executed",
        cells(Native("fused=True"), Unsupported("XLA fuses the update as it likes"), Unsupported("no such option; fusion makes one")),
    ),
    Strategy(
        "mu_bf16", ("train",), "precision", "Adam's first moment kept in bfloat16, everything else in strict float32",
        "dtypes of both moments; of products and weights",
        cells(
            Unsupported("torch.optim keeps its states in the weights' type; see adamw_8bit"),
            Native("optax.adamw(mu_dtype=bfloat16)"),
            Unsupported("jt.optim keeps its states in float32"),
        ),
        precision="bf16 moment", workloads=("transformer",),
    ),
    Strategy(
        "adafactor", ("train",), "optimizer",
        "Adafactor: of the second moment of each matrix the means over rows and columns, no first moment (Shazeer & Stern 2018)",
        "numbers that are kept for each weight",
        cells(
            Native("torch.optim.Adafactor"),
            Native("optax.adafactor, for matrices of any size, its weight decay times the learning rate, as PyTorch has it"),
            Unsupported("jt.optim has no Adafactor"),
        ),
        how="factored", mathematics="adafactor", workloads=("transformer",),
        optimizer=Optimizer("adafactor", lr=1e-2, eps=1e-12, weight_decay=0.1),
        clashes={"scan": "JAX's would take the stacked layers together"},
    ),
    Strategy(
        "channels_last", ("train", "eval"), "memory format", "channels as the fastest axis", "strides of the convolutions' inputs",
        cells(
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
        cells(Native("torch.cuda.empty_cache() after every step", gpu=True), XLA_OWNS, Native("jt.gc() after every step")),
    ),
    Strategy(
        "pool_off", ("train", "eval"), "allocator", "no caching between allocations", "bytes that the pool holds and counts",
        cells(
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
        cells(
            Native("expandable_segments:True", gpu=True, env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
            Unsupported("no such option"),
            Unsupported("no such option"),
        ),
    ),
    Strategy(
        "malloc_async", ("train",), "allocator", "the CUDA driver's own pool, in the order of a stream (cudaMallocAsync)",
        "what is counted: the driver's pool, and nothing of the framework's",
        cells(
            Native("backend:cudaMallocAsync", gpu=True, env={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
            Native("XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", gpu=True, env={"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}),
            Unsupported("not among its allocators"),
        ),
    ),
    Strategy(
        "memory_fraction", ("train",), "limit", "the process may take 80 % of the card",
        "PyTorch: more is refused, and had without the limit; JAX: the allocator's limit",
        cells(
            Native("torch.cuda.set_per_process_memory_fraction(0.8)", gpu=True),
            Native("XLA_PYTHON_CLIENT_MEM_FRACTION=0.8", gpu=True, env={"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.8"}),
            Unsupported("its cap, device_mem_limit, needs another build: see mem_limit"),
        ),
    ),
    Strategy(
        "preallocate", ("train",), "allocator", "most of the card taken at the start", "bytes reserved before the first step",
        cells(
            Unsupported("the pool grows on demand"),
            Native("XLA_PYTHON_CLIENT_PREALLOCATE=true, which is JAX's default", gpu=True,
                   env={"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}),
            Unsupported("the pool grows on demand"),
        ),
    ),
    Strategy(
        "managed_allocator", ("train",), "allocator", "CUDA's unified memory", "where the pool takes its memory from",
        cells(
            Unsupported("not among its allocators"),
            Unsupported("not among the kinds this suite starts"),
            Native("jt.flags.use_cuda_managed_allocator = 1; the flag exists in CUDA builds only", gpu=True,
                   env={"use_cuda_managed_allocator": "1"}),
        ),
    ),
    Strategy(
        "mem_limit", ("train",), "limit", "Jittor built with JT_SAVE_MEM, which swaps variables out above a limit", "variables swapped out",
        cells(
            _JITTOR_ONLY,
            _JITTOR_ONLY,
            Native(
                "cpu_mem_limit (device_mem_limit) at three quarters of a step's pool, in a build of its own; the CPU's go to a disk",
                env={"cc_flags": "-DJT_SAVE_MEM=1", "cache_name": "save_mem"},
            ),
        ),
    ),
)  # fmt: skip


ROWS = (*_BUFFERS, *_ALLOCATOR)
