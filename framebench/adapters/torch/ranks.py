"""How PyTorch switches on the strategies of `suite/catalog/ranks.py`, and what proves them. See `adapters/base.py`.

Each rank is a process, and its group of processes is there before a switch is called. What a single process has no use for is
imported where it is used: it would add to the memory and the start of every other case.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from framebench.adapters.base import Evidence, Proof, State, Switches
from framebench.adapters.torch import ranks_private as private
from framebench.adapters.torch.adapter import TorchAdapter, make_optimizer
from framebench.adapters.torch.observe import unique_bytes
from framebench.models.spec import Optimizer

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

switch = Switches()


def begin(ranks: int) -> None:
    """Be the rank that the launcher's variables say, and wait for the others."""
    dist.init_process_group("gloo")
    if dist.get_world_size() != ranks:
        raise RuntimeError(f"{dist.get_world_size()} ranks were launched instead of {ranks}")


def gathered(run: TorchAdapter, readings: dict[str, Any]) -> list[dict[str, Any]]:
    """What each rank found, in their order; every rank must call it."""
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, readings | {"held": held(run)})
    return every


def held(run: TorchAdapter) -> dict[str, int]:
    """Bytes of the storages in this rank between two steps."""
    parameters = run.parameters()
    return {
        "parameters": unique_bytes(parameters),
        "gradients": unique_bytes(p.grad for p in parameters if p.grad is not None),
        "gradient buckets": run.readings.bytes_beside(),
        "optimizer states": unique_bytes(t for t in run.state_tensors() if t.ndim),
    } | run.readings.bytes_by_part()


def collectives(e: Evidence) -> dict[str, int]:
    """Of the observed step, by their kind. PyTorch's CommDebugMode counts the same, but fails in a second forward pass."""
    counts_by_kind: Counter[str] = Counter()
    for operator, count in e["operators"].items():
        library, _, name = operator.partition("::")
        if "c10d" in library:
            counts_by_kind[next((kind for word, kind in KINDS.items() if word in name), name)] += count
    return dict(counts_by_kind)


KINDS = {"allreduce": "all-reduce", "all_reduce": "all-reduce", "reduce_scatter": "reduce-scatter", "allgather": "all-gather",
         "all_gather": "all-gather", "broadcast": "broadcast"}  # fmt: skip


def counted(run: TorchAdapter, e: Evidence) -> Evidence:
    """What a rank holds and sends, and what the whole model has."""
    e["held"], e["collectives"] = held(run), collectives(e)
    e["whole"] = 4 * run.parameter_count()
    return e


def _states_of(run: TorchAdapter) -> int:
    """So many numbers the optimizer keeps for each weight."""
    return len(run.case.optimizer.states)


@cache
def every_rank(device: str) -> DeviceMesh:
    """All ranks in a row. Not on fake tensors: a mesh looks up its own place."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device, (dist.get_world_size(),))


def divide(run: TorchAdapter) -> None:
    """Each rank computes its part of the batch; a loss is the mean of theirs, and an output all of theirs."""
    each = run.case.batch // dist.get_world_size()
    run.recipe.share = slice(dist.get_rank() * each, (dist.get_rank() + 1) * each)

    def mean(loss: Tensor) -> Tensor:
        total = loss.detach().clone()
        dist.all_reduce(total)
        return total / dist.get_world_size()

    def rows(output: Tensor) -> Tensor:
        every = [torch.empty_like(output) for _ in range(dist.get_world_size())]
        dist.all_gather(every, output.contiguous())
        return torch.cat(every)

    run.readings.mean_of_ranks, run.readings.rows_of_ranks = mean, rows


@switch
def ddp(run: TorchAdapter, view: bool = False) -> Proof:
    divide(run)

    def attach(model: nn.Module) -> None:
        replicated = run.recipe.replicate(model, gradient_as_bucket_view=view)
        run.recipe.forward = replicated
        run.readings.bytes_beside = lambda: 0 if view else private.bucket_bytes(replicated)

    if run.case.stage.trains:
        run.recipe.on_model.append(attach)

    def proof(e: Evidence) -> bool:
        """A gradient that is a view shares its bucket's storage. Without gradients there is nothing to average."""
        evidence = counted(run, e)
        if not run.case.stage.trains:
            return evidence["held"]["parameters"] == evidence["whole"] and not evidence["collectives"]
        storages = {p.grad.untyped_storage().data_ptr() for p in run.parameters() if p.grad is not None}
        evidence["storages_of_gradients"] = len(storages)
        viewed = len(storages) < len(run.parameters())
        whole = evidence["held"]["parameters"] == evidence["whole"] == evidence["held"]["optimizer states"] // _states_of(run)
        return whole and viewed == view and evidence["collectives"].get("all-reduce", 0) > 0

    return proof


