"""PyTorch's switches for the strategies of `framebench/strategies/ranks.toml`.

Each rank is a process, and the group of processes exists before a switch is called. Modules that
only ranks need are imported where they are used, since they would add to the memory and the start
of every other case.
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
from framebench.adapters.proof import (
    Evidence,
    Proof,
    above,
    at_least,
    at_most,
    below,
    equal_to,
    expect,
    including,
)
from framebench.adapters.torch import ranks_private as private
from framebench.adapters.torch.adapter import TorchAdapter, make_optimizer
from framebench.adapters.torch.observe import count_unique_bytes
from framebench.models.spec import Optimizer

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

switch = Switches()


def prepare_ranks(ranks: int) -> None:
    """Join the group as the rank that the launcher's variables name, and wait for the others.

    Raises RuntimeError if the group has another number of ranks.
    """
    dist.init_process_group("gloo")
    if dist.get_world_size() != ranks:
        raise RuntimeError(f"{dist.get_world_size()} ranks were launched instead of {ranks}")


def gather_readings(adapter: TorchAdapter, readings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the readings of each rank and the bytes it holds; every rank must call it."""
    return gather_from_ranks(readings | {"held": measure_held_bytes(adapter)})


def measure_held_bytes(adapter: TorchAdapter) -> dict[str, int]:
    """Return the bytes of the storages in this rank between two steps."""
    parameters = adapter.parameters()
    return {
        "parameters": count_unique_bytes(parameters),
        "gradients": count_unique_bytes(p.grad for p in parameters if p.grad is not None),
        "gradient buckets": adapter.readings.extra_bytes(),
        "optimizer states": count_unique_bytes(t for t in adapter.state_tensors() if t.ndim),
    } | adapter.readings.bytes_by_part()


# kinds of collectives, by what the names of operators contain
KINDS = {
    "allreduce": "all-reduce",
    "all_reduce": "all-reduce",
    "reduce_scatter": "reduce-scatter",
    "allgather": "all-gather",
    "all_gather": "all-gather",
    "broadcast": "broadcast",
}


# by DeepSpeed's stages 0 to 3
COLLECTIVES_OF_STAGES = (
    ["all-reduce"],
    ["all-gather", "all-reduce"],
    ["all-gather", "all-reduce"],
    ["all-gather", "reduce-scatter"],
)


def count_collectives(operators: dict[str, int]) -> dict[str, int]:
    """Count the collectives among the operators of a step, by their kind.

    PyTorch's CommDebugMode counts the same, but fails in a second forward pass.
    """
    counts: Counter[str] = Counter()
    for operator, count in operators.items():
        library, _, name = operator.partition("::")
        if "c10d" in library:
            kind = next((kind for word, kind in KINDS.items() if word in name), name)
            counts[kind] += count
    return dict(counts)


def measure_rank(adapter: TorchAdapter, observed: Evidence) -> Evidence:
    """Return `held` (bytes of this rank by part), `collectives` by kind, and `whole_model_bytes`.

    The last are those of the weights of all ranks.
    """
    return {
        "held": measure_held_bytes(adapter),
        "collectives": count_collectives(observed["operators"]),
        "whole_model_bytes": 4 * adapter.workload.parameter_count(adapter.config),
    }


def count_states_per_weight(adapter: TorchAdapter) -> int:
    """Return how many numbers the optimizer keeps for each number of a weight."""
    return len(adapter.case.optimizer.states)


def gather_from_ranks(value: Any) -> list[Any]:
    """Return the values of all ranks in their order; every rank must call it with its value."""
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


@cache
def make_mesh_of_ranks(device: str) -> DeviceMesh:
    """Return the mesh of all ranks in a row.

    It cannot be made under fake tensors, since a mesh looks up its own rank by number.
    """
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device, (dist.get_world_size(),))


