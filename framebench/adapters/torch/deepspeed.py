"""Use DeepSpeed's engine for the optimizer: ZeRO 0 to 3 on the CPU over gloo, weights in float32.

The engine's memory is read from attributes that are no public API, as DeepSpeed 0.19.8 has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch.distributed as dist
from torch import nn

from framebench.adapters.base import State
from framebench.adapters.torch.adapter import STATES, TorchAdapter, make_optimizer
from framebench.adapters.torch.device import to_numpy
from framebench.adapters.torch.observe import count_unique_bytes
from framebench.adapters.torch.quantized import import_package
from framebench.models.spec import Optimizer

# by PyTorch's names
MOMENTS = {"sgd": ("momentum_buffer",), "adamw": ("exp_avg", "exp_avg_sq")}
# DeepSpeed reduces gradients in buckets of 500 million numbers, more than these models have: here
# each has a sixteenth of the model.
BUCKETS = 16


class _EngineOptimizer:
    """DeepSpeed's engine with the interface of an optimizer, for steps and verification.

    Args:
        engine: The engine of DeepSpeed.
        inner: PyTorch's optimizer in the engine.
        stage: The stage of ZeRO.
    """

    def __init__(self, engine: Any, inner: Any, stage: int) -> None:
        """Measure the gradients from now on, each time that one of them is accumulated."""
        self.engine = engine
        self.inner = inner
        self.stage = stage
        self.gradients = 0  # bytes, when they were last measured
        self.gradients_at_most = 0
        for p in engine.module.parameters():
            p.register_post_accumulate_grad_hook(lambda _: self.measure_gradients())

    @property
    def state(self) -> dict[Any, Any]:
        return self.inner.state  # type: ignore[no-any-return]

    def zero_grad(self) -> None:
        """Do nothing: the engine drops gradients after each update."""

    def step(self) -> None:
        """Update this rank's weights, and measure the gradients before that, as it drops them."""
        self.measure_gradients()
        self.engine.step()

    def measure_gradients(self) -> None:
        """Measure the bytes of all gradients: of whole weights, or of this rank's part.

        A gradient that is a view of a bucket has the bucket's storage.
        """
        weights = self.engine.module.parameters()
        gradients = [p.grad for p in weights if p.grad is not None]
        if self.stage == 3:
            gradients.append(self.engine.optimizer.grad_partitions_flat_buffer)
        elif self.stage:
            for group in self.engine.optimizer.averaged_gradients.values():
                gradients += group or ()
        self.gradients = count_unique_bytes(gradients)
        self.gradients_at_most = max(self.gradients, self.gradients_at_most)

    def measure_parts(self) -> dict[str, int]:
        """Return the bytes that this rank holds, by part.

        Gradients were measured right before the update, which drops them.
        """
        zero = self.engine.optimizer
        tensors: dict[str, Any] = {"gradient buckets": []}
        if self.stage in (1, 2):
            tensors["copy of the weights"] = zero.single_partition_of_fp32_groups
        elif self.stage == 3:
            tensors["parameters"] = [p.ds_tensor for p in self.engine.module.parameters()]
            tensors["copy of the weights"] = zero.fp32_partitioned_groups_flat
            tensors["gradient buckets"] = [b.buffer for b in zero.ipg_buckets.values()]
        parts = {name: count_unique_bytes(part_tensors) for name, part_tensors in tensors.items()}
        return {"gradients": self.gradients, **parts}

    def measure_extra_bytes(self) -> int:
        """Return the bytes of the engine's parts that are in no tensor the adapter knows."""
        parts = self.measure_parts()
        return parts.get("copy of the weights", 0) + parts["gradient buckets"]


def attach_engine(adapter: TorchAdapter, stage: int) -> None:
    """Set the parts of the adapter that the engine replaces."""
    deepspeed = import_package(adapter, "deepspeed", requirements="deepspeed")
    # by default it compiles operators for ranks on one host
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

    def start(settings: Optimizer, params: list[nn.Parameter], **options: Any) -> _EngineOptimizer:
        """Return DeepSpeed's engine as the case's optimizer, and have steps run through it."""
        inner = make_optimizer(settings, params, **options)
        zero = {
            "stage": stage,
            "reduce_bucket_size": adapter.parameter_count() // BUCKETS,
            # smaller weights stay whole in stage 3; by default nearly all of these models' would
            "stage3_param_persistence_threshold": 0,
        }
        settings_of_engine = {
            "train_micro_batch_size_per_gpu": adapter.case.batch // dist.get_world_size(),
            "zero_allow_untested_optimizer": True,  # PyTorch's own
            "gradient_clipping": 0.0,  # by default it clips at a norm of 1
            "steps_per_print": 10**9,
            "zero_optimization": zero,
        }
        engine, *_ = deepspeed.initialize(
            model=adapter.model, optimizer=inner, config=settings_of_engine
        )
        optimizer = _EngineOptimizer(engine, inner, stage)
        adapter.recipe.forward = engine
        adapter.recipe.backward = engine.backward
        adapter.readings.bytes_by_part = optimizer.measure_parts
        adapter.readings.extra_bytes = optimizer.measure_extra_bytes
        adapter.readings.gather_weights = gather_weights
        return optimizer

    def gather_weights() -> Any:
        return deepspeed.zero.GatheredParameters(adapter.parameters(), enabled=stage == 3)

    def gather_states(local_states: Iterator[State]) -> Iterator[State]:
        """Yield the states of each weight, which DeepSpeed joins from the pieces of all ranks."""
        for name, p in adapter.model.named_parameters():
            for kind in MOMENTS[adapter.case.optimizer.name]:
                whole_state = deepspeed.utils.safe_get_full_optimizer_state(p, kind)
                array = to_numpy(whole_state)
                yield State(STATES[kind], name=name, array=array, nbytes=whole_state.nbytes)

    adapter.recipe.claim("forward", "backward")
    adapter.readings.claim("gather_weights", "extra_bytes", "bytes_by_part")
    adapter.recipe.optimizer = start
    if stage:
        adapter.readings.states = gather_states
