"""Declare what a step leaves in memory, and who gives it back: buffers and the allocator."""

from __future__ import annotations

from framebench.models.spec import Optimizer
from framebench.strategies.strategy import AlwaysOn, Native, Strategy, Unsupported

_JITTOR_ONLY = Unsupported("a setting of Jittor's")
XLA_OWNS = Unsupported(
    "XLA plans the step's buffers ahead; nothing is cached between steps that could be emptied"
)

_BUFFERS = (
    Strategy(
        name="no_donate",
        scenarios=("train",),
        axis="donation",
        summary="the old weights and states kept until the step is done",
        effect="arguments deleted; bytes of aliased arguments",
        support=dict(
            torch=Unsupported("the optimizer updates the weights in place"),
            jax=Native(
                "jax.jit without donate_argnums, its default; the baseline donates, as "
                "flax's own examples do"
            ),
            jittor=Unsupported("the optimizer assigns to the weights; the old values are freed"),
        ),
    ),
    Strategy(
        name="optimizer_in_backward",
        scenarios=("train",),
        axis="gradients",
        summary="each weight updated as soon as its gradient is there, which is then freed",
        effect="gradients alive at the end of the backward pass",
        support=dict(
            torch=Native("register_post_accumulate_grad_hook with one optimizer per weight"),
            jax=Unsupported("the compiler already frees each gradient after its last use"),
            jittor=Unsupported(
                "jt.grad returns all gradients at once; there are no hooks between them"
            ),
        ),
        clashes={
            f"accumulate{k}": ("a gradient that is used up at once cannot be accumulated")
            for k in ("", "_2", "_8")
        }
        | {"amp_fp16": "the update comes before the loss scale is divided out of the gradients"},
    ),
    Strategy(
        name="keep_grads",
        scenarios=("train",),
        axis="gradients",
        summary="gradients zeroed, not freed, between steps",
        effect="gradients alive between steps",
        support=dict(
            torch=Native("optimizer.zero_grad(set_to_none=False)"),
            jax=Unsupported("a gradient lives inside the compiled step only"),
            jittor=Unsupported(
                "Jittor's zero_grad only counts; gradients are replaced at the next backward"
            ),
        ),
    ),
    Strategy(
        name="foreach",
        scenarios=("train",),
        axis="optimizer",
        summary="the optimizer works on lists of tensors at once",
        effect="multi-tensor operators executed, of which the default has none",
        support=dict(
            torch=Native(
                "foreach=True; on a GPU that is the default, and the case the baseline's "
                "double: not proven"
            ),
            jax=Unsupported("XLA fuses the update as it likes"),
            jittor=Unsupported("no such option"),
        ),
    ),
    Strategy(
        name="fused_optimizer",
        scenarios=("train",),
        axis="optimizer",
        summary="the optimizer as one kernel",
        effect="fused operators executed",
        support=dict(
            torch=Native("fused=True"),
            jax=Unsupported("XLA fuses the update as it likes"),
            jittor=Unsupported("no such option; fusion makes one"),
        ),
    ),
    Strategy(
        name="mu_bf16",
        scenarios=("train",),
        axis="precision",
        summary="Adam's first moment kept in bfloat16, everything else in strict float32",
        effect="dtypes of both moments; of products and weights",
        support=dict(
            torch=Unsupported("torch.optim keeps its states in the weights' type; see adamw_8bit"),
            jax=Native("optax.adamw(mu_dtype=bfloat16)"),
            jittor=Unsupported("jt.optim keeps its states in float32"),
        ),
        precision="bf16 moment",
        workloads=("transformer",),
    ),
    Strategy(
        name="adafactor",
        scenarios=("train",),
        axis="optimizer",
        summary=(
            "Adafactor: of the second moment of each matrix the means over rows and columns, "
            "no first moment (Shazeer & Stern 2018)"
        ),
        effect="numbers that are kept for each weight",
        support=dict(
            torch=Native("torch.optim.Adafactor"),
            jax=Native(
                "optax.adafactor, for matrices of any size, its weight decay times the "
                "learning rate, as PyTorch has it"
            ),
            jittor=Unsupported("jt.optim has no Adafactor"),
        ),
        how="factored",
        mathematics="adafactor",
        workloads=("transformer",),
        optimizer=Optimizer("adafactor", lr=1e-2, eps=1e-12, weight_decay=0.1),
        clashes={"scan": "JAX's would take the stacked layers together"},
    ),
    Strategy(
        name="channels_last",
        scenarios=("train", "eval"),
        axis="memory format",
        summary="channels as the fastest axis",
        effect="strides of the convolutions' inputs",
        support=dict(
            torch=Native("memory_format=torch.channels_last"),
            jax=AlwaysOn("Flax's layout"),
            jittor=Unsupported("Jittor's convolutions take NCHW only"),
        ),
        workloads=("resnet50", "unet3d"),
        exceptions={
            "unet3d/torch": (
                "channels_last_3d does not survive instance norm, which returns NCDHW: no "
                "convolution sees it"
            )
        },
    ),
)

