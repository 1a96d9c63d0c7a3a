"""DeepSpeed's engine in the place of the optimizer: ZeRO 0 to 3 on the CPU over gloo, weights in float32.

What it holds it has in attributes that are no public API: tried with DeepSpeed 0.19.8, and a version that lacks them says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from framebench.adapters.base import State
from framebench.adapters.torch.adapter import STATES, TorchAdapter, make_optimizer
from framebench.adapters.torch.observe import unique_bytes
from framebench.adapters.torch.tensors import on_host
from framebench.models.spec import Optimizer

MOMENTS = {"sgd": ("momentum_buffer",), "adamw": ("exp_avg", "exp_avg_sq")}  # by PyTorch's names
BUCKET = 16  # DeepSpeed reduces gradients in buckets of 500 million numbers, more than these models have: here of a sixteenth


def package() -> Any:
    """DeepSpeed, told to leave collectives to gloo: left to itself it compiles operators for ranks on one host. Raises
    LookupError."""
    try:
        module: Any = importlib.import_module("deepspeed")
    except ImportError as error:
        raise LookupError(
            f"this interpreter cannot import DeepSpeed, of which requirements/deepspeed.txt has a version: {error}"
        ) from error
    module.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return module


class _Engine:
    """As a step and verification see the optimizer."""

    def __init__(self, engine: Any, inner: Any, stage: int) -> None:
        self.engine, self.inner, self.stage = engine, inner, stage
        self.gradients = self.gradients_at_most = 0  # bytes, at the end of a backward pass and during it
        for p in engine.module.parameters():
            p.register_post_accumulate_grad_hook(lambda p: self.look())

    @property
    def state(self) -> dict[Any, Any]:
        return self.inner.state  # type: ignore[no-any-return]

    def zero_grad(self) -> None:
        """The engine drops gradients after each update."""

    def look(self) -> None:
        self.gradients = unique_bytes(self.gradient_tensors())
        self.gradients_at_most = max(self.gradients, self.gradients_at_most)

    def step(self) -> None:
        self.look()
        self.engine.step()

    def gradient_tensors(self) -> Iterator[Tensor]:
        """Of whole tensors, and those of this rank's part; a bucket's, where they are views of it."""
        yield from (p.grad for p in self.engine.module.parameters() if p.grad is not None)
        if self.stage == 3:
            yield self.engine.optimizer.grad_partitions_flat_buffer
        elif self.stage:
            yield from (t for group in self.engine.optimizer.averaged_gradients.values() for t in group or ())

    def held(self) -> dict[str, int]:
        """Bytes by part. Gradients are those that an update starts from, as they are dropped after it."""
        zero = self.engine.optimizer
        try:
            bytes_by_part = {"gradients": self.gradients, "gradient buckets": 0}
            if self.stage in (1, 2):
                bytes_by_part["copy of the weights"] = unique_bytes(zero.single_partition_of_fp32_groups)
            elif self.stage == 3:
                bytes_by_part["parameters"] = unique_bytes(p.ds_tensor for p in self.engine.module.parameters())
                bytes_by_part["copy of the weights"] = unique_bytes(zero.fp32_partitioned_groups_flat)
                bytes_by_part["gradient buckets"] = unique_bytes(bucket.buffer for bucket in zero.ipg_buckets.values())
        except AttributeError as error:
            raise LookupError(
                f"this DeepSpeed has no {error.name} as framebench knows it from 0.19.8, and it is no public API"
            ) from error
        return bytes_by_part


def attach(run: TorchAdapter, stage: int) -> None:
    """Set what the adapter's build and step look at."""
    deepspeed = package()
    run.packages = {"deepspeed": deepspeed.__version__}

    def started(o: Optimizer, params: list[nn.Parameter], **options: Any) -> _Engine:
        inner = make_optimizer(o, params, **options)
        engine, *_ = deepspeed.initialize(model=run.model, optimizer=inner, config=_configuration(run, stage))
        wrapped_engine = _Engine(engine, inner, stage)
        run.recipe.forward, run.recipe.backward, run.readings.bytes_by_part = engine, engine.backward, wrapped_engine.held
        run.readings.gathered = lambda: deepspeed.zero.GatheredParameters(run.parameters(), enabled=stage == 3)
        run.readings.bytes_beside = lambda: sum(
            wrapped_engine.held().get(part, 0) for part in ("copy of the weights", "gradient buckets")
        )
        return wrapped_engine

    def of_every_rank(local_states: Iterator[State]) -> Iterator[State]:
        """A rank has a piece of one long tensor: DeepSpeed puts each weight's together."""
        for name, p in run.model.named_parameters():
            for kind in MOMENTS[run.case.optimizer.name]:
                called = STATES[kind]
                whole = deepspeed.utils.safe_get_full_optimizer_state(p, kind)
                yield State(called, name, on_host(whole), whole.nbytes)

    run.recipe.claim("forward", "backward")
    run.readings.claim("gathered", "bytes_beside", "bytes_by_part")
    run.recipe.optimizer = started
    if stage:
        run.readings.states = of_every_rank


def _configuration(run: TorchAdapter, stage: int) -> dict[str, Any]:
    """Weights below a threshold would stay whole in stage 3, by default all of these models' but a few: here none."""
    return {
        "train_micro_batch_size_per_gpu": run.case.batch // dist.get_world_size(),
        "zero_allow_untested_optimizer": True,  # PyTorch's own
        "gradient_clipping": 0.0,  # left to itself it clips at a norm of 1
        "steps_per_print": 10**9,
        "zero_optimization": {
            "stage": stage,
            "reduce_bucket_size": run.parameter_count() // BUCKET,
            "stage3_param_persistence_threshold": 0,
        },
    }
