"""PyTorch: eager mode unless a strategy says otherwise, its own optimizers, autocast and checkpointing."""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from framebench.adapters.base import Adapter, Batch, Evidence, State, Switch, find_length_strategy
from framebench.adapters.holders import find_holders, iterate_globals
from framebench.adapters.parts import Hooks, Options
from framebench.adapters.torch.card import COUNTERS, PEAKS, CudaStopwatch, read
from framebench.adapters.torch.elsewhere import addresses, attributes, every_tensor, storages
from framebench.adapters.torch.known_faults import find_known_fault, of_norms
from framebench.adapters.torch.libraries import mkl_bytes
from framebench.adapters.torch.narrow import NarrowResults, WidenedCasts
from framebench.adapters.torch.observe import BATCHED, Observed, asks_for_closure, dtypes, graph_nodes, parts, unique_bytes
from framebench.adapters.torch.parts import Process, Readings, Recipe
from framebench.adapters.torch.process import FUSED, set_up
from framebench.adapters.torch.profiled import Profiled
from framebench.adapters.torch.still import Still
from framebench.adapters.torch.tensors import converted, generators, on_host
from framebench.instruments import host
from framebench.models.spec import OWN, SEED, Optimizer, workload
from framebench.suite.case import Case
from framebench.suite.trees import called, leaves, mapped, split
from framebench.suite.user_file import import_packages

STATES = {
    "momentum_buffer": "momentum",
    "exp_avg": "first moment",
    "exp_avg_sq": "second moment",
    "variance": "second moment",
    "row_var": "row mean",
    "col_var": "column mean",
}


def make_optimizer(o: Optimizer, params: Iterable[nn.Parameter], **options: Any) -> torch.optim.Optimizer:
    """PyTorch's own implementation with the workload's settings, or what a user's file makes."""
    if o.name == OWN:
        return workload(OWN).model("torch").optimizer(params, **options)
    if o.name == "sgd":
        return torch.optim.SGD(params, o.lr, o.momentum, weight_decay=o.weight_decay, **options)
    if o.name == "adafactor":
        return torch.optim.Adafactor(params, o.lr, eps=(o.eps, 1e-3), weight_decay=o.weight_decay, **options)
    return torch.optim.AdamW(params, o.lr, o.betas, o.eps, o.weight_decay, **options)


def warmed_up() -> None:
    """What PyTorch imports in the first step of any model, and takes some MiB for, is none of a user's."""
    layer = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1, momentum=0.9)
    with torch.enable_grad():
        layer(torch.ones(1, 1)).sum().backward()
    optimizer.step()


