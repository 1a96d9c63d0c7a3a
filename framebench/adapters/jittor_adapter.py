"""Jittor: its own modules and optimizers; checkpointing is written here, because it has none.

Jittor is lazy: a step builds a graph, which runs when a value is fetched or when `synchronize` is called.
"""

from __future__ import annotations

import ctypes
import gc
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jittor as jt
import jittor_utils
import numpy as np
from jittor import Module, Var, nn

from framebench.adapters.base import Adapter, Effect
from framebench.cases import Case
from framebench.instruments.jittor_probe import probe
from models.spec import Optimizer


def make(case: Case) -> JittorAdapter:
    return JittorAdapter(case)


def trainable(module: Module) -> list[Var]:
    """Jittor counts running statistics among the parameters, with their gradient stopped."""
    return [p for p in module.parameters() if not p.is_stop_grad()]


def make_optimizer(o: Optimizer, params: list[Var]) -> jt.optim.Optimizer:
    """Jittor's own implementation with the workload's settings."""
    if o.name == "sgd":
        return jt.optim.SGD(params, o.lr, o.momentum, o.weight_decay)
    return jt.optim.AdamW(params, o.lr, o.eps, o.betas, o.weight_decay)


def load_weights(model: Module, weights: dict[str, np.ndarray]) -> None:
    """Strict, where Jittor's own loader only warns. Raises ValueError naming what does not fit."""
    params = dict(model.named_parameters())
    wrong = params.keys() ^ weights.keys() or {k for k, w in weights.items() if tuple(params[k].shape) != w.shape}
    if wrong:
        raise ValueError(f"model and canonical weights differ in {', '.join(sorted(wrong))}")
    for name, weight in weights.items():
        params[name].assign(weight)


@contextmanager
def frozen_statistics(block: Module) -> Iterator[None]:
    """Batch norm still normalises by its batch, but its running statistics stay as they are."""
    norms = [m for m in block.modules() if isinstance(m, nn.BatchNorm)]
    momenta = [m.momentum for m in norms]
    for norm in norms:
        norm.momentum = 0.0
    yield
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum


class Checkpoint(jt.Function):
    """Runs a block without keeping what is inside it, and once more when the gradient arrives (Chen et al. 2016).

    To `jt.grad` a Function is one operator, so the block's parameters are arguments too, or they would get no gradient.
    """

    def __init__(self, block: Module, activations: int) -> None:
        self.block = block
        self.activations = activations  # so many arguments are activations; the others are the block's parameters

    def execute(self, *args: Var) -> Var:
        self.kept = [x.detach() for x in args[: self.activations]]
        with jt.no_grad():
            return self.block(*self.kept)

    def grad(self, upstream: Var) -> list[Var]:
        inputs = [x.detach().start_grad() for x in self.kept]
        with frozen_statistics(self.block):  # they were updated by the first execution
            output = self.block(*inputs)
        # The derivative of sum(output * upstream) is the vector-Jacobian product. Being lazy, Jittor never computes the sum.
        grads = jt.grad(output * upstream.stop_grad(), inputs + trainable(self.block), retain_graph=False)
        return [g.stop_grad() for g in grads]


def checkpoint(block: Module, *activations: Var) -> Var:
    return Checkpoint(block, len(activations))(*activations, *trainable(block))


