"""Jittor: its own modules and optimizers; `checkpoint.py` has the checkpointing that it lacks.

Jittor is lazy: a step builds a graph, which runs when a value is fetched or when `synchronize` is
called.
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

from framebench.adapters.base import Adapter, Batch, Evidence, State, Switch
from framebench.adapters.holders import FindStorages, StorageBytes, walk_globals
from framebench.adapters.jittor import deterministic, float64
from framebench.adapters.jittor.observe import ExecutionCounter, count_kernels
from framebench.adapters.jittor.parts import JittorRecipe
from framebench.adapters.jittor.probe import load_probe, read_storages, watch_pool
from framebench.adapters.parts import Hooks, PartOptions
from framebench.adapters.user_functions import select_returned
from framebench.instruments import host, nvml
from framebench.models.spec import SEED, USER_MODEL, Optimizer, load_workload
from framebench.suite.case import Case
from framebench.suite.trees import call_with, list_arrays, map_tree, read_batch_length

# the flags that strategies set; each case sets them back, since a process may run several cases
DEFAULT_FLAGS = {
    "amp_level": 0,
    "cpu_mem_limit": -1,
    "device_mem_limit": -1,
    "lazy_execution": 1,
    "no_fuse": 0,
    "use_tensorcore": 0,
}
MOMENTS = {"m": "first moment", "values": "second moment"}
# by optimizer: the kind of state in each of its lists
STATES = {jt.optim.SGD: {"values": "momentum"}, jt.optim.Adam: MOMENTS, jt.optim.AdamW: MOMENTS}
NO_STATES = ("params", "grads")  # lists in a group of weights that are no states
# Jittor counts running statistics among the parameters, with their gradient stopped
RUNNING = ("running_mean", "running_var")


def list_trainable(module: Module) -> list[Var]:
    """Return the parameters that have a gradient; running statistics have none."""
    return [p for p in module.parameters() if not p.is_stop_grad()]


def make_optimizer(o: Optimizer, model: Module) -> Any:
    """Return Jittor's optimizer with the workload's settings, or the one that a user's file makes.

    It updates the parameters of the model that have a gradient.
    """
    params = list_trainable(model)
    if o.name == USER_MODEL:
        return load_workload(USER_MODEL).import_model("jittor").optimizer(params, model)
    if o.name == "sgd":
        return jt.optim.SGD(params, o.lr, o.momentum, o.weight_decay)
    return jt.optim.AdamW(params, o.lr, o.eps, o.betas, o.weight_decay)


def load_weights(model: Module, weights: dict[str, np.ndarray]) -> None:
    """Load weights into a model. Raises ValueError with the names of weights that do not fit.

    Jittor's own loader only warns.
    """
    params = dict(model.named_parameters())
    wrong = params.keys() ^ weights.keys()
    if not wrong:
        wrong = {name for name, w in weights.items() if tuple(params[name].shape) != w.shape}
    if wrong:
        raise ValueError(f"model and canonical weights differ in {', '.join(sorted(wrong))}")
    for name, weight in weights.items():
        params[name].assign(weight)


def copy_weights(model: Module) -> dict[str, np.ndarray]:
    """Return copies of all weights and running statistics, by name."""
    return {name: p.numpy().copy() for name, p in model.named_parameters()}


class JittorAdapter(Adapter):
    """One case in Jittor. Switches set the parts of `recipe`, and Jittor's flags."""

    biased_variance = True
    may_draw_other_numbers = True
    # bytes in malloc's small blocks before a step's graph was built; None except in a user's step
    # on the host whose peak is measured
    malloc_before_graph: int | None = None
    graph_bytes = 0  # the bytes that the graph added to them

    def __init__(self, case: Case, switches: Mapping[str, Switch]) -> None:
        """Set Jittor's flags to their defaults, and the parts that switches may change."""
        super().__init__(case, switches)
        gc.collect()  # variables of an earlier case would be counted as those of this one
        for flag, default in DEFAULT_FLAGS.items():
            setattr(jt.flags, flag, default)
        float64.switch_off()
        jt.flags.use_cuda = int(jt.has_cuda)
        steps = {"eval": self.eval_step, "varlen": self.stream_step, "pair": self.pair_step}
        if self.trains_by_file():
            steps["train"] = self.file_step
        self.recipe = JittorRecipe(
            self.ledger,
            step=steps.get(case.scenario, self.train_step),
            loss=self.compute_loss,
            evaluates=not case.scenario_spec.trains,
            keeps_graph=case.scenario_spec.trains,
            build_options=PartOptions(self.ledger, "model option"),
            on_model=Hooks(self.ledger),
        )
        # modules whose executions are counted, by their name in the evidence
        self.watched: dict[str, list[Module]] = {}

    def compute_loss(self, x: Any, y: Any) -> Var:
        """Return the loss of a batch: `recipe.loss` unless a strategy replaces it."""
        return self.model_module.loss(call_with(self.model, x), self.find_target((x, y)))

    def make(self) -> None:
        watch_pool()
        if self.float64:
            self.widen()
        self.release()
        weights = self.case.weights  # before the batch, whose form depends on a user's model
        self.put_inputs()
        if self.case.scenario == "pair":
            self.host_weights = (weights, self.workload.make_other_weights(self.config))
            return
        self.model = self.load(self.config, weights)
        self.recipe.on_model(self.model)
        self.watched["forward_passes"] = [self.model]
        self.watched["block_runs"] = self.model_module.blocks_of(self.model)
        if self.case.scenario_spec.trains:
            self.optimizer = make_optimizer(self.case.optimizer, self.model)
        if self.recipe.evaluates:
            self.set_evaluation(self.model)

    def widen(self) -> None:
        """Compute in float64 from now on, whatever the precision of the case's strategy."""
        self.recipe.dtype = "float64"
        jt.flags.amp_level = 0
        float64.switch_on()
        if self.is_user_model:
            self.model_module.user()  # imports the file if that was not done yet
            held = list(walk_globals(self.case.user_file))
            # `isinstance` asks for an attribute, which some objects answer by an error
            float64.widen_variables(each for each in held if issubclass(type(each), Var))

    def load(self, config: Any, weights: dict[str, np.ndarray]) -> Module:
        """Return a model of this configuration with these weights, in training mode."""
        model = self.model_module.build(config, **self.recipe.build_options)
        load_weights(model, weights)
        return self.convert(model)

    def convert(self, model: Module) -> Module:
        """Convert a model with canonical weights, in float32, to the precision of the case."""
        if self.recipe.dtype == "float32":
            return model
        return getattr(model, self.recipe.dtype)()

    def set_evaluation(self, model: Module) -> None:
        """Put a model into evaluation mode."""
        if not self.recipe.keeps_graph:
            # stops the gradient of every parameter, so an evaluation that keeps its graph must not
            # call it, and only switches the modules' mode
            model.eval()
        for module in model.modules():
            module.is_train = False

    def seed(self) -> None:
        if not self.workload.may_draw():
            return
        # a repeated step draws the same numbers, since its loss is compared with the first one
        steps = self.steps - self.restored_at if self.case.scenario_spec.trains else 0
        jt.set_global_seed(SEED + steps)

    def disable_randomness(self) -> AbstractContextManager[None]:
        return deterministic.replace_draws() if self.deterministic else nullcontext()

    def draws_random_numbers(self) -> bool:
        return deterministic.draws_random_numbers(self.one_step)

    def put(self, x: Any, y: Any) -> Batch:
        def put_target(array: np.ndarray) -> Var:
            return jt.array(array).stop_grad()

        return map_tree(self.put_input, x), map_tree(put_target, y)

    def put_input(self, x: np.ndarray) -> Var:
        """Return an input on the device, floating-point numbers in the precision of the case."""
        inputs = jt.array(x)
        if inputs.dtype.is_float():
            inputs = getattr(inputs, self.recipe.dtype)()
        return inputs.stop_grad()

    def one_step(self) -> None:
        if self.float64 and self.steps == 0:
            self.synchronize()  # runs casts of weights, which are not part of the step
            with float64.refuse_float32():
                self.recipe.step()
        else:
            self.recipe.step()

    def train_step(self) -> None:
        """Update the weights by the gradients of one micro-batch or several."""
        losses = []
        inputs, targets = self.next_batch()
        for x, y in self.cut_batch((inputs, targets), self.micro_batches):
            loss = self.recipe.loss(x, y) / self.micro_batches
            self.optimizer.backward(loss)
            losses.append(loss.detach())
        # Jittor counts backward passes, which AdamW's bias correction takes for steps
        self.optimizer.n_step = self.steps - self.restored_at + 1
        self.optimizer.step()
        self.output = sum(losses[1:], losses[0])

    def file_step(self) -> None:
        """Make the training step of the user's file."""
        self.output = self.model_module.run_step(self.model, self.next_batch(), self.optimizer)

    def cut_batch(self, batch: Batch, parts: int) -> list[Batch]:
        if parts == 1:
            return [batch]
        micro_batches = super().cut_batch(batch, parts)
        return [map_tree(lambda var: var.stop_grad(), part) for part in micro_batches]

    def eval_step(self) -> None:
        """Request the logits. They are computed by the `synchronize` that follows."""
        self.release()
        with jt.flag_scope(no_grad=int(not self.recipe.keeps_graph)):
            self.output = call_with(self.model, self.inputs[0])

    def stream_step(self) -> None:
        """Compute the mean loss over the tokens, without those of padding.

        Each batch is executed before the next one's graph is built.
        """
        total = jt.zeros(1)
        with jt.no_grad():
            for x, y in self.stream:
                total = total + self.model_module.loss_sum(self.model(x), y)
                total.sync()
        self.output = total / self.case.work  # tokens, without those of padding

    def pair_step(self) -> None:
        """Compute the mean loss of two models. Each may be deleted after its own loss."""
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
        if self.malloc_before_graph is not None:
            # the graph is largest when it begins to run
            graph_bytes = host.read_mallinfo().uordblks - self.malloc_before_graph
            self.graph_bytes = max(self.graph_bytes, graph_bytes)
        jt.sync_all(True)

    def loss(self) -> float:
        if self.case.scenario != "eval":
            return self.output.item()
        with jt.no_grad():
            logits = self.output if self.float64 else self.output.float32()
            return self.model_module.loss(logits, self.find_target(self.inputs)).item()

    def logits(self) -> np.ndarray:
        if self.case.scenario == "generate":
            return self.recipe.read_logits()
        return self.output.numpy().astype(np.float64)

    def weights(self) -> Iterator[tuple[str, np.ndarray]]:
        for name, p in self.model.named_parameters():
            yield name, p.numpy()
        for teacher in self.watched.get("teacher_passes", []):
            for name, p in teacher.named_parameters():
                yield f"teacher.{name}", p.numpy()

    def states(self) -> Iterator[State]:
        names = {id(p): name for name, p in self.model.named_parameters()}
        for kind, p, value in self.iterate_states():
            name = names.get(id(p), f"unknown weight {tuple(p.shape)}")
            yield State(kind, name=name, array=value.numpy(), nbytes=value.nbytes)

    def iterate_states(self) -> Iterator[tuple[str, Var, Var]]:
        """Yield the kind of each state of the optimizers, its weight and its value."""
        for optimizer in self.list_optimizers():
            kinds = STATES.get(type(optimizer), {})
            for group in optimizer.param_groups:
                # each list of states is in the order of the group's weights
                for key, values in group.items():
                    if isinstance(values, list) and key not in NO_STATES:
                        for p, value in zip(group["params"], values, strict=True):
                            yield kinds.get(key, key), p, value

    def list_states(self) -> list[Var]:
        """Return the states of the optimizers, none in evaluation."""
        if not self.case.scenario_spec.trains:
            return []
        return [value for _, _, value in self.iterate_states()]

    def list_optimizers(self) -> list[jt.optim.Optimizer]:
        """Return the optimizers of the case: a user's file may have several."""
        if self.is_user_model:
            return select_returned(self.optimizer, jt.optim.Optimizer)
        return [self.optimizer]

    def restore(self) -> None:
        for value in self.list_states():
            value.update(jt.zeros_like(value))
        weights = self.case.weights  # once, since the property makes them each time
        for name, p in self.model.named_parameters():
            is_frozen = p.is_stop_grad()
            p.update(jt.array(weights[name]).cast(p.dtype))
            if is_frozen:
                p.stop_grad()
            else:
                p.start_grad()
        self.restored_at = self.steps
        self.synchronize()
        if self.trains_by_file():
            # a user's optimizer counts its steps, and may keep state anywhere, as schedules do
            self.optimizer = make_optimizer(self.case.optimizer, self.model)

    def observe(self) -> Evidence:
        # Jittor has one graph for the process, in which garbage of an earlier case would be counted
        gc.collect()
        self.synchronize()
        buffers_before = self.copy_running_statistics()
        with ExecutionCounter(self.watched) as counter:
            with jt.profile_scope() as rows_of_call:
                self.one_step()
                counter.count_graph_types()
            with jt.profile_scope() as rows_of_wait:
                self.synchronize()
        operations_kept = jt.number_of_lived_ops()
        buffers_changed = 0
        for before, after in zip(buffers_before, self.copy_running_statistics()):
            buffers_changed += not np.array_equal(before, after)
        before_sync = count_kernels(rows_of_call[1:])  # the first row is a heading
        return {
            **counter.summarize(),
            **count_kernels(rows_of_call[1:] + rows_of_wait[1:]),
            "kernels_before_sync": before_sync["kernels"],
            "operations_kept": operations_kept,
            "buffers": len(buffers_before),
            "buffers_changed": buffers_changed,
        }

    def copy_running_statistics(self) -> list[np.ndarray]:
        """Return copies of the running statistics, or none if the step makes its own models."""
        if self.case.scenario == "pair":
            return []
        weights = copy_weights(self.model)
        return [array for name, array in weights.items() if name.endswith(RUNNING)]

    def allocate(self, size: int) -> Var:
        tensor = jt.ones([size], dtype="uint8")
        tensor.sync()
        return tensor

    def parameter_count(self) -> int:
        params = self.model.named_parameters()
        return sum(p.numel() for name, p in params if not name.endswith(RUNNING))

    def live_bytes(self) -> int:
        held_by_file = sum(self.measure_held_arrays().values())
        if self.recipe.keeps_pool:
            # the pool already has all its memory when the measurement begins
            return self.reserved_bytes() - held_by_file
        return load_probe().used_bytes() - held_by_file

    def make_array_finder(self) -> tuple[FindStorages, set[int]]:
        storages = read_storages()

        def find_storages(instance: Any) -> StorageBytes:
            return storages.get(instance.id, {}) if issubclass(type(instance), Var) else {}

        needed_storages: set[int] = set()
        for var in (*self.model.parameters(), *self.list_states(), *list_arrays(self.inputs)):
            needed_storages.update(find_storages(var))
        return find_storages, needed_storages

    def reserved_bytes(self) -> int:
        """Return the bytes of the pool, used or not."""
        info = jt.get_mem_info()
        return info.total_cuda_used if jt.flags.use_cuda else info.total_cpu_used

    def reset_peak(self) -> None:
        self.synchronize()
        gc.collect()
        if not self.recipe.keeps_pool:
            # the step then takes its memory from the system, where the host's instruments see it
            jt.clean()
            jt.gc()
        load_probe().reset_peak()
        self.graph_bytes = 0
        self.malloc_before_graph = None
        if self.is_user_model and not jt.flags.use_cuda:
            self.malloc_before_graph = host.read_mallinfo().uordblks

    def read_peaks(self) -> dict[str, int]:
        # The bytes reserved at the end count too, since the watched pool is not the only one. The
        # graph of a step lies outside of the pools in small blocks of malloc; it matters in small
        # models.
        self.malloc_before_graph = None
        in_use = load_probe().peak_bytes() + self.graph_bytes
        reserved = max(self.reserved_bytes(), load_probe().peak_reserved())
        held_by_file = sum(self.measure_held_arrays().values())
        return {
            "allocator.in_use": in_use - held_by_file,
            "allocator.reserved": reserved - held_by_file,
        }

    def compile(self) -> None:
        # Kernels are compiled for operators, not for shapes, so a step of a few samples is enough.
        # Afterwards the pool is given back, and the compilers' memory with it.
        whole_batch = getattr(self, "inputs", None)
        takes_any_batch = self.loader is None and self.case.scenario not in ("pair", "generate")
        if whole_batch is not None and takes_any_batch:
            self.inputs = self.take_few_samples(whole_batch)
        self.step()
        self.synchronize()
        self.loss()
        if whole_batch is not None:
            self.inputs = whole_batch
        self.release()
        self.reset_peak()

    def take_few_samples(self, batch: Batch) -> Batch:
        """Return two samples of a batch for each micro-batch."""
        x, y = batch
        batch_size = read_batch_length(x)

        def take_few(var: Var) -> Var:
            if var.shape[0] != batch_size:
                return var
            return var[: 2 * self.micro_batches].stop_grad()

        return map_tree(take_few, x), map_tree(take_few, y)

    def versions(self) -> dict[str, str]:
        compiler = jittor_utils.get_version(jt.compiler.cc_path).strip("()")
        versions = {
            "jittor": jt.__version__,
            "numpy": np.__version__,
            "compiler": f"{jt.compiler.cc_type} {compiler}",
        }
        if jt.has_cuda:
            cuda = jittor_utils.get_int_version(jt.compiler.nvcc_path)
            versions["cuda"] = ".".join(map(str, cuda))
        if jt.compile_extern.use_mkl:
            versions["onednn"] = read_onednn_version()
        return versions

    def device(self) -> str:
        if not jt.has_cuda:
            return "cpu"
        return next(iter(nvml.list_gpus()), "cuda")


def read_onednn_version() -> str:
    """Return the version of the oneDNN that is loaded."""
    # its C function returns a pointer to (major, minor, patch, ...)
    function = ctypes.CDLL(None).dnnl_version
    function.restype = ctypes.POINTER(ctypes.c_int * 3)
    return ".".join(map(str, function().contents))
