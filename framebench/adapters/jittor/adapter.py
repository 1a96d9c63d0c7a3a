"""Jittor: its own modules and optimizers; checkpointing is written in `checkpoint.py`, because it has none.

Jittor is lazy: a step builds a graph, which runs when a value is fetched or when `synchronize` is called.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jittor as jt
import jittor_utils
import numpy as np
from jittor import Module, Var

from framebench.adapters.base import Adapter, Batch, Evidence, State, Switch, find_length_strategy
from framebench.adapters.jittor import float64
from framebench.adapters.jittor.observe import Observed, kernel_counts
from framebench.adapters.jittor.parts import Recipe
from framebench.adapters.jittor.probe import probe, watch
from framebench.adapters.jittor.still import draws, still
from framebench.adapters.parts import Hooks, Options
from framebench.instruments import host
from framebench.models.spec import OWN, SEED, Optimizer, workload
from framebench.suite.case import Case
from framebench.suite.trees import called, mapped, samples, split

DEFAULTS = {  # of the flags that strategies set: a warm-up runs one case after another in one process
    "amp_level": 0,
    "cpu_mem_limit": -1,
    "device_mem_limit": -1,
    "lazy_execution": 1,
    "no_fuse": 0,
    "use_tensorcore": 0,
}
MOMENTS = {"m": "first moment", "values": "second moment"}
STATES = {jt.optim.SGD: {"values": "momentum"}, jt.optim.Adam: MOMENTS, jt.optim.AdamW: MOMENTS}
RUNNING = ("running_mean", "running_var")  # Jittor counts them among the parameters, with their gradient stopped


def trainable(module: Module) -> list[Var]:
    """Jittor counts running statistics among the parameters, with their gradient stopped."""
    return [p for p in module.parameters() if not p.is_stop_grad()]


def make_optimizer(o: Optimizer, params: list[Var]) -> jt.optim.Optimizer:
    """Jittor's own implementation with the workload's settings, or what a user's file makes."""
    if o.name == OWN:
        return workload(OWN).model("jittor").optimizer(params)
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


def values(model: Module) -> dict[str, np.ndarray]:
    """Copies of all weights and running statistics, by name."""
    return {name: p.numpy().copy() for name, p in model.named_parameters()}