class TorchAdapter(Adapter):
    """What switches set or wrap: `recipe`, `readings` and `process`."""

    def __init__(self, case: Case, switches: Mapping[str, Switch]) -> None:
        super().__init__(case, switches)
        self.where = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.held: list[nn.Module] = []  # what is in memory between two steps
        self.on_restore: list[Callable[[], object]] = []  # what follows once the canonical weights are back
        self.first_states: dict[nn.Parameter, dict[str, Any]] = {}
        self.closure, self.evaluations = False, 1  # of the loss in the last step
        if case.workload == OWN:
            import_packages(case.user_file)
            warmed_up()
            if not any(part.how.startswith("compile") for part in case.parts):
                torch.compiler.set_stance("force_eager")  # a file may compile by itself: that is a strategy of its own
        self.malloc_bytes_before, self.mkl_before = host.large_blocks(), mkl_bytes()
        self.packages: dict[str, str] = {}  # versions of what a strategy has beside PyTorch
        steps = {"eval": self.eval_step, "varlen": self.stream_step, "pair": self.pair_step}
        self.recipe = Recipe(
            self.ledger,
            step=steps.get(case.scenario, self.train_step),
            forward=lambda *xs, **named: self.model(*xs, **named),
            objective=lambda x, y: self.model_module.loss(called(self.recipe.forward, x), y),
            backward=lambda loss: self.recipe.scaler.scale(loss).backward(),
            optimizer=make_optimizer,
            scaler=torch.amp.GradScaler(self.where.type, enabled=False),  # passes everything through
            evaluates=not case.stage.trains,
            models=lambda: self.held,
            model_options=Options(self.ledger, "model option"),
            optimizer_options=Options(self.ledger, "optimizer option"),
            zero_grad_options=Options(self.ledger, "zero_grad option"),
            on_model=Hooks(self.ledger),
        )
        self.readings = Readings(self.ledger, decoded=lambda: np.empty(0), gathered=contextlib.nullcontext)
        self.process = Process(self.ledger, attention=tuple(FUSED))

    def make(self) -> None:
        set_up(self.process)
        if self.float64:
            self.recipe.dtype = torch.float64
        if self.case.scenario == "pair":
            self.host_weights = self.canonical(self.config), self.workload.other_weights(self.config)
        else:
            self.model = self.load(self.config, self.canonical(self.config))
            self.held = [self.model]
            if self.recipe.block_runner:
                self.model.remat = self.recipe.block_runner  # type: ignore[assignment]
            self.recipe.on_model(self.model)
        if self.case.scenario == "varlen":
            batches = self.workload.stream(self.config, self.case.batch, find_length_strategy(self.case))
            self.stream = [self.put(x, y) for x, y in batches]
        else:
            self.inputs = self.put(*self.workload.batch(self.config, self.case.batch))
        if self.case.stage.trains:
            trained = [p for p in self.model.parameters() if p.requires_grad]
            self.optimizer = self.recipe.optimizer(self.case.optimizer, trained, **self.recipe.optimizer_options)
            self.closure = asks_for_closure(self.optimizer)
            self.first_states = {p: copy.deepcopy(state) for p, state in self.optimizer.state.items()}
        self.release()

    def canonical(self, config: Any) -> dict[str, np.ndarray]:
        """The weights that a model of this configuration starts with; the case's own may be rounded otherwise."""
        return self.case.weights if config == self.config else self.workload.weights(config)

    def load(self, config: Any, weights: dict[str, np.ndarray]) -> nn.Module:
        """A model of this configuration with these weights, on the device, in the scenario's mode."""
        model = self.model_module.build(config, **self.recipe.model_options)
        model.load_state_dict({k: torch.from_numpy(w) for k, w in weights.items()})
        return converted(model, self.where, self.recipe.dtype).train(not self.recipe.evaluates)

    def put(self, x: Any, y: Any) -> Batch:
        return mapped(self.put_input, x), mapped(self.put_target, y)

    def put_input(self, x: np.ndarray) -> Tensor:
        inputs = self.put_target(x)
        return self.recipe.on_input(inputs.to(self.recipe.dtype) if inputs.is_floating_point() else inputs)

    def put_target(self, y: np.ndarray) -> Tensor:
        return torch.from_numpy(y[self.recipe.share] if y.ndim else y).to(self.where)

    def context(self) -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        for enter in self.recipe.contexts:
            stack.enter_context(enter())
        return stack

    def one_step(self) -> None:
        with self.default_dtype():
            self.recipe.step()

    @contextlib.contextmanager
    def default_dtype(self) -> Iterator[None]:
        """Have tensors of no named type made in float64 where the step is: those of a user's file, such as `torch.zeros(n)`,
        and the count of steps that optimizers make their bias corrections of."""
        if not self.float64:
            yield
            return
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with WidenedCasts() if self.case.workload == OWN else contextlib.nullcontext():
                yield
        finally:
            torch.set_default_dtype(before)

    def narrow_results(self) -> str:
        with NarrowResults() as narrow:
            self.one_step()
        return narrow.first

    def seed(self) -> None:
        """Checkpointing restores the state of PyTorch's generator itself."""
        if self.workload.may_draw():
            number = SEED + (self.steps - self.restored_at if self.case.stage.trains else 0)
            random.seed(number)
            np.random.seed(number)
            torch.manual_seed(number)

    def disable_randomness(self) -> contextlib.AbstractContextManager[Any]:
        return Still() if self.deterministic else contextlib.nullcontext()

    def draws_random_numbers(self) -> bool:
        before = generators()
        self.one_step()
        self.synchronize()
        return generators() != before

    def train_step(self) -> None:
        if self.closure:
            self.evaluations = 0
            self.output = self.optimizer.step(self.backward_pass).detach()
            return
        total = self.backward_pass()
        self.recipe.scaler.step(self.optimizer)
        self.recipe.scaler.update()
        self.output = total

    def backward_pass(self) -> Tensor:
        """Gradients, and the loss."""
        self.evaluations += self.closure
        self.optimizer.zero_grad(**self.recipe.zero_grad_options)
        total = torch.zeros((), dtype=self.recipe.dtype, device=self.where)
        inputs, targets = self.next_batch()
        for x, y in zip(split(inputs, self.micro_batches), split(targets, self.micro_batches), strict=True):
            with self.context():
                loss = self.recipe.objective(x, y) / self.micro_batches
            self.recipe.backward(loss)
            total += loss.detach()
        return total

    def eval_step(self) -> None:
        self.release()
        with self.context():
            self.output = called(self.recipe.forward, self.inputs[0])

    def stream_step(self) -> None:
        """Mean loss over the tokens that are no padding; each batch's logits are dropped before the next."""
        total = torch.zeros((), dtype=self.recipe.dtype, device=self.where)
        with torch.no_grad(), self.context():
            for x, y in self.stream:
                total += self.model_module.loss_sum(self.recipe.forward(x), y)
        self.output = total / self.case.work

    def pair_step(self) -> None:
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
        if self.where.type == "cuda":
            torch.cuda.synchronize()

    def loss(self) -> float:
        if self.case.scenario != "eval":
            return self.readings.mean_of_ranks(self.output).item()
        with torch.no_grad():
            return self.readings.mean_of_ranks(self.model_module.loss(self.output, self.inputs[1])).item()

    def logits(self) -> np.ndarray:
        if self.case.scenario == "generate":
            return self.readings.decoded()
        return self.readings.rows_of_ranks(self.as_rows()).to("cpu", torch.float64).numpy()

    def as_rows(self) -> Tensor:
        """The output; of one with several arrays all numbers of each sample side by side."""
        if isinstance(self.output, Tensor):
            return self.output.detach()
        floats = [t.detach() for t in leaves(self.output) if t.is_floating_point()]
        rows = max(len(t) if t.ndim else 1 for t in floats)
        return torch.cat([t.reshape(rows, -1).double() for t in floats if t.ndim and len(t) == rows], 1)

    def weights(self) -> Iterator[tuple[str, np.ndarray]]:
        with self.readings.gathered():
            for prefix, model in zip(("", "teacher."), self.held):
                for name, tensor in model.state_dict().items():
                    if not isinstance(tensor, Tensor):
                        continue  # what a package of a user's describes its model by
                    if tensor.is_floating_point() or tensor.is_complex():  # batch norm counts batches besides
                        yield prefix + name, on_host(tensor)

    def states(self) -> Iterator[State]:
        return self.readings.states(self.own_states())

    def own_states(self) -> Iterator[State]:
        models = zip(("", "teacher."), self.held)
        names = {p: prefix + name for prefix, model in models for name, p in model.named_parameters()}
        for p, state in self.optimizer.state.items():
            for kind, value in state.items():
                if isinstance(value, Tensor) and (value.ndim > 0 or kind in STATES):  # a weight may be one number
                    name = names.get(p, f"unknown weight {tuple(p.shape)}")
                    whole = value.nbytes if hasattr(value, "full_tensor") else sum(part.nbytes for part in parts(value))
                    yield State(STATES.get(kind, kind), name, on_host(value), whole)

    def restore(self) -> None:
        """In place: what is compiled, and the optimizer, hold the tensors themselves."""
        self.model.load_state_dict({k: torch.from_numpy(w) for k, w in self.case.weights.items()})
        self.restored_at = self.steps
        states = self.optimizer.state.items() if self.case.stage.trains else ()
        for p, state in states:
            state.clear()
            state.update(copy.deepcopy(self.first_states.get(p, {})))
        for follow in self.on_restore:
            follow()

    def observe(self) -> Evidence:
        seen = self.observer()
        buffers = [(b, b.clone()) for model in self.held for b in model.buffers()]
        with seen:
            self.one_step()
        self.synchronize()
        changed = sum(not torch.equal(now, before) for now, before in buffers)
        outputs = [*leaves(self.output)]
        kept = {"graph_nodes": sum(map(graph_nodes, outputs)), "inference_tensor": all(t.is_inference() for t in outputs)}
        states = [s for s in self.state_tensors() if s.ndim and s.is_floating_point()]  # codes are no numbers by themselves
        stored = {"weight_dtypes": dtypes(self.parameters()), "state_dtypes": dtypes(states)}
        return seen.evidence() | kept | stored | {"buffers": len(buffers), "buffers_changed": changed}

    def observer(self) -> Observed | Profiled:
        """Counts an observed step."""
        if not self.readings.profiled:
            lasting = every_tensor() if self.case.workload == OWN else self.lasting()
            return Observed(self.held, self.blocks(), lasting)
        if not self.readings.passes_told:
            return Profiled(None, len(self.blocks()))
        if isinstance(self.recipe.forward, nn.Module):
            return Profiled(self.recipe.forward, len(self.blocks()))
        return Profiled(self.model, len(self.blocks()), self.blocks())

    def count_batched_matmuls(self) -> int:
        operators = self.observe()["operators"]
        return sum(operators.get(name, 0) for name in BATCHED)

    def blocks(self) -> list[nn.Module]:
        return [block for model in self.held for block in self.model_module.blocks_of(model)]

    def parameters(self) -> list[nn.Parameter]:
        return [p for model in self.held for p in model.parameters()]

    def state_tensors(self) -> list[Tensor]:
        """The optimizer's, its counts too."""
        states = self.optimizer.state.values() if self.case.stage.trains else ()
        return [v for state in states for v in leaves(list(state.values())) if isinstance(v, Tensor)]

    def allocate(self, size: int) -> Tensor:
        return torch.ones(size, dtype=torch.uint8, device=self.where)

    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def live_bytes(self) -> int:
        """Unique storages on the device. What the last evaluation's graph still holds is found by the saved-tensor count."""
        return unique_bytes([t for t in self.known() if t.device.type == self.where.type]) + self.readings.bytes_beside()

    def known(self) -> list[Tensor]:
        """Of which the harness knows what they are."""
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        return [*leaves(self.output), *self.lasting(), *gradients, *self.state_tensors()]

    def named_untracked_bytes(self) -> dict[str, int]:
        """What this adapter keeps for itself is not the user's."""
        ours = [*self.known(), *self.kept_states()]
        roots = [*attributes(self.model), *iterate_globals(self.case.user_file)]
        return find_holders(roots, storages, addresses(ours), every_tensor())

    def kept_states(self) -> list[Tensor]:
        """Return the copies of the states that the optimizer began with, which `restore` puts back."""
        values = [value for state in self.first_states.values() for value in state.values()]
        return [value for value in values if isinstance(value, Tensor)]

    def harness_bytes(self) -> int:
        return unique_bytes(self.kept_states())

    def reported_library_bytes(self) -> int:
        return mkl_bytes() - self.mkl_before

    def lasting(self) -> list[Tensor]:
        """What is there before a step as after it: weights, buffers, inputs."""
        return [*self.parameters(), *(b for model in self.held for b in model.buffers()), *self.held_inputs()]

    def held_inputs(self) -> list[Tensor]:
        return [*leaves(self.stream if self.case.scenario == "varlen" else self.inputs)]

    def reset_peak(self) -> None:
        if self.where.type == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def read_peaks(self) -> dict[str, int]:
        """In use by tensors; active, which adds blocks that were freed but that a stream may still use; taken from the card."""
        return read(PEAKS, self.where)

    def read_counters(self) -> dict[str, int]:
        return read(COUNTERS, self.where)

    def make_stopwatch(self) -> CudaStopwatch | None:
        return CudaStopwatch() if self.where.type == "cuda" else None

    def compile(self) -> None:
        """torch.compile does so in the first step; everything else is eager."""
        if any(part.how in ("compile", "compile_step") for part in self.case.parts):
            self.step()
            self.synchronize()
            self.release()

    def limit_memory(self, budget: int | None) -> bool:
        if self.where.type != "cuda":
            return super().limit_memory(budget)
        total = torch.cuda.get_device_properties(self.where).total_memory
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(1.0 if budget is None else min(1.0, budget / total))
        return budget is not None

    def versions(self) -> dict[str, str]:
        package_versions = {"torch": torch.__version__, "numpy": np.__version__} | self.packages
        if self.where.type == "cuda":
            package_versions |= {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
        return package_versions

    def find_known_fault(self) -> str | None:
        return find_known_fault(self.case)

    def explain_wrong_tensors(self, names: list[str]) -> str | None:
        return of_norms(self.model, names) if self.case.plan.precision == "bf16" else None

    def device(self) -> str:
        return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