def divide_batch(adapter: TorchAdapter) -> None:
    """Divide the batch among the ranks.

    The loss is the mean over the ranks, and an output has the rows of all ranks.
    """
    ranks = dist.get_world_size()
    rank = dist.get_rank()
    size = adapter.case.batch // ranks
    adapter.recipe.share = slice(rank * size, (rank + 1) * size)

    def compute_mean(loss: Tensor) -> Tensor:
        total = loss.detach().clone()
        dist.all_reduce(total)
        return total / ranks

    def gather_rows(output: Tensor) -> Tensor:
        outputs = [torch.empty_like(output) for _ in range(ranks)]
        dist.all_gather(outputs, output.contiguous())
        return torch.cat(outputs)

    adapter.readings.mean_of_ranks = compute_mean
    adapter.readings.rows_of_ranks = gather_rows


@switch
def ddp(adapter: TorchAdapter, view: bool = False) -> Proof:
    """Replicate the model in each rank, and average gradients.

    With `view` the gradients lie in the buckets that are sent.
    """
    attach_ddp(adapter, view)
    replicated = expect({"held.parameters": equal_to("whole_model_bytes")})
    if not adapter.case.scenario_spec.trains:  # without gradients there is nothing to average
        return (replicated & expect(collectives={})).counting_from(partial(measure_rank, adapter))

    def count_storages() -> Evidence:
        gradients = [p.grad for p in adapter.parameters() if p.grad is not None]
        storages = {gradient.untyped_storage().data_ptr() for gradient in gradients}
        return {"weights": len(adapter.parameters()), "storages_of_gradients": len(storages)}

    proof = replicated & expect(
        {
            "held.optimizer states": equal_to(
                "whole_model_bytes", times=count_states_per_weight(adapter)
            ),
            # a gradient that is a view shares its bucket's storage
            "storages_of_gradients": below("weights") if view else at_least("weights"),
            "collectives.all-reduce": above(0),
        }
    )
    return proof.counting_from(partial(measure_rank, adapter)).counting(count_storages)


def attach_ddp(adapter: TorchAdapter, view: bool = False) -> None:
    """Divide the batch, and in training have DistributedDataParallel average the gradients."""
    divide_batch(adapter)

    def attach(model: nn.Module) -> None:
        replica = adapter.recipe.replicate(model, gradient_as_bucket_view=view)
        adapter.recipe.forward = replica
        if not view:
            adapter.readings.extra_bytes = partial(private.measure_bucket_bytes, replica)

    if adapter.case.scenario_spec.trains:
        adapter.recipe.on_model.append(attach)