class JittorAdapter(Adapter):
    """What switches set: the parts of `recipe`, and Jittor's flags."""

    biased_variance = True
    may_draw_other_numbers = True
    graph_bytes, before_graph = 0, None  # on the host: what small blocks hold when a user's step was built, and before

    def __init__(self, case: Case, switches: Mapping[str, Switch]) -> None:
        super().__init__(case, switches)
        gc.collect()  # the variables of an earlier case would be counted as this one's
        for flag, default in DEFAULTS.items():
            setattr(jt.flags, flag, default)
        float64.switch_off()
        jt.flags.use_cuda = int(jt.has_cuda)
        steps = {"eval": self.eval_step, "varlen": self.stream_step, "pair": self.pair_step}
        self.recipe = Recipe(
            self.ledger,
            step=steps.get(case.scenario, self.train_step),
            loss=lambda x, y: self.model_module.loss(called(self.model, x), y),
            evaluates=not case.stage.trains,
            keeps_graph=case.stage.trains,
            build_options=Options(self.ledger, "model option"),
            on_model=Hooks(self.ledger),
        )
        self.watched: dict[str, list[Module]] = {}  # whose executions are counted, by what they are called in the evidence

    def make(self) -> None:
        watch()
        if self.float64:
            self.widen()
        self.release()
        if self.case.scenario == "varlen":
            batches = self.workload.stream(self.config, self.case.batch, find_length_strategy(self.case))
            self.stream = [self.put(x, y) for x, y in batches]
        else:
            self.inputs = self.put(*self.workload.batch(self.config, self.case.batch))
        if self.case.scenario == "pair":
            self.host_weights = (self.case.weights, self.workload.other_weights(self.config))
            return
        self.model = self.load(self.config, self.case.weights)
        self.recipe.on_model(self.model)
        self.watched |= {"forward_passes": [self.model], "block_runs": self.model_module.blocks_of(self.model)}
        if self.case.stage.trains:
            self.optimizer = make_optimizer(self.case.optimizer, trainable(self.model))
        if self.recipe.evaluates:
            self.set_evaluation(self.model)

    def widen(self) -> None:
        """Compute in float64 from now on, also where the case's strategy asks for a lower precision."""
        self.recipe.dtype = "float64"
        jt.flags.amp_level = 0
        float64.switch_on()

    def load(self, config: Any, weights: dict[str, np.ndarray]) -> Module:
        """A model of this configuration with these weights, in training mode."""
        model = self.model_module.build(config, **self.recipe.build_options)
        load_weights(model, weights)
        return self.converted(model)

    def converted(self, model: Module) -> Module:
        """Convert a model, whose canonical weights are float32, to the precision of the case."""
        return model if self.recipe.dtype == "float32" else getattr(model, self.recipe.dtype)()

    def set_evaluation(self, model: Module) -> None:
        """`Module.eval()` stops the gradient of every parameter, and no graph would be kept whatever was forgotten; so the
        leaky evaluation only switches the modules' mode."""
        if not self.recipe.keeps_graph:
            model.eval()
        for module in model.modules():
            module.is_train = False

    def seed(self) -> None:
        """The losses of timed steps are compared with those of the same steps, made once more."""
        if self.workload.may_draw():
            jt.set_global_seed(SEED + (self.steps - self.restored_at if self.case.stage.trains else 0))

    def disable_randomness(self) -> AbstractContextManager[None]:
        return still() if self.deterministic else nullcontext()

    def draws_random_numbers(self) -> bool:
        return draws(self.one_step)

    def put(self, x: Any, y: Any) -> Batch:
        return mapped(self.put_input, x), mapped(lambda array: jt.array(array).stop_grad(), y)

    def put_input(self, x: np.ndarray) -> Var:
        inputs = jt.array(x)
        inputs = getattr(inputs, self.recipe.dtype)() if inputs.dtype.is_float() else inputs
        return inputs.stop_grad()

    def one_step(self) -> None:
        if self.float64 and self.steps == 0:
            self.synchronize()  # what is asked for up to here is no part of the step: weights were cast
            with float64.checked():
                self.recipe.step()
        else:
            self.recipe.step()

    def train_step(self) -> None:
        losses = []
        inputs, targets = self.next_batch()
        for x, y in zip(self.parts(inputs), self.parts(targets), strict=True):
            loss = self.recipe.loss(x, y) / self.micro_batches
            self.optimizer.backward(loss)
            losses.append(loss.detach())
        # Jittor counts backward passes, which AdamW's bias correction takes for steps
        self.optimizer.n_step = self.steps - self.restored_at + 1
        self.optimizer.step()
        self.output = sum(losses[1:], losses[0])

    def parts(self, tree: Any) -> list[Any]:
        """Micro-batches."""
        each = split(tree, self.micro_batches)
        return each if self.micro_batches == 1 else [mapped(lambda var: var.stop_grad(), part) for part in each]

    def eval_step(self) -> None:
        """Steps that are not followed by `synchronize` are dropped with their output: nobody has asked for it."""
        self.release()
        with jt.flag_scope(no_grad=int(not self.recipe.keeps_graph)):
            self.output = called(self.model, self.inputs[0])

    def stream_step(self) -> None:
        """Mean loss over the tokens that are no padding. Each batch is executed before the next one's graph is built."""
        total = jt.zeros(1)
        with jt.no_grad():
            for x, y in self.stream:
                total = total + self.model_module.loss_sum(self.model(x), y)
                total.sync()
        self.output = total / self.case.work

    def pair_step(self) -> None:
        """Each loss is computed before its model may be deleted."""
        losses = []
        x, y = self.inputs
        with jt.no_grad():
            for model in self.recipe.models():
                losses.append(self.model_module.loss(model(x), y))
                losses[-1].sync()
                del model
        self.output = (losses[0] + losses[1]) / 2

    def release(self) -> None:
        self.output = jt.zeros(1)

    def synchronize(self) -> None:
        if self.before_graph is not None:
            self.graph_bytes = max(self.graph_bytes, host.mallinfo().uordblks - self.before_graph)
        jt.sync_all(True)

    def loss(self) -> float:
        if self.case.scenario != "eval":
            return self.output.item()
        with jt.no_grad():
            logits = self.output if self.float64 else self.output.float32()
            return self.model_module.loss(logits, self.inputs[1]).item()

    def logits(self) -> np.ndarray:
        if self.case.scenario == "generate":
            return self.recipe.decoded()
        return self.output.numpy().astype(np.float64)

    def weights(self) -> Iterator[tuple[str, np.ndarray]]:
        for prefix, model in zip(("", "teacher."), (self.model, *self.watched.get("teacher_passes", []))):
            for name, p in model.named_parameters():
                yield prefix + name, p.numpy()

    def states(self) -> Iterator[State]:
        """Lists beside the group's weights, in their order."""
        names = [name for name, p in self.model.named_parameters() if not p.is_stop_grad()]
        (group,) = self.optimizer.param_groups
        for kind in self.state_lists():
            for name, value in zip(names, group[kind], strict=True):
                yield State(STATES.get(type(self.optimizer), {}).get(kind, kind), name, value.numpy(), value.nbytes)

    def state_lists(self) -> list[str]:
        (group,) = self.optimizer.param_groups
        return [key for key, value in group.items() if isinstance(value, list) and key not in ("params", "grads")]

    def restore(self) -> None:
        if self.case.stage.trains:
            (group,) = self.optimizer.param_groups
            for kind in self.state_lists():
                for value in group[kind]:
                    value.update(jt.zeros_like(value))
        weights = self.case.weights  # made anew each time
        for name, p in self.model.named_parameters():
            still = p.is_stop_grad()
            p.update(jt.array(weights[name]).cast(p.dtype))
            p.stop_grad() if still else p.start_grad()
        self.restored_at = self.steps
        self.synchronize()

    def observe(self) -> Evidence:
        """One more step with executions, data types and kernels counted; kernels also by when they ran. Of the pool, which
        nobody empties while steps are timed: what it holds, what this step uses of it, and the largest block."""
        self.synchronize()
        before = self.running_statistics()
        probe().reset_peak()
        with Observed(self.watched) as seen:
            with jt.profile_scope() as called:
                self.one_step()
                seen.read_graph()
            with jt.profile_scope() as waited:
                self.synchronize()
        kept = jt.number_of_lived_ops()
        pool = {
            "pool_bytes": self.reserved(),
            "pool_peak_bytes": probe().peak_bytes(),
            "largest_block_bytes": probe().largest_block(),
        }
        changed = sum(not np.array_equal(a, b) for a, b in zip(before, self.running_statistics()))
        kernels = kernel_counts(called[1:] + waited[1:]) | {"kernels_before_sync": sum(int(row[2]) for row in called[1:])}
        return seen.evidence() | kernels | pool | {"operations_kept": kept, "buffers": len(before), "buffers_changed": changed}

    def running_statistics(self) -> list[np.ndarray]:
        if self.case.scenario == "pair":
            return []
        return [p.numpy().copy() for name, p in self.model.named_parameters() if name.endswith(RUNNING)]

    def allocate(self, size: int) -> Var:
        tensor = jt.ones([size], dtype="uint8")
        tensor.sync()
        return tensor

    def parameter_count(self) -> int:
        return sum(p.numel() for name, p in self.model.named_parameters() if not name.endswith(RUNNING))

    def live_bytes(self) -> int:
        """Where the pool is kept while memory is measured, all that it holds is taken already."""
        return self.reserved() if self.recipe.keeps_pool else probe().used_bytes()

    def reserved(self) -> int:
        """Bytes of the pool, used or not."""
        info = jt.get_mem_info()
        return info.total_cuda_used if jt.flags.use_cuda else info.total_cpu_used

    def reset_peak(self) -> None:
        """Also gives the pool's free memory back to the system, so that the host's instruments see the step take it again."""
        self.synchronize()
        gc.collect()
        if not self.recipe.keeps_pool:
            jt.clean()
            jt.gc()
        probe().reset_peak()
        on_host = self.case.workload == OWN and not jt.flags.use_cuda
        self.graph_bytes, self.before_graph = 0, host.mallinfo().uordblks if on_host else None

    def read_peaks(self) -> dict[str, int]:
        """What the pools hold at the end counts too: the watched one is not the only one. The graph of a step,
        which counts in a small model, lies in small blocks of malloc beside the pools. It is largest when it begins to run."""
        self.before_graph = None
        reserved = max(self.reserved(), probe().peak_reserved())
        return {"allocator.in_use": probe().peak_bytes() + self.graph_bytes, "allocator.reserved": reserved}

    def compile(self) -> None:
        """A step, or in place of a large one a step of a few samples, since kernels are made for operators and not for shapes;
        then the pool is given back, and the compilers' memory with it."""
        whole = getattr(self, "inputs", None)
        if whole is not None and self.loader is None and self.case.scenario not in ("pair", "generate"):
            rows = samples(whole[0])
            few = lambda var: var[: 2 * self.micro_batches].stop_grad() if var.shape[0] == rows else var  # noqa: E731
            self.inputs = mapped(few, whole[0]), mapped(few, whole[1])
        self.step()
        self.synchronize()
        self.loss()
        if whole is not None:
            self.inputs = whole
        self.release()
        self.reset_peak()

    def versions(self) -> dict[str, str]:
        compiler = jittor_utils.get_version(jt.compiler.cc_path).strip("()")
        package_versions = {"jittor": jt.__version__, "numpy": np.__version__, "compiler": f"{jt.compiler.cc_type} {compiler}"}
        if jt.has_cuda:
            package_versions["cuda"] = ".".join(map(str, jittor_utils.get_int_version(jt.compiler.nvcc_path)))
        return package_versions | ({"onednn": _onednn_version()} if jt.compile_extern.use_mkl else {})

    def device(self) -> str:
        return _gpu_name() if jt.has_cuda else "cpu"


def _onednn_version() -> str:
    """Asked of the library that is loaded: its C function returns a pointer to (major, minor, patch, ...)."""
    function = ctypes.CDLL(None).dnnl_version
    function.restype = ctypes.POINTER(ctypes.c_int * 3)
    return ".".join(map(str, function().contents))


def _gpu_name() -> str:
    try:
        import pynvml
    except ImportError:
        return "cuda"
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
