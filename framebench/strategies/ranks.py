"""What several processes or devices share of a training step: its gradients, and what each of them keeps of its state."""

from __future__ import annotations

from framebench.strategies.strategy import Native, Strategy, Unsupported, cells

_PYTORCH_ONLY = Unsupported("a way of PyTorch's; JAX's are replicated, sharded_states, fully_sharded and fully_sharded_processes")
_JAX_ONLY = Unsupported("a way of JAX's; PyTorch's are ddp, zero_optimizer, fsdp_keep and fsdp")
_JITTOR_AVERAGES = Unsupported(
    "Jittor only averages gradients, by MPI operators that it compiles with the machine's mpicc: no package can be pinned for it"
)
_JITTOR_KEEPS = Unsupported("Jittor's MPI operators average gradients and copy weights; every process keeps all states")
_WORKLOADS = ("resnet50", "transformer")
_ALL = ("params", "state")  # of JAX's step
_CLASHES = {
    "optimizer_in_backward": "a weight must not be updated before the ranks have averaged its gradient",
    "optimizer_offload": "PyTorch's copy of a gradient sets out before the ranks have averaged it; in JAX both say where states lie",
}
_DTENSOR = {"adafactor": "PyTorch 2.13's fails on divided weights: DTensor cannot square a norm in place (aten.pow_)"}
_ENGINE = {
    name: f"DeepSpeed's engine {what} by a setting of its own"
    for what, names in (
        ("counts micro-batches", ("accumulate", "accumulate_2", "accumulate_8")), ("does autocast", ("amp_bf16", "amp_fp16")),
    )
    for name in names
} | {"adafactor": "DeepSpeed cuts weights into pieces, which have no rows and columns"}
_ON_THE_CPU = {"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": "0"}

ROWS = (
    Strategy(
        "ddp", ("train", "eval"), "ranks", "each rank keeps everything; gradients are averaged, bucket by bucket",
        "bytes that each rank holds, counted from storages; collectives",
        cells(Native("DistributedDataParallel"), _PYTORCH_ONLY, _JITTOR_AVERAGES),
        over_ranks=True, workloads=_WORKLOADS, clashes=_CLASHES,
    ),
    Strategy(
        "ddp_bucket_view", ("train",), "ranks", "as ddp; the gradients are views of the buckets",
        "storages of gradients; collectives",
        cells(Native("DistributedDataParallel(gradient_as_bucket_view=True)"), _PYTORCH_ONLY, _JITTOR_AVERAGES),
        how="ddp", options={"view": True}, over_ranks=True, workloads=_WORKLOADS, clashes=_CLASHES,
    ),
    Strategy(
        "zero_optimizer", ("train",), "ranks", "as ddp; each rank updates some of the weights, and keeps the states of those alone",
        "bytes of states that each rank holds; collectives",
        cells(Native("ZeroRedundancyOptimizer, which hands out whole tensors"), _PYTORCH_ONLY, _JITTOR_KEEPS),
        over_ranks=True, workloads=_WORKLOADS, clashes=_CLASHES,
    ),
    Strategy(
        "fsdp", ("train", "eval"), "ranks", "weights, gradients and states divided; each block's weights gathered for its forward pass, and again for its backward pass",
        "bytes that each rank holds, counted from storages; gathers per block",
        cells(Native("fully_shard of each block and of the model"), _PYTORCH_ONLY, _JITTOR_KEEPS),
        options={"reshard": True}, over_ranks=True, workloads=_WORKLOADS, clashes=_CLASHES | _DTENSOR,
    ),
    Strategy(
        "fsdp_keep", ("train",), "ranks", "as fsdp; weights once gathered are kept until the backward pass is through with them",
        "bytes that each rank holds, counted from storages; gathers per block",
        cells(Native("fully_shard(reshard_after_forward=False)"), _PYTORCH_ONLY, _JITTOR_KEEPS),
        how="fsdp", options={"reshard": False}, over_ranks=True, workloads=_WORKLOADS, clashes=_CLASHES | _DTENSOR,
    ),
    Strategy(
        "fsdp_no_sync", ("train",), "ranks", "as fsdp; gradients of micro-batches are added up whole, and reduced with the last one's",
        "bytes that each rank holds, counted from storages; gathers and reductions per block",
        cells(Native("set_requires_gradient_sync(False) but for the last micro-batch"), _PYTORCH_ONLY, _JITTOR_KEEPS),
        how="fsdp", options={"reshard": True, "sync": False}, over_ranks=True, workloads=_WORKLOADS, clashes=_CLASHES | _DTENSOR,
        needs=("accumulate", "accumulate_2", "accumulate_8"),
    ),
    *(
        Strategy(
            f"deepspeed_zero{stage}", ("train",), "ranks", summary,
            "bytes that each rank holds, counted from storages; gradients at the fullest moment; collectives",
            cells(
                Native(f"DeepSpeed's engine, stage {stage}, no weight kept whole for being small", env=_ON_THE_CPU, package="deepspeed"),
                _PYTORCH_ONLY, _JITTOR_KEEPS if stage else _JITTOR_AVERAGES,
            ),
            how="deepspeed", options={"stage": stage}, over_ranks=True, workloads=_WORKLOADS, clashes=_CLASHES | _ENGINE,
        )
        for stage, summary in enumerate((
            "as ddp, by DeepSpeed's engine: gradients are averaged after the backward pass",
            "DeepSpeed's ZeRO-1: each rank keeps the states of its part, and a copy of that part of the weights",
            "DeepSpeed's ZeRO-2: as ZeRO-1, and other parts' gradients are dropped during the backward pass",
            "DeepSpeed's ZeRO-3: as ZeRO-2, and of the weights each rank keeps its part",
        ))
    ),
    *(
        Strategy(
            name, where, "ranks", summary, "bytes that each device holds; collectives of the compiled step",
            cells(_JAX_ONLY, Native(how), _JITTOR_KEEPS if options["split"] else _JITTOR_AVERAGES),
            how="sharded", options=options, over_ranks=True, workloads=_WORKLOADS, clashes=_CLASHES,
        )
        for name, where, options, summary, how in (
            ("replicated", ("train", "eval"), {"split": ()}, "each device keeps everything; the batch is divided",
             "NamedSharding: weights and states on every device, the batch over a mesh of them"),
            ("sharded_states", ("train",), {"split": ("state",)}, "each device keeps all weights and a part of the optimizer's states",
             "NamedSharding of the states by the longest axis that divides"),
            ("fully_sharded", ("train", "eval"), {"split": _ALL}, "each device keeps a part of weights and states",
             "NamedSharding of weights and states by the longest axis that divides; XLA decides what is gathered when"),
            ("fully_sharded_processes", ("train", "eval"), {"split": _ALL, "processes": True},
             "as fully_sharded; each device in a process of its own", "as fully_sharded, after jax.distributed.initialize; gloo between processes"),
        )
    ),
)  # fmt: skip