@switch
def zero_optimizer(adapter: TorchAdapter) -> Proof:
    """Replicate the model, and divide the optimizer's states among the ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    def make(o: Optimizer, params: Iterable[nn.Parameter], **options: Any) -> Any:
        make_local: Any = partial(make_optimizer, o)
        optimizer = ZeroRedundancyOptimizer(params, make_local, **options)
        optimizer.state = optimizer.optim.state  # of the tensors that this rank updates
        return optimizer

    def gather_states(local_states: Iterator[State]) -> Iterator[State]:
        # no generator: every rank must have come here before one of them goes on
        return itertools.chain.from_iterable(gather_from_ranks(list(local_states)))

    adapter.recipe.optimizer = make
    adapter.readings.states = gather_states
    attach_ddp(adapter)

    def sum_state_bytes(observed: Evidence) -> Evidence:
        """Return the bytes of optimizer states in all ranks together."""
        state_bytes = observed["held"]["optimizer states"]
        return {"state_bytes_of_all_ranks": sum(gather_from_ranks(state_bytes))}

    states_per_weight = count_states_per_weight(adapter)
    # in bytes: all ranks together hold each state once, and one rank holds less
    proof = expect(
        {
            "held.parameters": equal_to("whole_model_bytes"),
            "collectives.broadcast": above(0),
            "held.optimizer states": below("state_bytes_of_all_ranks"),
            "state_bytes_of_all_ranks": equal_to("whole_model_bytes", times=states_per_weight),
        }
    )
    return proof.counting_from(partial(measure_rank, adapter)).counting_from(sum_state_bytes)


@switch
def fsdp(adapter: TorchAdapter, reshard: bool, sync: bool = True) -> Proof:
    """Divide every weight among the ranks.

    By default `fully_shard` keeps the outermost module's weights gathered after the forward pass,
    since the backward pass needs them next. Evaluation has no backward pass.

    Args:
        adapter: The case.
        reshard: Whether a block's weights are dropped after the forward pass.
        sync: Whether each micro-batch reduces its gradients. Otherwise whole gradients are added
            up, and reduced in the last micro-batch.
    """
    from torch.distributed.fsdp import FSDPModule, fully_shard

    trains = adapter.case.scenario_spec.trains
    divide_batch(adapter)

    def attach(model: nn.Module) -> None:
        mesh = make_mesh_of_ranks(adapter.torch_device.type)
        for block in adapter.model_module.blocks_of(model):
            fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
        # None: the outermost weights stay gathered for the backward pass, which evaluation lacks
        of_outermost = None if reshard and trains else reshard
        fully_shard(model, mesh=mesh, reshard_after_forward=of_outermost)

    passes = itertools.count(1)

    def sync_in_last() -> contextlib.nullcontext[None]:
        """Reduce gradients only in the last micro-batch of a step."""
        assert isinstance(adapter.model, FSDPModule)
        adapter.model.set_requires_gradient_sync(next(passes) % adapter.micro_batches == 0)
        return contextlib.nullcontext()

    adapter.recipe.on_model.append(attach)
    if not sync:
        adapter.recipe.contexts.append(sync_in_last)

    def count_expected(observed: Evidence) -> Evidence:
        """Count the bytes of a rank's chunks, and the collectives that a step must make."""
        groups = observed["blocks"] + 1  # one has the weights outside of blocks
        gathered_again = observed["blocks"] if trains and reshard else 0  # in the backward pass
        reductions = adapter.micro_batches if sync else 1
        return {
            "chunk": measure_chunk(adapter),
            "gathers": adapter.micro_batches * (groups + gathered_again),
            "reductions": groups * reductions if trains else 0,
        }

    proof = expect(
        {
            "chunk": below("whole_model_bytes"),
            "held.parameters": equal_to("chunk"),
            "held.gradients": equal_to("chunk") if trains else 0,
            "held.optimizer states": at_most("chunk", times=count_states_per_weight(adapter)),
            "collectives.all-gather": equal_to("gathers"),
            "collectives.reduce-scatter": equal_to("reductions"),
        }
    )
    return proof.counting_from(partial(measure_rank, adapter)).counting_from(count_expected)


def measure_chunk(adapter: TorchAdapter) -> int:
    """Return the bytes of a rank's chunk of all weights, each padded to the longest chunk."""
    chunk = 0
    for p in adapter.parameters():
        rows = math.ceil(p.shape[0] / dist.get_world_size())
        chunk += 4 * rows * p.shape[1:].numel()
    return chunk


@switch
def deepspeed(adapter: TorchAdapter, stage: int) -> Proof:
    """Let DeepSpeed divide states, then gradients, then weights, by the stage of ZeRO."""
    from framebench.adapters.torch.deepspeed import attach_engine

    divide_batch(adapter)
    adapter.torch_device = torch.device("cpu")
    attach_engine(adapter, stage)

    def count_gradients() -> Evidence:
        return {"gradients_at_most": adapter.optimizer.gradients_at_most}

    def compare_from(first: int) -> Any:
        """Return `below` if this stage of ZeRO divides the part, which it does from `first` on."""
        return below if stage >= first else at_least

    states_per_weight = count_states_per_weight(adapter)
    proof = expect(
        {
            "collectives": including(*COLLECTIVES_OF_STAGES[stage]),
            "held.optimizer states": compare_from(1)("whole_model_bytes", times=states_per_weight),
            "gradients_at_most": compare_from(2)("whole_model_bytes"),
            "held.parameters": compare_from(3)("whole_model_bytes"),
        }
    )
    return proof.counting_from(partial(measure_rank, adapter)).counting(count_gradients)