class JittorAdapter(Adapter):
    def build(self) -> None:
        jt.flags.use_cuda = int(jt.has_cuda)
        self.model = self.model_module.build(self.config, **({"rewrite": True} if self.case.strategy == "rewrite" else {}))
        load_weights(self.model, self.workload.weights(self.case.size))
        if self.case.strategy == "checkpoint":
            self.model.remat = checkpoint
        self.micro = self.case.plan.micro_batches
        x, y = self.workload.batch(self.case.size, self.case.batch)
        parts = zip(np.split(x, self.micro), np.split(y, self.micro))
        self.parts = [(jt.array(x).stop_grad(), jt.array(y).stop_grad()) for x, y in parts]
        self.steps_done = 0
        self.release()
        if self.case.scenario == "train":
            self.optimizer = make_optimizer(self.workload.optimizer, trainable(self.model))
        else:
            self.set_evaluation()

    def set_evaluation(self) -> None:
        """`Module.eval()` stops the gradient of every parameter, and no graph would be kept whatever was forgotten; so the
        leaky evaluation only switches the modules' mode."""
        if self.case.strategy == "no_grad":
            self.model.eval()
        for module in self.model.modules():
            module.is_train = False

    def step(self) -> None:
        if self.case.scenario == "train":
            self.train_step()
        else:
            self.eval_step()

    def train_step(self) -> None:
        losses = []
        for x, y in self.parts:
            loss = self.model_module.loss(self.model(x), y) / self.micro
            self.optimizer.backward(loss)
            losses.append(loss.detach())
        self.steps_done += 1
        self.optimizer.n_step = self.steps_done  # Jittor counts backward passes, which AdamW's bias correction takes for steps
        self.optimizer.step()
        self.output = sum(losses[1:], losses[0])

    def eval_step(self) -> None:
        """Steps that are not followed by `synchronize` are dropped with their output: nobody has asked for it."""
        self.release()
        with jt.flag_scope(no_grad=int(self.case.strategy == "no_grad")):
            self.output = self.model(self.parts[0][0])

    def release(self) -> None:
        self.output = jt.zeros(1)

    def synchronize(self) -> None:
        jt.sync_all(True)

    def loss(self) -> float:
        if self.case.scenario == "train":
            return self.output.item()
        with jt.no_grad():
            return self.model_module.loss(self.output, self.parts[0][1]).item()

    def logits(self) -> np.ndarray:
        return self.output.numpy().astype(np.float64)

    def gradient_norm(self) -> float:
        key, scale = ("values", 1.0) if self.workload.optimizer.name == "sgd" else ("m", 1 - self.workload.optimizer.betas[0])
        moments = (v.numpy().astype(np.float64) for v in self.optimizer.param_groups[0][key])
        return float(np.sqrt(sum(np.square(m).sum() for m in moments))) / scale

    def effect(self) -> Effect:
        """Runs one more step with block executions, forward passes, data types and executed kernels counted."""
        self.synchronize()
        with Observed(self.model, self.model_module.blocks_of(self.model)) as seen, jt.profile_scope() as kernels:
            self.step()
            seen.read_graph()
            self.synchronize()
        evidence = seen.evidence() | kernel_counts(kernels)
        evidence |= {"samples_per_pass": self.case.batch // self.micro, "operations_kept": jt.number_of_lived_ops()}
        return Effect(self.proven(evidence), evidence)

    def proven(self, e: dict[str, Any]) -> bool:
        floats = {dtype for dtype in e["variable_dtypes"] if "float" in dtype}
        match self.case.strategy:
            case "fp32":
                return floats == {"float32"} and e["block_runs"] == e["blocks"]
            case "checkpoint":
                return floats == {"float32"} and e["block_runs"] == 2 * e["blocks"]
            case "accumulate":
                return e["forward_passes"] == self.micro and e["samples_per_pass"] * self.micro == self.case.batch
            case "rewrite":
                return e["loops_3d"] == 0 and e["onednn_convolutions"] > 0
            case "grad":
                return e["operations_kept"] > e["blocks"]
            case "no_grad":
                return e["operations_kept"] == 0
        return False

    def live_bytes(self) -> int:
        return probe().held_bytes()

    def reset_peak(self) -> None:
        """Also gives the pool's free memory back to the system, so that the host's instruments see the step take it again."""
        jt.flags.profile_memory_enable = 1  # slows every operation: on only where peaks are asked for
        self.synchronize()
        gc.collect()
        jt.clean()
        jt.gc()
        probe().reset_peak()

    def own_peaks(self) -> dict[str, int]:
        """The pool does not shrink by itself, so what it holds now is the most it has reserved since `reset_peak`."""
        if not jt.flags.profile_memory_enable:
            return {}
        info = jt.get_mem_info()
        reserved = info.total_cuda_used if jt.flags.use_cuda else info.total_cpu_used
        return {"allocator.in_use": probe().peak_bytes(), "allocator.reserved": reserved}

    def is_oom(self, error: BaseException) -> bool:
        """On the CPU Jittor does not check what the system's allocator returns: there it ends by a signal instead."""
        text = str(error).lower()
        return isinstance(error, MemoryError) or any(s in text for s in ("out of memory", "memoryallocation", "bad_alloc"))

    def versions(self) -> dict[str, str]:
        compiler = jittor_utils.get_version(jt.compiler.cc_path).strip("()")
        found = {"jittor": jt.__version__, "numpy": np.__version__, "compiler": f"{jt.compiler.cc_type} {compiler}"}
        return found | ({"onednn": onednn_version()} if jt.compile_extern.use_mkl else {})

    def device(self) -> str:
        return gpu_name() if jt.has_cuda else "cpu"


class Observed:
    """Counts what one step does: block executions, forward passes, data types of all variables of its graph."""

    def __init__(self, model: Module, blocks: list[Module]) -> None:
        self.watched = [(model, "passes"), *((block, "blocks") for block in blocks)]
        self.blocks = blocks
        self.count: Counter[str] = Counter()
        self.dtypes: Counter[str] = Counter()

    def __enter__(self) -> Observed:
        for module, name in self.watched:
            module.execute = self.counted(module.execute, name)
        return self

    def __exit__(self, *error: Any) -> None:
        for module, _ in self.watched:
            del module.execute  # uncovers the class's own

    def counted(self, execute: Any, name: str) -> Any:
        def run(*xs: Var) -> Var:
            self.count[name] += 1
            return execute(*xs)

        return run

    def read_graph(self) -> None:
        """While a step is not yet executed, its graph names the type of every variable, also of those that get fused away."""
        nodes = jt.dump_all_graphs().nodes_info
        self.dtypes.update(m[1] for m in (re.match(r"Var\([^,]*,(\w+),", str(n)) for n in nodes) if m)

    def evidence(self) -> dict[str, Any]:
        return {
            "blocks": len(self.blocks),
            "block_runs": self.count["blocks"],
            "forward_passes": self.count["passes"],
            "variable_dtypes": dict(self.dtypes),
        }


def kernel_counts(report: list[list[str]]) -> dict[str, int]:
    """Executed kernels by kind. Only a generated 3-D convolution loops over nine dimensions: batch, in, out, space, kernel."""
    rows = [(row[0], int(row[2])) for row in report[1:]]
    return {
        "onednn_convolutions": sum(n for name, n in rows if name.startswith("mkl_conv")),
        "onednn_products": sum(n for name, n in rows if name.startswith("mkl_matmul")),
        "loops_3d": sum(n for name, n in rows if "DIM=9" in name),
    }


def onednn_version() -> str:
    """Asked of the library that is loaded: its C function returns a pointer to (major, minor, patch, ...)."""
    function = ctypes.CDLL(None).dnnl_version
    function.restype = ctypes.POINTER(ctypes.c_int * 3)
    return ".".join(map(str, function().contents))


def gpu_name() -> str:
    import pynvml

    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
