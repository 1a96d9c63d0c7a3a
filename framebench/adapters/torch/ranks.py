"""How PyTorch switches on the strategies of `framebench/strategies/ranks.py`, and what proves them.

Each rank is a process, and its group of processes is there before a switch is called. What a single process has no use for is
imported where it is used: it would add to the memory and the start of every other case.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from framebench.adapters.base import State, Switches
from framebench.adapters.proof import Evidence, Proof, above, at_least, at_most, below, check, equal_to, expect, including
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
    """Return what each rank has read and holds, in their order; every rank must call it."""
    return gather_from_ranks(readings | {"held": held(run)})


def held(run: TorchAdapter) -> dict[str, int]:
    """Return the bytes of the storages in this rank between two steps."""
    parameters = run.parameters()
    return {
        "parameters": unique_bytes(parameters),
        "gradients": unique_bytes(p.grad for p in parameters if p.grad is not None),
        "gradient buckets": run.readings.bytes_beside(),
        "optimizer states": unique_bytes(t for t in run.state_tensors() if t.ndim),
    } | run.readings.bytes_by_part()


KINDS = {  # of collectives, by what the names of operators have in them
    "allreduce": "all-reduce",
    "all_reduce": "all-reduce",
    "reduce_scatter": "reduce-scatter",
    "allgather": "all-gather",
    "all_gather": "all-gather",
    "broadcast": "broadcast",
}


def count_collectives(operators: dict[str, int]) -> dict[str, int]:
    """Count the collectives among the operators of a step, by their kind.

    PyTorch's CommDebugMode counts the same, but fails in a second forward pass.
    """
    counts_by_kind: Counter[str] = Counter()
    for operator, count in operators.items():
        library, _, name = operator.partition("::")
        if "c10d" in library:
            kinds = [kind for word, kind in KINDS.items() if word in name]
            counts_by_kind[kinds[0] if kinds else name] += count
    return dict(counts_by_kind)


def count_share(run: TorchAdapter, observed: Evidence) -> Evidence:
    """Return what a rank holds and sends, and what the whole model has, in bytes."""
    return {
        "held": held(run),
        "collectives": count_collectives(observed["operators"]),
        "whole": 4 * run.parameter_count(),
    }


def _states_of(run: TorchAdapter) -> int:
    """Return how many numbers the optimizer keeps for each weight."""
    return len(run.case.optimizer.states)


def gather_from_ranks(value: Any) -> list[Any]:
    """Return what each rank gives, in their order; every rank must call it."""
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, value)
    return every


@cache
def every_rank(device: str) -> DeviceMesh:
    """Return the mesh of all ranks in a row. Not on fake tensors: a mesh looks up its own place."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device, (dist.get_world_size(),))


