"""A case in PyTorch: eager mode unless a strategy says otherwise, and PyTorch's own optimizers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from framebench.adapters.base import (
    Adapter,
    Batch,
    Evidence,
    State,
    Switch,
    join_output,
)
from framebench.adapters.holders import (
    find_holders,
    iterate_globals,
    list_user_modules,
    walk_globals,
)
from framebench.adapters.parts import Hooks, PartOptions
from framebench.adapters.torch import choices, sums
from framebench.adapters.torch.device import (
    COUNTERS,
    FUSED,
    PEAKS,
    CudaStopwatch,
    apply_settings,
    convert_model,
    read_generators,
    read_statistics,
    to_numpy,
)
from framebench.adapters.torch.known_faults import find_known_fault
from framebench.adapters.torch.modes import (
    DrawsByLayout,
    MeansForDraws,
    NarrowResults,
    WidenedCasts,
    set_mode,
    use_default_dtype,
    widen_attributes,
    widen_globals,
    widen_modules,
)
from framebench.adapters.torch.observe import (
    BATCHED_MATMULS,
    StepCounter,
    count_dtypes,
    count_graph_nodes,
    count_unique_bytes,
    find_storages,
)
from framebench.adapters.torch.parts import Process, Readings, TorchRecipe
from framebench.adapters.torch.profiled import Profiled
from framebench.adapters.torch.untracked import (
    find_host_storages,
    iterate_attributes,
    list_all_tensors,
    read_mkl_bytes,
)
from framebench.adapters.torch.user_optimizer import (
    asks_for_closure,
    iterate_states,
    needs_closure,
)
from framebench.adapters.user_functions import FLOAT32_BYTES
from framebench.instruments import host
from framebench.models.spec import SEED, USER_MODEL, Optimizer, load_workload
from framebench.suite.case import Case
from framebench.suite.trees import call_with, iterate_arrays, list_arrays, map_tree
from framebench.suite.user_file import import_packages

# the kinds of states by PyTorch's names
STATES = {
    "momentum_buffer": "momentum",
    "exp_avg": "first moment",
    "exp_avg_sq": "second moment",
    "variance": "second moment",
    "row_var": "row mean",
    "col_var": "column mean",
}
# of the names of weights: those of the model, and those of the teacher that it learns from
PREFIXES = ("", "teacher.")


def make_optimizer(
    o: Optimizer, params: Iterable[nn.Parameter], **options: Any
) -> torch.optim.Optimizer:
    """Make PyTorch's own implementation with the workload's settings, or a user's optimizer."""
    if o.name == USER_MODEL:
        return load_workload(USER_MODEL).import_model("torch").optimizer(params, **options)
    if o.name == "sgd":
        return torch.optim.SGD(params, o.lr, o.momentum, weight_decay=o.weight_decay, **options)
    if o.name == "adafactor":
        eps = (o.eps, 1e-3)
        return torch.optim.Adafactor(params, o.lr, eps=eps, weight_decay=o.weight_decay, **options)
    return torch.optim.AdamW(params, o.lr, o.betas, o.eps, o.weight_decay, **options)


def is_inexact(tensor: Tensor) -> bool:
    """Return whether a tensor has floating-point or complex numbers."""
    return tensor.is_floating_point() or tensor.is_complex()


def train_small_layer() -> None:
    """Make one step of a tiny model, so that PyTorch imports what any first step imports.

    The imports take some MiB, which would otherwise count as memory of the user's model.
    """
    layer = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1, momentum=0.9)
    with torch.enable_grad():
        layer(torch.ones(1, 1)).sum().backward()
    optimizer.step()


