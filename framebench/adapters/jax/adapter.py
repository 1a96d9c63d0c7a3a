"""JAX with Flax NNX and optax: one jitted, functional step over plain dictionaries of arrays.

The step is traced, lowered and compiled ahead of time inside the first `step()`, so that the first step's time contains
all three and every later one calls the executable. A training step is given what it updates, to be written over, as in the
training loops of google/flax/examples (lm1b, gemma).
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array
from jax.extend.backend import get_backend
from jax.extend.core import ClosedJaxpr
from jax.sharding import SingleDeviceSharding

from framebench.adapters.base import Adapter, Batch, Evidence, State, Switch, find_length_strategy
from framebench.adapters.jax.accumulation import Gradient, Tree, accumulated
from framebench.adapters.jax.observe import Observed, allocator_counters, allocator_peaks, counted, statistics
from framebench.adapters.jax.parts import Recipe
from framebench.adapters.jax.program import Program, buffers, equations, unique_bytes, with_batch
from framebench.adapters.jax.states import keys, named_states
from framebench.adapters.parts import Options
from framebench.models import flax_weights
from framebench.models.spec import OWN, Optimizer, workload
from framebench.suite.case import Case
from framebench.suite.trees import called, leaves, mapped, split


def make_optimizer(o: Optimizer, **options: Any) -> optax.GradientTransformation:
    """optax's own with the workload's settings, or what a user's file makes."""
    if o.name == OWN:
        return workload(OWN).model("jax").optimizer()
    if o.name == "sgd":
        return optax.sgd(o.lr, o.momentum, **options)
    if o.name == "adafactor":  # PyTorch's has means of matrices of any size, and decays weights by the rate's share
        decay = o.lr * o.weight_decay
        return optax.adafactor(o.lr, min_dim_size_to_factor=1, weight_decay_rate=decay, eps=o.eps**2, **options)
    return optax.adamw(o.lr, *o.betas, eps=o.eps, weight_decay=o.weight_decay, **options)


class Split(NamedTuple):
    """A model taken apart: what is trained, what is not, the running statistics, and what draws random numbers, as nested
    dictionaries."""

    graph: nnx.GraphDef
    params: Tree
    frozen: Tree
    stats: Tree
    draws: Tree


def merged(graph: nnx.GraphDef, params: Tree, stats: Tree, constants: Tree) -> Any:
    """The model, put together."""
    return nnx.merge(graph, params, constants["frozen"], stats, constants.get("draws", {}))