def divide(run: TorchAdapter) -> None:
    """Have each rank compute its part of the batch; a loss is the mean of theirs, and an output all of theirs."""
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
    """Replicate the model in each rank, and average gradients; with `view` they lie in the buckets that are sent."""
    divide(run)

    def attach(model: nn.Module) -> None:
        replicated = run.recipe.replicate(model, gradient_as_bucket_view=view)
        run.recipe.forward = replicated
        run.readings.bytes_beside = lambda: 0 if view else private.bucket_bytes(replicated)

    if run.case.stage.trains:
        run.recipe.on_model.append(attach)

    whole = expect({"held.parameters": equal_to("whole")})
    if not run.case.stage.trains:  # without gradients there is nothing to average
        return (whole & expect(collectives={})).counting(partial(count_share, run))

    def count_storages(_: Evidence) -> Evidence:
        gradients = [p.grad for p in run.parameters() if p.grad is not None]
        storages = {gradient.untyped_storage().data_ptr() for gradient in gradients}
        return {"weights": len(run.parameters()), "storages_of_gradients": len(storages)}

    def states_are_whole(e: Evidence) -> bool:
        return bool(e["held"]["optimizer states"] // _states_of(run) == e["whole"])

    proof = whole & check(states_are_whole, "this rank has the optimizer's states of all weights")
    # a gradient that is a view shares its bucket's storage
    shared = below("weights") if view else at_least("weights")
    proof &= expect({"storages_of_gradients": shared, "collectives.all-reduce": above(0)})
    return proof.counting(partial(count_share, run)).counting(count_storages)


@switch
def zero_optimizer(run: TorchAdapter) -> Proof:
    """Replicate the model, and divide the optimizer's states among the ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    def shared(o: Optimizer, params: Iterable[nn.Parameter], **options: Any) -> Any:
        sharded_optimizer = ZeroRedundancyOptimizer(params, partial(make_optimizer, o), **options)  # type: ignore[arg-type]
        sharded_optimizer.state = sharded_optimizer.optim.state  # of the tensors that this rank updates
        return sharded_optimizer

    def of_every_rank(local_states: Iterator[State]) -> Iterator[State]:
        # no generator: every rank must have come here before one of them goes on
        return itertools.chain.from_iterable(gather_from_ranks(list(local_states)))

    run.recipe.optimizer, run.readings.states = shared, of_every_rank
    ddp(run)

    def count_states(observed: Evidence) -> Evidence:
        return {"optimizer_states_by_rank": gather_from_ranks(observed["held"]["optimizer states"])}

    def states_are_divided(e: Evidence) -> bool:
        every = e["optimizer_states_by_rank"]
        return bool(sum(every) == _states_of(run) * e["whole"] > max(every))

    proof = expect({"held.parameters": equal_to("whole"), "collectives.broadcast": above(0)})
    proof &= check(states_are_divided, "each of the optimizer's states is in one rank alone")
    return proof.counting(partial(count_share, run)).counting(count_states)


@switch
def fsdp(run: TorchAdapter, reshard: bool, sync: bool = True) -> Proof:
    """Divide every weight among the ranks.

    Left to itself `fully_shard` keeps the outermost module's weights: they are needed next, in the backward pass, which
    evaluation has none of. Without `sync` whole gradients are added up, and reduced with those of the last micro-batch.
    """
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
        run.model.set_requires_gradient_sync(next(passes) % run.micro_batches == 0)
        return contextlib.nullcontext()

    run.recipe.on_model.append(attach)
    if not sync:
        run.recipe.contexts.append(last_syncs)

    def count_chunk(_: Evidence) -> Evidence:
        """Count the bytes of a rank's chunk of each tensor, padded to the longest."""
        chunk = 0
        for p in run.parameters():
            rows = math.ceil(p.shape[0] / dist.get_world_size())
            chunk += 4 * rows * p.shape[1:].numel()
        return {"chunk": chunk}

    def weights_are_gathered(e: Evidence) -> bool:
        """Return whether weights are gathered once for each block and pass, and the model's own once."""
        groups = e["blocks"] + 1
        if not trains:
            return bool(e["collectives"] == {"all-gather": groups})
        again = e["blocks"] if reshard else 0
        return bool(e["collectives"].get("all-gather") == run.micro_batches * (groups + again))

    def gradients_are_reduced(e: Evidence) -> bool:
        """Return whether each micro-batch reduces its gradients, or the last one does for all."""
        groups = e["blocks"] + 1
        return bool(e["collectives"].get("reduce-scatter") == groups * (run.micro_batches if sync else 1))

    proof = expect({"held.parameters": equal_to("chunk"), "chunk": below("whole")})
    proof &= check(weights_are_gathered, "weights are gathered once for each block and pass")
    if trains:
        proof &= expect(
            {
                "held.gradients": equal_to("chunk"),
                "held.optimizer states": at_most("chunk", times=_states_of(run)),
            }
        )
        proof &= check(gradients_are_reduced, "gradients are reduced once for each block")
    return proof.counting(partial(count_share, run)).counting(count_chunk)


@switch
def deepspeed(run: TorchAdapter, stage: int) -> Proof:
    """Have DeepSpeed divide what the stage of ZeRO says: states, gradients, weights."""
    from framebench.adapters.torch import deepspeed as its

    divide(run)
    run.where = torch.device("cpu")
    its.attach(run, stage)

    def count_divided(observed: Evidence) -> Evidence:
        """Return what this rank holds, and of what it is less than the whole, by the stage that divides it."""
        shares = held(run)
        whole = 4 * run.workload.parameter_count(run.config)
        gradients = run.optimizer.gradients_at_most
        return {
            "held": shares,
            "collectives": count_collectives(observed["operators"]),
            "whole": whole,
            "gradients_at_most": gradients,
            "divided_from_stage": {
                "1": shares["optimizer states"] < _states_of(run) * whole,
                "2": gradients < whole,
                "3": shares["parameters"] < whole,
            },
        }

    sent = {0: ["all-reduce"], 3: ["all-gather", "reduce-scatter"]}
    divided = {str(least): stage >= least for least in (1, 2, 3)}
    proof = expect(
        divided_from_stage=divided,
        collectives=including(*sent.get(stage, ["all-gather", "all-reduce"])),
    )
    return proof.counting(count_divided)