class TorchAdapter(Adapter):
    """A case in PyTorch. Its switches set or wrap `recipe`, `readings` and `process`."""

    # functions whose first argument is the adapter
    repeat_with_exact_choices = choices.repeat_with_exact_choices
    repeat_with_exact_sums = sums.repeat_with_exact_sums

    def __init__(self, case: Case, switches: Mapping[str, Switch]) -> None:
        """Set the parts that switches may change, and read the memory that libraries hold."""
        super().__init__(case, switches)
        self.torch_device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # in memory between two steps: the model, then a teacher; in `pair` both models or none
        self.models_in_memory: list[nn.Module] = []
        self.after_restore: list[Callable[[], object]] = []  # called at the end of `restore`
        self.needs_closure = False  # whether the optimizer's step computes the loss itself
        # whether a backward pass must precede the step of an optimizer that needs a closure
        self.begins_with_gradient = False
        self.loss_evaluations = 1  # in the last step
        self.packages: dict[str, str] = {}  # versions of what a strategy has next to PyTorch
        if self.is_user_model:
            import_packages(self.case.user_file)
            train_small_layer()
            # A file may compile by itself, but compilation is a strategy of its own. The stance
            # holds for the process, in which an eager case may precede one that compiles.
            torch.compiler.set_stance("default" if case.strategy_spec.compiles else "force_eager")
        self.malloc_bytes_before = host.measure_large_blocks()
        self.mkl_bytes_before = read_mkl_bytes()
        self.recipe = self.make_recipe()
        self.readings = Readings(
            self.ledger,
            read_logits=lambda: np.empty(0),
            gather_weights=contextlib.nullcontext,
        )
        self.process = Process(self.ledger, attention=tuple(FUSED))

    def make_recipe(self) -> TorchRecipe:
        """Return the parts of a case before strategies change them."""
        steps = {
            "eval": self.eval_step,
            "varlen": self.stream_step,
            "pair": self.pair_step,
        }
        if self.trains_by_file():
            steps["train"] = self.file_step
        return TorchRecipe(
            self.ledger,
            step=steps.get(self.case.scenario, self.train_step),
            forward=self.call_model,
            objective=self.compute_loss,
            backward=self.scale_and_backward,
            optimizer=make_optimizer,
            # a disabled scaler passes everything through
            scaler=torch.amp.GradScaler(self.torch_device.type, enabled=False),
            evaluates=not self.case.scenario_spec.trains,
            models=lambda: self.models_in_memory,
            model_options=PartOptions(self.ledger, "model option"),
            optimizer_options=PartOptions(self.ledger, "optimizer option"),
            zero_grad_options=PartOptions(self.ledger, "zero_grad option"),
            on_model=Hooks(self.ledger),
        )

    def call_model(self, *xs: Any, **kwargs: Any) -> Tensor:
        """Make a forward pass of the model: `recipe.forward` unless a strategy replaces it."""
        output: Tensor = self.model(*xs, **kwargs)
        return output

    def compute_loss(self, x: Any, y: Any) -> Tensor:
        """Return the loss of a batch: `recipe.objective` unless a strategy replaces it."""
        output = call_with(self.recipe.forward, x)
        loss: Tensor = self.model_module.loss(output, self.find_target((x, y)))
        return loss

    def scale_and_backward(self, loss: Tensor) -> None:
        """Make a backward pass: `recipe.backward` unless a strategy replaces it."""
        self.recipe.scaler.scale(loss).backward()

    def make(self) -> None:
        apply_settings(self.process)
        if self.float64:
            self.recipe.dtype = torch.float64
        weights = self.get_initial_weights(self.config)
        if self.case.scenario == "pair":  # they are made in the step, or before the first one
            self.host_weights = weights, self.workload.make_other_weights(self.config)
        else:
            self.model = self.load(self.config, weights)
            self.models_in_memory = [self.model]
            if self.recipe.block_runner:
                self.model.block_runner = self.recipe.block_runner  # type: ignore[assignment]
            self.recipe.on_model(self.model)
        self.put_inputs()
        if self.case.scenario_spec.trains:
            self.make_optimizer()
            self.begins_with_gradient = self.is_user_model and asks_for_closure(self.optimizer)
            self.needs_closure = self.begins_with_gradient or needs_closure(self.optimizer)
        self.release()

    def make_optimizer(self) -> None:
        """Make the optimizer of the weights that ask for a gradient."""
        options = self.recipe.optimizer_options
        self.optimizer = self.recipe.optimizer(self.case.optimizer, self.list_trained(), **options)

    def get_initial_weights(self, config: Any) -> dict[str, np.ndarray]:
        """Return the weights that a model of this configuration starts with.

        The weights of the case itself may be perturbed, to measure tolerances.
        """
        if config == self.config:
            return self.case.weights
        return self.workload.make_weights(config)

    def load(self, config: Any, weights: dict[str, np.ndarray]) -> nn.Module:
        """Return a model with these weights on the device, in the scenario's mode."""
        model = self.model_module.build(config, **self.recipe.model_options)
        if self.is_user_model:
            self.model_module.check_measurable(model)
        model.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()})
        model = convert_model(model, self.torch_device, self.recipe.dtype)
        if self.float64 and self.is_user_model:
            widen_attributes(model)
        return set_mode(model, self.recipe.evaluates)

    def put(self, x: Any, y: Any) -> Batch:
        return map_tree(self.put_input, x), map_tree(self.put_target, y)

    def put_input(self, x: np.ndarray | Tensor) -> Tensor:
        """Return an input on the device, in the recipe's precision and memory format.

        A user's numbers in 16 bits, which are tensors already, keep their type outside of float64.
        """
        inputs = self.put_target(x)
        keeps_type = self.is_user_model and not self.float64 and inputs.itemsize < FLOAT32_BYTES
        if inputs.is_floating_point() and not keeps_type:
            inputs = inputs.to(self.recipe.dtype)
        return self.recipe.on_input(inputs)

    def put_target(self, y: np.ndarray | Tensor) -> Tensor:
        """Return a target on the device: this rank's share, where ranks divide the batch.

        A user's sparse or nested tensor, which NumPy does not have, is a tensor already.
        """
        if isinstance(y, Tensor):
            target = y.to(self.torch_device)
        else:
            share = y[self.recipe.share] if y.ndim else y
            target = torch.from_numpy(share).to(self.torch_device)
        if self.float64 and target.is_complex():
            return target.to(torch.complex128)
        # a binary cross entropy has the target's type, whatever that of the logits is
        return target.double() if self.float64 and target.is_floating_point() else target

    def context(self) -> contextlib.ExitStack:
        """Enter the contexts of a forward pass, and return the stack that leaves them."""
        stack = contextlib.ExitStack()
        for enter in self.recipe.contexts:
            stack.enter_context(enter())
        return stack

    def one_step(self) -> None:
        with self.use_float64_by_default():
            self.recipe.step()

    @contextlib.contextmanager
    def use_float64_by_default(self) -> Iterator[None]:
        """Make float64 the default type while a step in float64 runs; otherwise do nothing.

        Tensors that are created without a type then have it: those of a user's file, such as
        `torch.zeros(n)`, and the count of steps by which optimizers correct their biases.
        """
        if not self.float64:
            yield
            return
        with use_default_dtype(torch.float64), contextlib.ExitStack() as stack:
            if self.is_user_model:
                stack.enter_context(widen_modules(self.list_other_modules()))
                stack.enter_context(widen_globals(list_user_modules(self.case.user_file)))
                # a user's loss may call logits.float(), which would narrow float64
                stack.enter_context(WidenedCasts())
            yield

    def list_other_modules(self) -> list[nn.Module]:
        """Return modules without weights of the model that globals of the user's file lead to.

        A loss may call them, such as a frozen teacher, or a step may change them, such as an
        average of the weights. A step in float64 then needs their weights in float64, too.
        """
        model_weights = {id(weight) for weight in self.model.parameters()}
        others = []
        for value in walk_globals(self.case.user_file):
            if isinstance(value, nn.Module):
                weights = {id(weight) for weight in value.parameters()}
                if model_weights.isdisjoint(weights):
                    others.append(value)
        return others

    def find_narrow_result(self) -> str:
        with NarrowResults() as narrow:
            self.one_step()
        return narrow.operation

    def seed(self) -> None:
        # Checkpointing restores the state of PyTorch's generator by itself.
        if not self.workload.may_draw():
            return
        number = SEED
        if self.case.scenario_spec.trains:
            number += self.steps - self.restored_at
        random.seed(number)
        np.random.seed(number)
        torch.manual_seed(number)

    def disable_randomness(self) -> contextlib.AbstractContextManager[Any]:
        return MeansForDraws() if self.deterministic else contextlib.nullcontext()

    def draws_random_numbers(self) -> bool:
        before = read_generators()
        self.one_step()
        self.synchronize()
        return read_generators() != before

    def draws_by_layout(self) -> bool:
        with DrawsByLayout() as draws:
            self.one_step()
        return draws.has_drawn

    def train_step(self) -> None:
        """Make one step of training."""
        if self.needs_closure:
            self.step_by_closure()
            return
        total = self.backward_pass()
        self.recipe.scaler.step(self.optimizer)
        self.recipe.scaler.update()
        self.output = total

    def step_by_closure(self) -> None:
        """Make one step of training with an optimizer that computes the loss itself."""
        self.loss_evaluations = 0
        losses: list[Tensor] = []

        def closure() -> Tensor:
            loss = self.backward_pass()
            losses.append(loss.detach())
            return loss

        if self.begins_with_gradient:
            closure()
        self.optimizer.step(closure)
        self.output = losses[0]

    def file_step(self) -> None:
        """Make the training step of the user's file."""
        with self.context():
            self.output = self.model_module.run_step(self.model, self.next_batch(), self.optimizer)

    def backward_pass(self) -> Tensor:
        """Compute the gradients of a batch, and return its loss."""
        # L-BFGS and the like call this several times a step; for other optimizers the count stays 1
        if self.needs_closure:
            self.loss_evaluations += 1
        self.optimizer.zero_grad(**self.recipe.zero_grad_options)
        total = torch.zeros((), dtype=self.recipe.dtype, device=self.torch_device)
        inputs, targets = self.next_batch()
        for x, y in self.cut_batch((inputs, targets), self.micro_batches):
            with self.context():
                loss = self.recipe.objective(x, y) / self.micro_batches
            self.recipe.backward(loss)
            total += loss.detach()
        return total

    def eval_step(self) -> None:
        """Make one forward pass, whose output is the logits."""
        self.release()
        with self.context():
            self.output = call_with(self.recipe.forward, self.inputs[0])

    def stream_step(self) -> None:
        """Compute the mean loss over the stream's tokens, without those of padding.

        The logits of each batch are dropped before the next one.
        """
        total = torch.zeros((), dtype=self.recipe.dtype, device=self.torch_device)
        with torch.no_grad(), self.context():
            for x, y in self.stream:
                total += self.model_module.loss_sum(self.recipe.forward(x), y)
        self.output = total / self.case.work

    def pair_step(self) -> None:
        """Compute the mean loss of two models on one batch."""
        x, y = self.inputs
        losses = []
        with torch.no_grad():
            for model in self.recipe.models():
                losses.append(self.model_module.loss(model(x), y))
                del model  # else it would be alive while the next one is made
        self.output = torch.stack(losses).mean()

    def release(self) -> None:
        self.output = torch.empty(0)

    def synchronize(self) -> None:
        if self.torch_device.type == "cuda":
            torch.cuda.synchronize()

    def loss(self) -> float:
        with torch.no_grad():
            if self.case.scenario == "eval":  # the output is the logits
                loss = self.model_module.loss(self.output, self.find_target(self.inputs))
            else:  # the step has computed the loss
                loss = self.output
            return self.readings.mean_of_ranks(loss).item()

    def logits(self) -> np.ndarray:
        if self.case.scenario == "generate":
            return self.readings.read_logits()
        output = self.output
        if isinstance(output, Tensor):
            output = self.readings.rows_of_ranks(output.detach())
        return join_output(output, is_inexact, to_numpy)

    def weights(self) -> Iterator[tuple[str, np.ndarray]]:
        with self.readings.gather_weights():
            for prefix, model in zip(PREFIXES, self.models_in_memory):
                for name, tensor in model.state_dict().items():
                    if not isinstance(tensor, Tensor):
                        continue  # a user's package may keep a description with its model
                    # batch norm also counts batches, in integers
                    if is_inexact(tensor):
                        yield prefix + name, to_numpy(tensor)

    def states(self) -> Iterator[State]:
        return self.readings.states(self.local_states())

    def local_states(self) -> Iterator[State]:
        """Yield the optimizer's states in this process."""
        names = {}
        for prefix, model in zip(PREFIXES, self.models_in_memory):
            for name, p in model.named_parameters():
                names[p] = prefix + name
        for p, state in self.iterate_states():
            name = names.get(p, f"unknown weight {tuple(p.shape)}")
            for kind, value in state.items():
                if not isinstance(value, Tensor):
                    continue
                # a tensor without dimensions is a count of steps, if it is no state of a weight
                if value.ndim or kind in STATES:
                    # the bytes of all ranks if a tensor is divided among them
                    is_divided = hasattr(value, "full_tensor")
                    nbytes = value.nbytes if is_divided else count_unique_bytes([value])
                    array = to_numpy(value)
                    yield State(STATES.get(kind, kind), name=name, array=array, nbytes=nbytes)

    def iterate_states(self) -> Iterator[tuple[nn.Parameter, Any]]:
        """Yield each weight with its state, for a user's optimizer also those in inner ones."""
        return iterate_states(self.optimizer, self.is_user_model)

    def restore(self) -> None:
        # in place: compiled functions and the optimizer refer to these tensors
        weights = {name: torch.from_numpy(w) for name, w in self.case.weights.items()}
        self.model.load_state_dict(weights)
        self.restored_at = self.steps
        if self.is_user_model and self.case.scenario_spec.trains:
            self.make_optimizer()  # a user's may keep state anywhere, as schedules do
        elif self.case.scenario_spec.trains:
            for state in self.optimizer.state.values():
                state.clear()  # the next step makes it again
        for callback in self.after_restore:
            callback()

    def make_observer(self) -> StepCounter | Profiled:
        """Return the context that counts what a step does, by the profiler if it is compiled.

        The profiler tells forward passes apart by the compiled module, or else by the model.
        """
        blocks = self.blocks()
        if not self.readings.uses_profiler:
            # a user's step may save tensors that its file keeps outside of the model
            lasting = list_all_tensors() if self.is_user_model else self.lasting_tensors()
            return StepCounter(self.models_in_memory, blocks, lasting)
        if not self.readings.counts_passes:
            return Profiled(model=None, block_count=len(blocks))
        if isinstance(self.recipe.forward, nn.Module):
            return Profiled(self.recipe.forward, block_count=len(blocks))
        return Profiled(self.model, block_count=len(blocks), hooked_blocks=blocks)

    def observe(self) -> Evidence:
        observer = self.make_observer()
        buffers = self.buffers()
        buffers_before = [b.clone() for b in buffers]
        with observer:
            self.one_step()
        self.synchronize()
        outputs = list(iterate_arrays(self.output))
        # states in 8 bits are codes, which are no numbers by themselves
        states = [s for s in self.state_tensors() if s.ndim and s.is_floating_point()]
        return observer.evidence() | {
            "graph_nodes": sum(map(count_graph_nodes, outputs)),
            "inference_tensor": all(output.is_inference() for output in outputs),
            "weight_dtypes": count_dtypes(self.parameters()),
            "state_dtypes": count_dtypes(states),
            "buffers": len(buffers),
            "buffers_changed": list(map(torch.equal, buffers, buffers_before)).count(False),
        }

    def count_batched_matmuls(self) -> int:
        operators = self.observe()["operators"]
        return sum(operators.get(name, 0) for name in BATCHED_MATMULS)

    def blocks(self) -> list[nn.Module]:
        """Return the blocks of all models in memory."""
        blocks: list[nn.Module] = []
        for model in self.models_in_memory:
            blocks += self.model_module.blocks_of(model)
        return blocks

    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters of all models in memory."""
        return list(nn.ModuleList(self.models_in_memory).parameters())

    def buffers(self) -> list[Tensor]:
        """Return the buffers of all models in memory."""
        return list(nn.ModuleList(self.models_in_memory).buffers())

    def list_trained(self) -> list[nn.Parameter]:
        """Return the parameters that the optimizer updates."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def state_tensors(self) -> list[Tensor]:
        """Return the tensors of the optimizer's states, counts of steps included."""
        if not self.case.scenario_spec.trains:
            return []
        states = [state for _, state in self.iterate_states()]
        return [value for value in iterate_arrays(states) if isinstance(value, Tensor)]

    def input_tensors(self) -> list[Tensor]:
        """Return the inputs and targets on the device."""
        return list_arrays(self.stream if self.case.scenario == "varlen" else self.inputs)

    def lasting_tensors(self) -> list[Tensor]:
        """Return the tensors that exist before and after each step: weights, buffers, inputs."""
        return [*self.parameters(), *self.buffers(), *self.input_tensors()]

    def known_tensors(self) -> list[Tensor]:
        """Return the tensors that the harness expects between two steps.

        These tensors are the lasting ones, the output, gradients and optimizer states.
        """
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        lasting = self.lasting_tensors()
        return [*iterate_arrays(self.output), *lasting, *gradients, *self.state_tensors()]

    def allocate(self, size: int) -> Tensor:
        return torch.ones(size, dtype=torch.uint8, device=self.torch_device)

    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def live_bytes(self) -> int:
        # tensors in the graph of the last evaluation are not here: saved tensors are counted apart
        tensors = self.known_tensors()
        on_device = [t for t in tensors if t.device.type == self.torch_device.type]
        return count_unique_bytes(on_device) + self.readings.extra_bytes()

    def named_untracked_bytes(self) -> dict[str, int]:
        roots = [*iterate_attributes(self.model), *iterate_globals(self.case.user_file)]
        known = find_storages(self.known_tensors())
        return find_holders(roots, find_host_storages, known, list_all_tensors())

    def reported_library_bytes(self) -> int:
        return read_mkl_bytes() - self.mkl_bytes_before

    def reset_peak(self) -> None:
        if self.torch_device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def read_peaks(self) -> dict[str, int]:
        return read_statistics(PEAKS, self.torch_device)

    def read_counters(self) -> dict[str, int]:
        return read_statistics(COUNTERS, self.torch_device)

    def make_stopwatch(self) -> CudaStopwatch | None:
        return CudaStopwatch() if self.torch_device.type == "cuda" else None

    def compile(self) -> None:
        # torch.compile compiles in the first step; all other strategies are eager
        if self.case.strategy_spec.compiles:
            self.step()
            self.synchronize()
            self.release()

    def limit_memory(self, budget: int | None) -> bool:
        if self.torch_device.type != "cuda":
            return super().limit_memory(budget)
        total = torch.cuda.get_device_properties(self.torch_device).total_memory
        share = 1.0 if budget is None else min(1.0, budget / total)
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(share)
        return budget is not None

    def versions(self) -> dict[str, str]:
        versions = {"torch": torch.__version__, "numpy": np.__version__} | self.packages
        if self.torch_device.type == "cuda":
            versions["cuda"] = str(torch.version.cuda)
            versions["cudnn"] = str(torch.backends.cudnn.version())
        return versions

    def find_known_fault(self) -> str | None:
        return find_known_fault(self.case)

    def device(self) -> str:
        return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
