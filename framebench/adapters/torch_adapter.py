"""PyTorch: eager mode, its own optimizers, its own autocast and checkpointing."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from framebench.adapters.base import Adapter, Effect
from framebench.cases import Case
from models.spec import Optimizer

GRAD_MODES: dict[str, Callable[[], Any]] = {
    "grad": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "amp_bf16": torch.no_grad,
    "inference_mode": torch.inference_mode,
}


def make_optimizer(o: Optimizer, model: torch.nn.Module) -> torch.optim.Optimizer:
    """PyTorch's own implementation with the workload's settings."""
    if o.name == "sgd":
        return torch.optim.SGD(model.parameters(), o.lr, o.momentum, weight_decay=o.weight_decay)
    return torch.optim.AdamW(model.parameters(), o.lr, o.betas, o.eps, o.weight_decay)


class TorchAdapter(Adapter):
    def build(self) -> None:
        self.dtype = torch.float64 if self.float64 else torch.float32
        torch.set_float32_matmul_precision("highest")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        self.where = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = self.model_module.build(self.config)
        weights = self.workload.weights(self.case.size)
        self.model.load_state_dict({k: torch.from_numpy(w) for k, w in weights.items()})
        self.model.to(self.where, self.dtype).train(self.case.scenario == "train")
        if self.case.strategy == "checkpoint":
            self.model.remat = partial(checkpoint, use_reentrant=False)
        if self.case.scenario == "train":
            self.optimizer = make_optimizer(self.workload.optimizer, self.model)
        x, y = (torch.from_numpy(a).to(self.where) for a in self.workload.batch(self.case.size, self.case.batch))
        self.x, self.y = (x.to(self.dtype) if x.is_floating_point() else x), y
        self.micro = self.case.plan.micro_batches
        self.release()

    def step(self) -> None:
        if self.case.scenario == "train":
            self.train_step()
        else:
            self.eval_step()

    def precision(self) -> Any:
        """Fresh per forward pass: autocast caches the cast weights until it is left."""
        if self.case.strategy == "amp_bf16":
            return torch.autocast(self.where.type, torch.bfloat16)
        return contextlib.nullcontext()

    def train_step(self) -> None:
        self.optimizer.zero_grad()
        total = torch.zeros((), dtype=self.dtype, device=self.where)
        for x, y in zip(self.x.chunk(self.micro), self.y.chunk(self.micro), strict=True):
            with self.precision():
                loss = self.model_module.loss(self.model(x), y) / self.micro
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        self.output = total

    def eval_step(self) -> None:
        self.release()
        with GRAD_MODES[self.case.strategy](), self.precision():
            self.output = self.model(self.x)

    def release(self) -> None:
        self.output = torch.empty(0)

    def synchronize(self) -> None:
        if self.where.type == "cuda":
            torch.cuda.synchronize()

    def loss(self) -> float:
        if self.case.scenario == "train":
            return self.output.item()
        return self.model_module.loss(self.output.detach(), self.y).item()

    def logits(self) -> np.ndarray:
        return self.output.detach().to("cpu", torch.float64).numpy()

    def gradient_norm(self) -> float:
        o = self.workload.optimizer
        key, scale = ("momentum_buffer", 1.0) if o.name == "sgd" else ("exp_avg", 1 - o.betas[0])
        squares = [s[key].double().square().sum() for s in self.optimizer.state.values()]
        return float(torch.stack(squares).sum().sqrt()) / scale

    def effect(self) -> Effect:
        """Runs one more step with every saved tensor, block and forward pass counted."""
        seen = Observed(self.model, self.model_module.blocks_of(self.model))
        with seen:
            self.step()
        self.synchronize()
        evidence = seen.evidence(len(self.x) // self.micro)
        return Effect(self.proven(evidence), evidence)

    def proven(self, e: dict[str, Any]) -> bool:
        match self.case.strategy:
            case "fp32":
                return set(e["block_output_dtypes"]) == {"float32"} and e["block_runs"] == e["blocks"]
            case "amp_bf16":
                return e["bfloat16_products"] > 0 and e["float32_products"] == 0
            case "checkpoint":
                return e["block_runs"] == 2 * e["blocks"]
            case "accumulate":
                return e["forward_passes"] == self.micro and e["samples_per_pass"] * self.micro == len(self.x)
            case "grad":
                return self.output.grad_fn is not None and e["saved_tensors"] > 0
            case "no_grad":
                return self.output.grad_fn is None and e["saved_tensors"] == 0
            case "inference_mode":
                return self.output.is_inference() and e["saved_tensors"] == 0
        return False

    def live_bytes(self) -> int:
        """Unique storages; what the last evaluation's graph still holds is found by the saved-tensor count, not here."""
        tensors = [*self.model.parameters(), *self.model.buffers(), self.x, self.y, self.output]
        tensors += [p.grad for p in self.model.parameters() if p.grad is not None]
        if self.case.scenario == "train":
            states = (v for state in self.optimizer.state.values() for v in state.values())
            tensors += [v for v in states if isinstance(v, torch.Tensor)]
        return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())

    def reset_peak(self) -> None:
        if self.where.type == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def own_peaks(self) -> dict[str, int]:
        if self.where.type != "cuda":
            return {}
        return {
            "allocator.in_use": torch.cuda.max_memory_allocated(),
            "allocator.reserved": torch.cuda.max_memory_reserved(),
        }

    def is_oom(self, error: BaseException) -> bool:
        return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)

    def versions(self) -> dict[str, str]:
        return {"torch": torch.__version__, "numpy": np.__version__}

    def device(self) -> str:
        return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


