"""Declare how several processes or devices share a training step, and what each of them keeps."""

from __future__ import annotations

from framebench.strategies.strategy import Native, Strategy, Unsupported

_PYTORCH_ONLY = Unsupported(
    "a way of PyTorch's; JAX's are replicated, sharded_states, fully_sharded and "
    "fully_sharded_processes"
)
_JAX_ONLY = Unsupported("a way of JAX's; PyTorch's are ddp, zero_optimizer, fsdp_keep and fsdp")
_JITTOR_MPI_NOT_PINNED = Unsupported(
    "Jittor only averages gradients, by MPI operators that it compiles with the "
    "machine's mpicc: no package can be pinned for it"
)
_JITTOR_CANNOT_SHARD = Unsupported(
    "Jittor's MPI operators average gradients and copy weights; every process keeps all states"
)
_WORKLOADS = ("resnet50", "transformer")
_ALL = ("params", "state")  # what JAX can shard
_CLASHES = {
    "optimizer_in_backward": (
        "a weight must not be updated before the ranks have averaged its gradient"
    ),
    "optimizer_offload": (
        "PyTorch's copy of a gradient sets out before the ranks have averaged it; in JAX "
        "both say where states lie"
    ),
}
_DTENSOR = {
    "adafactor": (
        "PyTorch 2.13's fails on divided weights: DTensor cannot square a norm in place (aten.pow_)"
    )
}
_COUNTS_MICRO_BATCHES = "DeepSpeed's engine counts micro-batches by a setting of its own"
_DOES_AUTOCAST = "DeepSpeed's engine does autocast by a setting of its own"
_ENGINE = {
    "accumulate": _COUNTS_MICRO_BATCHES,
    "accumulate_2": _COUNTS_MICRO_BATCHES,
    "accumulate_8": _COUNTS_MICRO_BATCHES,
    "amp_bf16": _DOES_AUTOCAST,
    "amp_fp16": _DOES_AUTOCAST,
    "adafactor": "DeepSpeed cuts weights into pieces, which have no rows and columns",
}
_ON_THE_CPU = {"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": "0"}


def declare_deepspeed(stage: int, summary: str) -> Strategy:
    """Return the strategy of one ZeRO stage of DeepSpeed. At stage 0 only the batch is divided."""
    return Strategy(
        name=f"deepspeed_zero{stage}",
        scenarios=("train",),
        axis="ranks",
        summary=summary,
        effect=(
            "bytes that each rank holds, counted from storages; gradients at the fullest "
            "moment; collectives"
        ),
        support=dict(
            torch=Native(
                f"DeepSpeed's engine, stage {stage}, no weight kept whole for being small",
                env=_ON_THE_CPU,
                package="deepspeed",
            ),
            jax=_PYTORCH_ONLY,
            jittor=_JITTOR_CANNOT_SHARD if stage > 0 else _JITTOR_MPI_NOT_PINNED,
        ),
        how="deepspeed",
        options={"stage": stage},
        over_ranks=True,
        workloads=_WORKLOADS,
        clashes=_CLASHES | _ENGINE,
    )


def declare_jax_sharding(
    name: str,
    scenarios: tuple[str, ...],
    summary: str,
    native: str,
    options: dict[str, object],
) -> Strategy:
    """Return a strategy that shards arrays over devices in JAX.

    `options["split"]` names what is sharded ("params", "state"); if empty, arrays are replicated.
    """
    return Strategy(
        name=name,
        scenarios=scenarios,
        axis="ranks",
        summary=summary,
        effect="bytes that each device holds; collectives of the compiled step",
        support=dict(
            torch=_JAX_ONLY,
            jax=Native(native),
            jittor=_JITTOR_CANNOT_SHARD if options["split"] else _JITTOR_MPI_NOT_PINNED,
        ),
        how="sharded",
        options=options,
        over_ranks=True,
        workloads=_WORKLOADS,
        clashes=_CLASHES,
    )