@switch
def zero_optimizer(run: TorchAdapter) -> Proof:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    def shared(o: Optimizer, params: Iterable[nn.Parameter], **options: Any) -> Any:
        sharded_optimizer = ZeroRedundancyOptimizer(params, partial(make_optimizer, o), **options)  # type: ignore[arg-type]
        sharded_optimizer.state = sharded_optimizer.optim.state  # of the tensors that this rank updates
        return sharded_optimizer

    def of_every_rank(local_states: Iterator[State]) -> Iterator[State]:
        every: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(every, list(local_states))
        return (state for states in every for state in states)

    run.recipe.optimizer, run.readings.states = shared, of_every_rank
    ddp(run)

    def proof(e: Evidence) -> bool:
        """All states are somewhere, and each in one rank alone."""
        evidence = counted(run, e)
        every: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(every, evidence["held"]["optimizer states"])
        evidence["optimizer_states_by_rank"] = every
        whole = evidence["held"]["parameters"] == evidence["whole"]
        return (
            whole
            and sum(every) == _states_of(run) * evidence["whole"] > max(every)
            and evidence["collectives"].get("broadcast", 0) > 0
        )

    return proof


@switch
def fsdp(run: TorchAdapter, reshard: bool, sync: bool = True) -> Proof:
    """Left to itself `fully_shard` keeps the outermost module's weights: they are needed next, in the backward pass, which
    evaluation has none of. Without `sync` whole gradients are added up, and reduced with those of the last micro-batch."""
    from torch.distributed.fsdp import FSDPModule, fully_shard

    trains = run.case.stage.trains
    divide(run)

    def attach(model: nn.Module) -> None:
        mesh = every_rank(run.where.type)
        for block in run.model_module.blocks_of(model):
            fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, reshard_after_forward=None if reshard and trains else reshard)

    passes = itertools.count(1)

    def last_syncs() -> contextlib.nullcontext[None]:
        assert isinstance(run.model, FSDPModule)
        run.model.set_requires_gradient_sync(next(passes) % run.micro == 0)
        return contextlib.nullcontext()

    run.recipe.on_model.append(attach)
    if not sync:
        run.recipe.contexts.append(last_syncs)

    def proof(e: Evidence) -> bool:
        """Of each tensor a rank holds its chunk, padded to the longest; weights are gathered once for each block and pass.
        Micro-batches do so each, and reduce each unless the last does for all."""
        evidence = counted(run, e)
        chunk = sum(-(-p.shape[0] // dist.get_world_size()) * p.shape[1:].numel() * 4 for p in run.parameters())
        shares, sent, groups = evidence["held"], evidence["collectives"], e["blocks"] + 1
        evidence["chunk"] = chunk
        if not trains:
            return shares["parameters"] == chunk < evidence["whole"] and sent == {"all-gather": groups}
        divided = (
            shares["parameters"] == shares["gradients"] == chunk < evidence["whole"]
            and shares["optimizer states"] <= _states_of(run) * chunk
        )
        reduced, gathered = groups * (run.micro if sync else 1), run.micro * (groups + reshard * e["blocks"])
        return divided and sent.get("reduce-scatter") == reduced and sent.get("all-gather") == gathered

    return proof


@switch
def deepspeed(run: TorchAdapter, stage: int) -> Proof:
    from framebench.adapters.torch import deepspeed as its

    divide(run)
    run.where = torch.device("cpu")
    its.attach(run, stage)

    def proof(e: Evidence) -> bool:
        """Of everything that the stage divides a rank holds less than the whole, and of all else the whole."""
        e["held"], e["collectives"] = held(run), collectives(e)
        e["whole"], shares = 4 * run.workload.parameter_count(run.config), e["held"]
        e["gradients_at_most"] = run.optimizer.gradients_at_most
        divided = {
            1: shares["optimizer states"] < _states_of(run) * e["whole"],
            2: e["gradients_at_most"] < e["whole"],
            3: shares["parameters"] < e["whole"],
        }
        e["divided_from_stage"] = divided
        sends = {"all-reduce"} if stage == 0 else {"all-gather", "reduce-scatter" if stage == 3 else "all-reduce"}
        return all(done == (stage >= least) for least, done in divided.items()) and sends <= e["collectives"].keys()

    return proof