class JaxAdapter(Adapter):
    """What switches set: the parts of `recipe`."""

    biased_variance = True
    teacher_names: flax_weights.Names

    def __init__(self, case: Case, switches: Mapping[str, Switch]) -> None:
        super().__init__(case, switches)
        self.constants: dict[str, Tree] = {}  # what the step reads besides; frozen weights are put in
        self.kept: Any = None  # the residuals of an evaluation that keeps its graph
        steps = {"eval": self.eval_step, "varlen": self.stream_step, "pair": self.pair_step}
        self.recipe = Recipe(
            self.ledger,
            step=steps.get(case.scenario, self.train_step),
            optimizer=make_optimizer(case.optimizer),
            loss=lambda logits, x, y, constants: self.model_module.loss(logits, y),
            training=case.stage.trains,
            model_options=Options(self.ledger, "model option"),
            jit_options=Options(self.ledger, "option of jax.jit"),
            compiler_options=Options(self.ledger, "compiler option"),
        )
        if case.stage.trains:
            self.recipe.jit_options["donate_argnums"] = (0, 1, 2)

    def build(self) -> None:
        jax.config.update("jax_enable_x64", self.float64)  # before switches make what has a type
        super().build()

    def make(self) -> None:
        if self.float64:
            self.recipe.width = np.float64
            # the library's softmax is in float32 whatever it is given; a strategy's own attention stays
            if hasattr(self.model_module, "written_out") and "attend" not in self.recipe.model_options:
                self.recipe.model_options["attend"] = self.model_module.written_out
        parts = self.initial(self.config, self.recipe.training)
        self.graph = parts.graph
        self.names = self.naming(self.config, self.recipe.training)
        self.params, self.stats = self.placed("params", parts.params), self.placed("stats", parts.stats)
        self.constants["frozen"] = self.placed("frozen", parts.frozen)
        if parts.draws:  # the same in each step, so that every strategy draws the same numbers
            self.constants["draws"] = self.placed("draws", self.model_module.draws())
        self.count = sum(a.size for a in jax.tree.leaves((parts.params, parts.frozen)))
        self.optimizer_state: Any = self.first_state() if self.case.stage.trains else None
        if self.case.scenario == "varlen":
            self.stream = [
                self.put(x, y) for x, y in self.workload.stream(self.config, self.case.batch, find_length_strategy(self.case))
            ]
            self.inputs = max(self.stream, key=lambda batch: batch[0].size)
        else:
            self.inputs = self.put(*self.workload.batch(self.config, self.case.batch))
        self.program = self.programmed(parts.graph)
        self.release()

    def first_state(self) -> Tree:
        """The optimizer's, of the weights as they are."""
        return self.placed("state", self.recipe.optimizer.init(self.params))

    @property
    def platform(self) -> str:
        """What the step is compiled for: cpu, gpu or tpu."""
        return jax.default_backend()

    @property
    def devices(self) -> list[jax.Device]:
        """What it runs on: one, or one for each rank."""
        return jax.devices()[: self.case.ranks]

    def place(self, memory: str | None = None) -> Any:
        """One device, or a kind of its memory: where arrays can be put, inside the step and outside."""
        return SingleDeviceSharding(self.devices[0], memory_kind=memory)

    def initial(self, config: Any, training: bool) -> Split:
        """A model with the canonical weights, in NumPy arrays."""
        weights = self.case.weights if config == self.config else self.workload.weights(config)
        return self.load(config, weights, training)

    def load(self, config: Any, weights: dict[str, np.ndarray], training: bool) -> Split:
        """A model with these weights, in NumPy arrays."""
        model = self.abstract(config, training)
        flax_weights.load(model, weights, self.recipe.width)
        return self.split(model)

    def naming(self, config: Any, training: bool) -> flax_weights.Names:
        return flax_weights.Names(self.abstract(config, training), [p.name for p in self.workload.params(config)])

    def abstract(self, config: Any, training: bool) -> nnx.Module:
        """The model in the right mode, with shapes in the place of arrays: Flax's initialisers never run."""
        width = self.recipe.width
        options = {"dtype": width, "param_dtype": width, **self.recipe.model_options}
        if self.float64:
            options["dtype"] = width  # a lower precision leaves float64 alone, as PyTorch's autocast does
        model = nnx.eval_shape(lambda: self.model_module.build(config, **options))
        model.train() if training else model.eval()
        return model

    def split(self, model: nnx.Module) -> Split:
        trained = nnx.All(nnx.Param, lambda path, _: self.recipe.trained(flax_weights.canonical(path)))
        graph, *states = nnx.split(model, trained, nnx.Param, nnx.BatchStat, ...)
        return Split(graph, *map(nnx.to_pure_dict, states))

    def put(self, x: Any, y: Any) -> Batch:
        if self.case.workload != OWN and x.dtype == np.float32:  # images and volumes, to channels last; tokens stay as they are
            x = np.ascontiguousarray(np.moveaxis(x, 1, -1), self.recipe.width)
        return self.placed("batch", mapped(jnp.asarray, x)), self.placed("batch", mapped(jnp.asarray, y))

    def placed(self, what: str, tree: Tree) -> Tree:
        """On the device; over several, where the strategy has them."""
        if (where := self.recipe.sharding) is None:
            return jax.device_put(tree)
        # what lies here alone goes by NumPy: over processes JAX 0.10 makes of a count of steps what cannot be taken apart
        here = jax.tree.map(lambda a: np.asarray(a) if getattr(a, "is_fully_addressable", True) else a, tree)
        return jax.tree.map(lambda a: jax.device_put(a, where(what, a.shape)), here)

    def programmed(self, graph: nnx.GraphDef) -> Program:
        how = self.recipe
        functions = {"eval": self.evaluation, "varlen": self.summed_loss, "pair": self.plain_loss, "generate": how.decoding}
        function = functions.get(self.case.scenario, self.training_step)(graph)
        return Program(function, how.precision, how.eager, dict(how.compiler_options), **how.jit_options)

    def evaluation(self, graph: nnx.GraphDef) -> Callable[..., tuple[Array, Tree, Any]]:
        """(parameters, statistics, constants, x) -> logits, the statistics if they change, and the graph if it is kept.

        A graph that is kept is the backward function with the residuals it holds. The parameters among them are left out
        (`args_res`, to be handed back before use): an executable can only return copies, and a graph refers to the weights.
        """

        def forward(params: Tree, stats: Tree, constants: Tree, x: Array) -> tuple[Array, Tree]:
            model = merged(graph, params, stats, constants)
            logits = called(model, x)
            return logits, nnx.to_pure_dict(nnx.state(model, nnx.BatchStat)) if self.recipe.training else None

        def with_graph(params: Tree, stats: Tree, constants: Tree, x: Array) -> tuple[Array, Tree, Any]:
            logits, backward, stats = jax.vjp(lambda p: forward(p, stats, constants, x), params, has_aux=True)
            backward.args_res = [None] * len(backward.args_res)  # type: ignore[attr-defined]  # jax.vjp hides its type
            return logits, stats, backward

        return with_graph if self.recipe.keeps_graph else lambda *arguments: (*forward(*arguments), None)

    def plain_loss(self, graph: nnx.GraphDef) -> Callable[..., Array]:
        """(parameters, statistics, constants, x, y) -> loss."""
        return lambda params, stats, c, x, y: self.model_module.loss(called(merged(graph, params, stats, c), x), y)

    def summed_loss(self, graph: nnx.GraphDef) -> Callable[..., Array]:
        return lambda params, stats, c, x, y: self.model_module.loss_sum(merged(graph, params, stats, c)(x), y)

    def gradient(self, graph: nnx.GraphDef) -> Gradient:
        def objective(params: Tree, stats: Tree, constants: Tree, x: Array, y: Array) -> tuple[Array, tuple[Array, Tree]]:
            model = merged(graph, params, stats, constants)
            loss = self.recipe.loss(called(model, x), x, y, constants)
            scaled = loss * constants["scale"] if "scale" in constants else loss
            return scaled, (loss, nnx.to_pure_dict(nnx.state(model, nnx.BatchStat)))

        def gradient(*arguments: Any) -> tuple[tuple[Array, Tree], Tree]:
            (_, loss_and_statistics), grads = jax.value_and_grad(objective, has_aux=True)(*arguments)
            return loss_and_statistics, grads

        inside = self.micro_batches // self.recipe.calls
        return accumulated(gradient, inside) if inside > 1 else gradient

    def training_step(self, graph: nnx.GraphDef) -> Callable[..., tuple[Tree, Tree, Tree, Array]]:
        """(parameters, statistics, optimizer state, constants, x, y) -> the first three, updated, and the loss before."""
        gradient = self.gradient(graph)

        def step(params: Tree, stats: Tree, state: Tree, constants: Tree, x: Array, y: Array) -> tuple[Tree, Tree, Tree, Array]:
            (loss, stats), grads = gradient(params, stats, constants | self.recipe.from_state(state), x, y)
            updates, state = self.recipe.optimizer.update(grads, state, params)
            params = optax.apply_updates(params, updates)
            return *(self.constrained(*each) for each in (("params", params), ("stats", stats), ("state", state))), loss

        return step

    def constrained(self, what: str, tree: Tree) -> Tree:
        """Inside the step: over several devices, results lie where the arguments did."""
        if (where := self.recipe.sharding) is None:
            return tree
        return jax.tree.map(lambda a: jax.lax.with_sharding_constraint(a, where(what, a.shape)), tree)

    def arguments(self) -> tuple[Any, ...]:
        if self.case.stage.trains:
            return self.params, self.stats, self.optimizer_state, self.constants, *self.inputs
        if self.case.scenario == "generate":
            return self.recipe.generating()
        if self.case.scenario == "eval":
            return self.params, self.stats, self.constants, self.inputs[0]
        return self.params, self.stats, self.constants, *self.inputs

    def one_step(self) -> None:
        self.recipe.step()

    def train_step(self) -> None:
        self.inputs = self.next_batch()
        self.output = 0.0
        for x, y in self.batches():
            self.params, self.stats, self.optimizer_state, loss = self.program(
                self.params, self.stats, self.optimizer_state, self.constants, x, y
            )
            self.output = loss if self.recipe.calls == 1 else self.output + loss / self.recipe.calls

    def batches(self) -> Iterator[Batch]:
        """The batch, in as many parts as the step has calls."""
        x, y = self.inputs
        return zip(split(x, self.recipe.calls), split(y, self.recipe.calls))

    def eval_step(self) -> None:
        self.release()
        self.output, stats, self.kept = self.program(*self.arguments())
        self.stats = stats or self.stats

    def stream_step(self) -> None:
        """Mean loss over the tokens that are no padding."""
        total = sum(self.program(self.params, self.stats, self.constants, x, y) for x, y in self.stream)
        self.output = total / self.case.work

    def pair_step(self) -> None:
        self.output = 0.0
        for params, stats in self.recipe.models():
            self.output += self.program(params, stats, self.constants, *self.inputs) / 2

    def release(self) -> None:
        self.output = None  # the loss; in eval the logits
        self.kept = None

    def synchronize(self) -> None:
        jax.block_until_ready((self.output, self.params))

    def loss(self) -> float:
        if self.case.scenario != "eval":
            return float(self.output)
        return float(jax.jit(self.model_module.loss)(self.output, self.inputs[1]))

    def logits(self) -> np.ndarray:
        if self.case.scenario == "generate":
            return self.recipe.decoded()
        logits = as_rows(self.output, self.recipe.values).astype(np.float64)
        volumes = logits.ndim == np.ndim(next(leaves(self.inputs[0]))) > 3
        return np.moveaxis(logits, -1, 1) if volumes else logits

    def weights(self) -> Iterator[tuple[str, np.ndarray]]:
        for path, value in jax.tree_util.tree_leaves_with_path((self.params, self.constants["frozen"], self.stats)):
            yield from self.names.unload(keys(path), self.recipe.values(value))
        for path, value in jax.tree_util.tree_leaves_with_path(self.constants.get("teacher", ())):
            for name, array in self.teacher_names.unload(keys(path), np.asarray(value)):
                yield f"teacher.{name}", array

    def states(self) -> Iterator[State]:
        return named_states(self.optimizer_state, self.params, self.names, self.recipe.values)

    def restore(self) -> None:
        """Arrays of the same shapes: the executable takes them as it took those of the first step."""
        parts = self.initial(self.config, self.recipe.training)
        self.params, self.stats = self.placed("params", parts.params), self.placed("stats", parts.stats)
        self.constants["frozen"] = self.placed("frozen", parts.frozen)
        self.optimizer_state = self.first_state() if self.case.stage.trains else None

    def observe(self) -> Evidence:
        seen = Observed(self.stats, (self.params, self.stats, self.optimizer_state))
        self.one_step()
        self.synchronize()
        weights = self.params, self.constants["frozen"]
        return counted(self.program, self.jaxprs()) | seen.evidence(self.stats, weights, self.optimizer_state, self.kept)

    def jaxprs(self) -> list[ClosedJaxpr]:
        """The programs of the step as they were traced."""
        traced = list(self.program.traced.values()) or [self.program.trace(*self.arguments())]
        return [t.jaxpr for t in traced]

    def narrow_results(self) -> str:
        narrow = (jnp.float32, jnp.bfloat16, jnp.float16)
        for jaxpr in self.jaxprs():
            for equation in equations(jaxpr):
                for variable in equation.outvars:
                    if getattr(variable.aval, "dtype", None) in narrow:
                        return f"{equation.primitive.name} in {variable.aval.dtype}"
        return ""

    def count_batched_matmuls(self) -> int:
        return with_batch(self.jaxprs())

    def otherwise(self, **changes: Any) -> Any:
        """The same training step, traced with some parts of the recipe changed, to compare with."""
        other = copy.copy(self)
        other.recipe = replace(self.recipe, **changes)
        parts = other.split(other.abstract(self.config, self.recipe.training))
        state = jax.eval_shape(other.recipe.optimizer.init, parts.params)
        constants = self.constants | {"frozen": parts.frozen}
        batch = next(self.batches())  # of one call, as the step's own
        return other.programmed(parts.graph).trace(parts.params, parts.stats, state, constants, *batch)

    def allocate(self, size: int) -> Array:
        return jnp.ones(size, jnp.uint8)

    def parameter_count(self) -> int:
        return self.count

    def live_bytes(self) -> int:
        return unique_bytes([a for a in jax.live_arrays() if a.sharding.memory_kind != "pinned_host"])

    def read_peaks(self) -> dict[str, int]:
        """The allocator's peak never resets. In a memory worker the programs come from the cache that the time worker filled,
        untuned anew, so that no scratch of the autotuner is in it; `counters` tells whether that was so."""
        plan = {"compiler.plan": self.program.plan + self.beside()} if self.program.plan else {}
        return allocator_peaks() | plan

    def read_counters(self) -> dict[str, int]:
        return allocator_counters()

    def statistics(self) -> dict[str, int]:
        return statistics()

    def beside(self) -> int:
        """Bytes of the arrays that are alive during a step but not in its plan: batches to come, other models."""
        planned = buffers((self.arguments(), self.output, self.kept, self.inputs))
        if self.recipe.calls > 1:  # the plan has a part of the batch
            planned -= buffers(self.inputs)
        return unique_bytes([a for a in jax.live_arrays() if buffers(a).isdisjoint(planned)])

    def compile(self) -> None:
        """Ahead of time for the present inputs. What is not a single forward pass is also run once: that takes several MiB for
        the process, whatever the batch."""
        if self.case.scenario == "eval":
            self.program.prepare(*self.arguments())
        else:
            self.step()
            self.synchronize()
            self.release()

    def limit_memory(self, budget: int | None) -> bool:
        """On a GPU the share of the card is taken from the environment at import, and stays."""
        return super().limit_memory(budget) or (self.device() != "cpu" and "XLA_PYTHON_CLIENT_MEM_FRACTION" in os.environ)

    def sample_losses(self) -> list[float]:
        """Sliced by NumPy: a slice by JAX would be another program to compile."""
        self.output, self.inputs = np.asarray(self.output), (self.inputs[0], np.asarray(self.inputs[1]))
        return super().sample_losses()

    def versions(self) -> dict[str, str]:
        """The plug-ins are those of CUDA 12 and 13; on a GPU XLA also says what it was built for."""
        plugins = [f"jax-cuda{n}-plugin" for n in (12, 13) if find_spec(f"jax_cuda{n}_plugin")]
        package_versions = {name: version(name) for name in ("jax", "jaxlib", "flax", "optax", "numpy", *plugins)}
        backend = get_backend()
        return (
            package_versions
            if backend.platform == "cpu"
            else package_versions | {"xla": " ".join(backend.platform_version.split())}
        )

    def device(self) -> str:
        device = jax.devices()[0]
        return "cpu" if device.platform == "cpu" else device.device_kind


def as_rows(output: Any, values: Callable[[Any], np.ndarray]) -> np.ndarray:
    """The output; of one with several arrays all numbers of each sample side by side."""
    if isinstance(output, jax.Array):
        return values(output)
    arrays = [values(a) for a in leaves(output) if a.ndim and jnp.issubdtype(a.dtype, jnp.floating)]
    rows = max(map(len, arrays))
    return np.concatenate([a.reshape(rows, -1) for a in arrays if len(a) == rows], 1)