ROWS = (
    Strategy(
        name="ddp",
        scenarios=("train", "eval"),
        axis="ranks",
        summary="each rank keeps everything; gradients are averaged, bucket by bucket",
        effect="bytes that each rank holds, counted from storages; collectives",
        support=dict(
            torch=Native("DistributedDataParallel"),
            jax=_PYTORCH_ONLY,
            jittor=_JITTOR_MPI_NOT_PINNED,
        ),
        over_ranks=True,
        workloads=_WORKLOADS,
        clashes=_CLASHES,
    ),
    Strategy(
        name="ddp_bucket_view",
        scenarios=("train",),
        axis="ranks",
        summary="as ddp; the gradients are views of the buckets",
        effect="storages of gradients; collectives",
        support=dict(
            torch=Native("DistributedDataParallel(gradient_as_bucket_view=True)"),
            jax=_PYTORCH_ONLY,
            jittor=_JITTOR_MPI_NOT_PINNED,
        ),
        how="ddp",
        options={"view": True},
        over_ranks=True,
        workloads=_WORKLOADS,
        clashes=_CLASHES,
    ),
    Strategy(
        name="zero_optimizer",
        scenarios=("train",),
        axis="ranks",
        summary=(
            "as ddp; each rank updates some of the weights, and keeps the states of those alone"
        ),
        effect="bytes of states that each rank holds; collectives",
        support=dict(
            torch=Native("ZeroRedundancyOptimizer, which hands out whole tensors"),
            jax=_PYTORCH_ONLY,
            jittor=_JITTOR_CANNOT_SHARD,
        ),
        over_ranks=True,
        workloads=_WORKLOADS,
        clashes=_CLASHES,
    ),
    Strategy(
        name="fsdp",
        scenarios=("train", "eval"),
        axis="ranks",
        summary=(
            "weights, gradients and states divided; each block's weights gathered for its "
            "forward pass, and again for its backward pass"
        ),
        effect="bytes that each rank holds, counted from storages; gathers per block",
        support=dict(
            torch=Native("fully_shard of each block and of the model"),
            jax=_PYTORCH_ONLY,
            jittor=_JITTOR_CANNOT_SHARD,
        ),
        options={"reshard": True},
        over_ranks=True,
        workloads=_WORKLOADS,
        clashes=_CLASHES | _DTENSOR,
    ),
    Strategy(
        name="fsdp_keep",
        scenarios=("train",),
        axis="ranks",
        summary=(
            "as fsdp; weights once gathered are kept until the backward pass is through with them"
        ),
        effect="bytes that each rank holds, counted from storages; gathers per block",
        support=dict(
            torch=Native("fully_shard(reshard_after_forward=False)"),
            jax=_PYTORCH_ONLY,
            jittor=_JITTOR_CANNOT_SHARD,
        ),
        how="fsdp",
        options={"reshard": False},
        over_ranks=True,
        workloads=_WORKLOADS,
        clashes=_CLASHES | _DTENSOR,
    ),
    Strategy(
        name="fsdp_no_sync",
        scenarios=("train",),
        axis="ranks",
        summary=(
            "as fsdp; gradients of micro-batches are added up whole, and reduced with the "
            "last one's"
        ),
        effect=(
            "bytes that each rank holds, counted from storages; gathers and reductions per block"
        ),
        support=dict(
            torch=Native("set_requires_gradient_sync(False) but for the last micro-batch"),
            jax=_PYTORCH_ONLY,
            jittor=_JITTOR_CANNOT_SHARD,
        ),
        how="fsdp",
        options={"reshard": True, "sync": False},
        over_ranks=True,
        workloads=_WORKLOADS,
        clashes=_CLASHES | _DTENSOR,
        needs=("accumulate", "accumulate_2", "accumulate_8"),
    ),
    declare_deepspeed(
        0, ("as ddp, by DeepSpeed's engine: gradients are averaged after the backward pass")
    ),
    declare_deepspeed(
        1,
        (
            "DeepSpeed's ZeRO-1: each rank keeps the states of its part, and a copy of that "
            "part of the weights"
        ),
    ),
    declare_deepspeed(
        2,
        (
            "DeepSpeed's ZeRO-2: as ZeRO-1, and other parts' gradients are dropped during "
            "the backward pass"
        ),
    ),
    declare_deepspeed(
        3, "DeepSpeed's ZeRO-3: as ZeRO-2, and of the weights each rank keeps its part"
    ),
    declare_jax_sharding(
        "replicated",
        ("train", "eval"),
        "each device keeps everything; the batch is divided",
        "NamedSharding: weights and states on every device, the batch over a mesh of them",
        {"split": ()},
    ),
    declare_jax_sharding(
        "sharded_states",
        ("train",),
        "each device keeps all weights and a part of the optimizer's states",
        "NamedSharding of the states by the longest axis that divides",
        {"split": ("state",)},
    ),
    declare_jax_sharding(
        "fully_sharded",
        ("train", "eval"),
        "each device keeps a part of weights and states",
        (
            "NamedSharding of weights and states by the longest axis that divides; XLA "
            "decides what is gathered when"
        ),
        {"split": _ALL},
    ),
    declare_jax_sharding(
        "fully_sharded_processes",
        ("train", "eval"),
        "as fully_sharded; each device in a process of its own",
        "as fully_sharded, after jax.distributed.initialize; gloo between processes",
        {"split": _ALL, "processes": True},
    ),
)