PRODUCTS = ("convolution", "addmm", "mm", "bmm", "_scaled_dot_product")  # what autocast runs in the lower precision


class Observed(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts what one step does: tensors saved for backward, block executions, forward passes, dtypes of products."""

    def __init__(self, model: torch.nn.Module, blocks: list[torch.nn.Module]) -> None:
        super().__init__()
        self.model, self.blocks = model, blocks
        self.saved: dict[int, int] = {}
        self.saved_count = 0
        self.count: Counter[str] = Counter()
        self.dtypes: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._schema.name.removeprefix("aten::").startswith(PRODUCTS):
            dtype = next(a.dtype for a in args if isinstance(a, torch.Tensor))
            self.count[f"{str(dtype).removeprefix('torch.')}_products"] += 1
        return out

    def __enter__(self) -> Observed:
        handles = [self.model.register_forward_hook(lambda *_: self.count.update(["passes"]))]
        # before the forward: a recomputation stops early, as soon as it has what the backward pass needs
        handles += [b.register_forward_pre_hook(lambda *_: self.count.update(["blocks"])) for b in self.blocks]
        handles += [b.register_forward_hook(self.on_block) for b in self.blocks]
        self.stack = contextlib.ExitStack()
        for handle in handles:
            self.stack.callback(handle.remove)
        self.stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self.on_save, lambda t: t))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.stack.close()

    def on_block(self, module: Any, args: Any, output: torch.Tensor) -> None:
        self.dtypes[str(output.dtype).removeprefix("torch.")] += 1

    def on_save(self, tensor: torch.Tensor) -> torch.Tensor:
        self.saved_count += 1
        self.saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    def evidence(self, samples_per_pass: int) -> dict[str, Any]:
        return {
            "blocks": len(self.blocks),
            "block_runs": self.count["blocks"],
            "forward_passes": self.count["passes"],
            "samples_per_pass": samples_per_pass,
            "saved_tensors": self.saved_count,
            "saved_bytes": sum(self.saved.values()),
            "block_output_dtypes": dict(self.dtypes),
            "float32_products": self.count["float32_products"],
            "bfloat16_products": self.count["bfloat16_products"],
        }


def make(case: Case) -> TorchAdapter:
    return TorchAdapter(case)