_ALLOCATOR = (
    Strategy(
        name="empty_cache",
        scenarios=("train", "eval"),
        axis="cache",
        summary="the allocator's cache given back after every step",
        effect="calls counted; bytes reserved after",
        support=dict(
            torch=Native("torch.cuda.empty_cache() after every step", gpu=True),
            jax=XLA_OWNS,
            jittor=Native("jt.gc() after every step"),
        ),
    ),
    Strategy(
        name="pool_off",
        scenarios=("train", "eval"),
        axis="allocator",
        summary="no caching between allocations",
        effect="bytes that the pool holds and counts",
        support=dict(
            torch=Native(
                "PYTORCH_NO_CUDA_MEMORY_CACHING=1",
                gpu=True,
                env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
            ),
            jax=Native(
                "XLA_PYTHON_CLIENT_ALLOCATOR=platform",
                gpu=True,
                env={"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"},
            ),
            jittor=Unsupported(
                "use_sfrl_allocator = 0 computes wrong: a reshaped array shares memory by way of "
                "the pool, and gets uninitialised memory without it"
            ),
        ),
    ),
    Strategy(
        name="expandable_segments",
        scenarios=("train",),
        axis="allocator",
        summary="the pool grows in place",
        effect="segments that say that they can grow",
        support=dict(
            torch=Native(
                "expandable_segments:True",
                gpu=True,
                env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
            ),
            jax=Unsupported("no such option"),
            jittor=Unsupported("no such option"),
        ),
    ),
    Strategy(
        name="malloc_async",
        scenarios=("train",),
        axis="allocator",
        summary="the CUDA driver's own pool, in the order of a stream (cudaMallocAsync)",
        effect="what is counted: the driver's pool, and nothing of the framework's",
        support=dict(
            torch=Native(
                "backend:cudaMallocAsync",
                gpu=True,
                env={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
            ),
            jax=Native(
                "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async",
                gpu=True,
                env={"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"},
            ),
            jittor=Unsupported("not among its allocators"),
        ),
    ),
    Strategy(
        name="memory_fraction",
        scenarios=("train",),
        axis="limit",
        summary="the process may take 80 % of the GPU's memory",
        effect="PyTorch: more is refused, and had without the limit; JAX: the allocator's limit",
        support=dict(
            torch=Native("torch.cuda.set_per_process_memory_fraction(0.8)", gpu=True),
            jax=Native(
                "XLA_PYTHON_CLIENT_MEM_FRACTION=0.8",
                gpu=True,
                env={"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.8"},
            ),
            jittor=Unsupported("its cap, device_mem_limit, needs another build: see mem_limit"),
        ),
    ),
    Strategy(
        name="preallocate",
        scenarios=("train",),
        axis="allocator",
        summary="most of the GPU's memory taken at the start",
        effect="bytes reserved before the first step",
        support=dict(
            torch=Unsupported("the pool grows on demand"),
            jax=Native(
                "XLA_PYTHON_CLIENT_PREALLOCATE=true, which is JAX's default",
                gpu=True,
                env={"XLA_PYTHON_CLIENT_PREALLOCATE": "true"},
            ),
            jittor=Unsupported("the pool grows on demand"),
        ),
    ),
    Strategy(
        name="managed_allocator",
        scenarios=("train",),
        axis="allocator",
        summary="CUDA's unified memory",
        effect="where the pool takes its memory from",
        support=dict(
            torch=Unsupported("not among its allocators"),
            jax=Unsupported("not among the kinds this suite starts"),
            jittor=Native(
                "jt.flags.use_cuda_managed_allocator = 1; the flag exists in CUDA builds only",
                gpu=True,
                env={"use_cuda_managed_allocator": "1"},
            ),
        ),
    ),
    Strategy(
        name="mem_limit",
        scenarios=("train",),
        axis="limit",
        summary="Jittor built with JT_SAVE_MEM, which swaps variables out above a limit",
        effect="variables swapped out",
        support=dict(
            torch=_JITTOR_ONLY,
            jax=_JITTOR_ONLY,
            jittor=Native(
                (
                    "cpu_mem_limit (device_mem_limit) at three quarters of a step's pool, in "
                    "a build of its own; the CPU's go to a disk"
                ),
                env={"cc_flags": "-DJT_SAVE_MEM=1", "cache_name": "save_mem"},
            ),
        ),
    ),
)


ROWS = (*_BUFFERS, *_ALLOCATOR)
