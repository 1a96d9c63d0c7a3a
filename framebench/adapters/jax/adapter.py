"""JAX with Flax NNX and optax: one jitted, functional step over plain dictionaries of arrays.

The step is traced, lowered and compiled ahead of time inside the first `step()`, so that the first
step's time contains all three and every later one calls the executable. A training step donates the
arrays that it updates, so that results are written over them, as in the training loops of
google/flax/examples (lm1b, gemma).
"""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array
from jax.extend.backend import get_backend
from jax.extend.core import ClosedJaxpr
from jax.sharding import SingleDeviceSharding

from framebench.adapters.base import (
    Adapter,
    Batch,
    Evidence,
    State,
    Switch,
    join_output,
)
from framebench.adapters.holders import FindStorages
from framebench.adapters.jax import sums
from framebench.adapters.jax.accumulation import Gradient, Tree, average_over_micro_batches
from framebench.adapters.jax.parts import JaxRecipe
from framebench.adapters.jax.program import (
    StepProgram,
    count_batched_matmuls,
    count_bytes,
    count_dtypes,
    count_in_program,
    find_addresses,
    list_shards,
    walk_equations,
)
from framebench.adapters.jax.states import copy_shared, list_keys, read_states
from framebench.adapters.parts import PartOptions
from framebench.models import flax_weights
from framebench.models.spec import USER_MODEL, Optimizer, load_workload
from framebench.suite.case import Case
from framebench.suite.trees import call_with, iterate_arrays, map_tree

# operations that draw random numbers; a key alone, as Linen makes one for each module, draws none
DRAWING = {"random_bits", "random_gamma", "rng_bit_generator", "rng_uniform"}
NARROWER_THAN_FLOAT64 = (jnp.float32, jnp.bfloat16, jnp.float16)
# our names of what Device.memory_stats() counts
PEAKS = {"allocator.in_use": "peak_bytes_in_use", "allocator.reserved": "peak_pool_bytes"}
COUNTERS = {
    "allocations": "num_allocs",
    "largest_allocation_bytes": "largest_alloc_size",
    "limit_bytes": "bytes_limit",
}
CACHE_EVENTS = {
    "programs_from_cache": "/jax/compilation_cache/cache_hits",
    "programs_compiled": "/jax/compilation_cache/cache_misses",
}
# how often each event of JAX's monitoring occurred in this process
EVENT_COUNTS: Counter[str] = Counter()
jax.monitoring.register_event_listener(lambda event, **_: EVENT_COUNTS.update([event]))


def make_optimizer(o: Optimizer, **options: Any) -> optax.GradientTransformation:
    """Return the optimizer of the user's file, or optax's with the workload's settings."""
    if o.name == USER_MODEL:
        return load_workload(USER_MODEL).import_model("jax").optimizer()
    if o.name == "sgd":
        return optax.sgd(o.lr, o.momentum, **options)
    if o.name == "adafactor":
        # as in PyTorch: means are kept of matrices of any size, and the decay is multiplied by lr
        decay = o.lr * o.weight_decay
        return optax.adafactor(
            o.lr,
            min_dim_size_to_factor=1,
            weight_decay_rate=decay,
            eps=o.eps**2,
            **options,
        )
    return optax.adamw(o.lr, *o.betas, eps=o.eps, weight_decay=o.weight_decay, **options)


class ModelParts(NamedTuple):
    """A model's graph, and its arrays in nested dictionaries."""

    graph: nnx.GraphDef
    params: Tree  # trained weights
    frozen: Tree  # weights that are not trained
    stats: Tree  # running statistics
    draws: Tree  # states of random numbers


def merge_model(graph: nnx.GraphDef, params: Tree, stats: Tree, constants: Tree) -> Any:
    """Return the model with these arrays; frozen weights are among the constants."""
    return nnx.merge(graph, params, constants["frozen"], stats, constants.get("draws", {}))


def run_model(
    graph: nnx.GraphDef, params: Tree, stats: Tree, constants: Tree, x: Tree
) -> tuple[Any, Tree]:
    """Return the output of the model with these arrays, and its running statistics afterwards."""
    model = merge_model(graph, params, stats, constants)
    output = call_with(model, x)
    return output, nnx.to_pure_dict(nnx.state(model, nnx.BatchStat))


class JaxAdapter(Adapter):
    """One case in JAX. Switches set the parts of `recipe`."""

    biased_variance = True
    # a function whose first argument is the adapter
    repeat_with_exact_sums = sums.repeat_with_exact_sums
    teacher_names: flax_weights.CanonicalNames  # set by the strategy that has a teacher

    def __init__(self, case: Case, switches: Mapping[str, Switch]) -> None:
        """Set the parts of the recipe that switches may change, before anything is built."""
        super().__init__(case, switches)
        self.constants: dict[str, Tree] = {}  # arrays that a step reads and never changes
        self.residuals: Any = None  # the residuals of an evaluation that keeps its graph
        steps = {"eval": self.eval_step, "varlen": self.stream_step, "pair": self.pair_step}
        self.recipe = JaxRecipe(
            self.ledger,
            step=steps.get(case.scenario, self.train_step),
            optimizer=make_optimizer(case.optimizer),
            loss=self.compute_loss,
            training=case.scenario_spec.trains,
            model_options=PartOptions(self.ledger, "model option"),
            jit_options=PartOptions(self.ledger, "option of jax.jit"),
            compiler_options=PartOptions(self.ledger, "compiler option"),
        )
        if case.scenario_spec.trains:
            self.recipe.jit_options["donate_argnums"] = (0, 1, 2)

    def compute_loss(self, output: Any, x: Tree, y: Tree, constants: Tree) -> jax.Array:
        """Return the loss of an output.

        It is the default of `recipe.loss`. Strategies that replace it may need the `constants`.
        """
        loss: jax.Array = self.model_module.loss(output, self.find_target((x, y)))
        return loss

    def build(self) -> None:
        # before the switches run, which make arrays
        jax.config.update("jax_enable_x64", self.float64)
        super().build()

    def make(self) -> None:
        if self.float64:
            self.widen()
        parts = self.load_canonical(self.config, self.recipe.training)
        self.graph = parts.graph
        self.names = self.make_names(self.config)
        if parts.draws:
            # the same states in each step, so that every strategy draws the same numbers
            self.constants["draws"] = self.place("draws", self.model_module.read_rng_states())
        self.place_model(parts)
        self.weight_count = sum(a.size for a in jax.tree.leaves((parts.params, parts.frozen)))
        self.put_inputs()
        if self.case.scenario == "varlen":  # the program is traced with the largest batch
            self.inputs = max(self.stream, key=lambda batch: batch[0].size)
        self.program = self.make_program(parts.graph)
        self.release()

    def widen(self) -> None:
        """Compute with weights, inputs and attention in float64."""
        self.recipe.dtype = np.float64
        # the library's attention has its softmax in float32; one that a strategy has set stays
        options = self.recipe.model_options
        if hasattr(self.model_module, "attend_plainly") and "attend" not in options:
            options["attend"] = self.model_module.attend_plainly

    def place_model(self, parts: ModelParts) -> None:
        """Put a model's arrays on the device, with the optimizer's initial state for them."""
        self.params = self.place("params", parts.params)
        self.stats = self.place("stats", parts.stats)
        self.constants["frozen"] = self.place("frozen", parts.frozen)
        self.optimizer_state: Any = None
        if self.case.scenario_spec.trains:
            self.optimizer_state = self.init_optimizer_state()

    def init_optimizer_state(self) -> Tree:
        """Return the optimizer's initial state for the current weights."""
        if self.trains_by_file():
            model = merge_model(self.graph, self.params, self.stats, self.constants)
            step_optimizer = self.model_module.make_step_optimizer(model, self.recipe.optimizer)
            state = self.model_module.read_optimizer(step_optimizer)
        else:
            state = self.recipe.optimizer.init(self.params)
        return self.place("state", copy_shared(state, self.params))

    @property
    def platform(self) -> str:
        """Return the platform that the step is compiled for: cpu, gpu or tpu."""
        return jax.default_backend()

    @property
    def devices(self) -> list[jax.Device]:
        """Return the devices that the step runs on, one for each rank."""
        return jax.devices()[: self.case.ranks]

    def make_sharding(self, memory: str | None = None) -> Any:
        """Return the sharding that puts arrays on the first device, inside and outside the step.

        `memory` is a kind of memory of the device; by default its usual memory.
        """
        return SingleDeviceSharding(self.devices[0], memory_kind=memory)

    def load_canonical(self, config: Any, training: bool) -> ModelParts:
        """Return a model with the canonical weights, in NumPy arrays."""
        weights = self.case.weights if config == self.config else self.workload.make_weights(config)
        return self.load(config, weights, training)

    def load(self, config: Any, weights: dict[str, np.ndarray], training: bool) -> ModelParts:
        """Return a model with these weights, in NumPy arrays."""
        model = self.make_abstract(config, training)
        flax_weights.load_weights(model, weights, self.recipe.dtype)
        return self.take_apart(model)

    def make_names(self, config: Any) -> flax_weights.CanonicalNames:
        """Return the canonical names of a model's arrays."""
        names = [param.name for param in self.workload.params(config)]
        return flax_weights.CanonicalNames(self.make_abstract(config, training=False), names)

    def make_abstract(self, config: Any, training: bool) -> nnx.Module:
        """Return the model in the right mode, with shapes in the place of arrays.

        Flax's initialisers never run.
        """
        dtype = self.recipe.dtype
        options = {"dtype": dtype, "param_dtype": dtype, **self.recipe.model_options}
        if self.float64:
            # a lower precision leaves float64 alone, as PyTorch's autocast does
            options["dtype"] = dtype
        model = nnx.eval_shape(lambda: self.model_module.build(config, **options))
        if training:
            model.train()
        else:
            model.eval()
        return model

    def take_apart(self, model: nnx.Module) -> ModelParts:
        """Return a model's graph, and its trained, frozen and other arrays."""

        def is_trained(path: tuple[Any, ...], _: Any) -> bool:
            return self.recipe.is_trained(flax_weights.name_leaf(path))

        trained = nnx.All(nnx.Param, is_trained)
        graph, *states = nnx.split(model, trained, nnx.Param, nnx.BatchStat, ...)
        return ModelParts(graph, *map(nnx.to_pure_dict, states))

    def put(self, x: Any, y: Any) -> Batch:
        if not self.is_user_model and x.dtype == np.float32:
            # images and volumes become channels last; tokens stay as they are
            x = np.ascontiguousarray(np.moveaxis(x, 1, -1), self.recipe.dtype)
        x = self.place("batch", map_tree(self.to_array, x))
        y = self.place("batch", map_tree(self.to_array, y))
        return x, y

    def to_array(self, array: Any) -> Array:
        """Return an array of a batch in JAX. In float64 a user's numbers get this type, too.

        Otherwise what a file computes of its inputs before any weight would stay in float32.
        """
        if self.float64 and self.is_user_model and array.dtype == np.float32:
            array = array.astype(np.float64)
        return jnp.asarray(array)

    def place(self, kind: str, tree: Tree) -> Tree:
        """Return arrays on the device, or divided among several devices by the strategy.

        `kind` is that of the arrays, such as `params`, by which the strategy divides them.
        """
        sharding = self.recipe.sharding
        if sharding is None:
            return jax.device_put(tree)

        def place_array(array: Any) -> Array:
            if getattr(array, "is_fully_addressable", True):
                # as a NumPy array: JAX 0.10 could not take a count of steps apart that was put on
                # several processes as a JAX array
                array = np.asarray(array)
            return jax.device_put(array, sharding(kind, array.shape))

        return jax.tree.map(place_array, tree)

    def make_program(self, graph: nnx.GraphDef) -> StepProgram:
        """Return the program of the case's scenario, not yet compiled."""
        recipe = self.recipe
        makers = {
            "eval": self.make_evaluation,
            "varlen": self.make_loss,
            "pair": self.make_loss,
            "generate": recipe.decoder,
        }
        function = makers.get(self.case.scenario, self.make_training_step)(graph)
        options = dict(recipe.compiler_options)
        return StepProgram(function, recipe.precision, recipe.eager, options, **recipe.jit_options)

    def make_evaluation(self, graph: nnx.GraphDef) -> Callable[..., Any]:
        """Return the function (parameters, statistics, constants, x) -> logits, statistics, graph.

        Statistics are None unless the model is in training mode. The graph is None unless the
        strategy keeps it: then it is the backward function of `jax.vjp` with its residuals. The
        parameters among the residuals (`args_res`) are left out: a compiled program could only
        return copies of them, while PyTorch's graph refers to the weights themselves.
        """

        def evaluate(params: Tree, *others: Any) -> tuple[Array, Tree, Any]:
            """Return logits, new statistics or None, and the backward function or None."""

            def forward(params: Tree) -> tuple[Array, Tree]:
                return run_model(graph, params, *others)

            backward: Any = None
            if self.recipe.keeps_graph:
                logits, backward, stats = jax.vjp(forward, params, has_aux=True)
                backward.args_res = [None] * len(backward.args_res)
            else:
                logits, stats = forward(params)
            return logits, stats if self.recipe.training else None, backward

        return evaluate

    def make_loss(self, graph: nnx.GraphDef) -> Callable[..., Any]:
        """Return the function (parameters, statistics, constants, x, y) -> loss.

        In `varlen` it is the sum of the losses of all tokens.
        """
        module = self.model_module
        compute_loss = module.loss_sum if self.case.scenario == "varlen" else module.loss

        def loss(params: Tree, stats: Tree, constants: Tree, x: Array, y: Array) -> Array:
            output, _ = run_model(graph, params, stats, constants, x)
            return compute_loss(output, y)

        return loss

    def make_gradient(self, graph: nnx.GraphDef) -> Gradient:
        """Return the function that computes loss, statistics and gradient in one call of a step."""

        def objective(
            params: Tree, stats: Tree, constants: Tree, x: Array, y: Array
        ) -> tuple[Array, tuple[Array, Tree]]:
            output, stats = run_model(graph, params, stats, constants, x)
            loss = self.recipe.loss(output, x, y, constants)
            scaled_loss = loss * constants["scale"] if "scale" in constants else loss
            return scaled_loss, (loss, stats)

        def gradient(*arguments: Any) -> tuple[tuple[Array, Tree], Tree]:
            loss_and_gradient = jax.value_and_grad(objective, has_aux=True)
            (_, loss_and_stats), grads = loss_and_gradient(*arguments)
            return loss_and_stats, grads

        parts_per_call = self.micro_batches // self.recipe.calls
        if parts_per_call == 1:
            return gradient
        samples_per_call = self.case.batch // self.recipe.calls
        return average_over_micro_batches(gradient, parts_per_call, samples_per_call)

    def make_training_step(self, graph: nnx.GraphDef) -> Callable[..., Any]:
        """Return the function that makes a training step.

        It maps (parameters, statistics, optimizer state, constants, x, y) to the first three,
        updated, and the loss before the update.
        """
        if self.trains_by_file():
            return self.make_file_step(graph)
        gradient = self.make_gradient(graph)

        def step(
            params: Tree, stats: Tree, state: Tree, constants: Tree, x: Array, y: Array
        ) -> tuple[Tree, Tree, Tree, Array]:
            """Compute gradients and apply the optimizer's updates to the parameters."""
            constants = constants | self.recipe.constants_from_state(state)
            (loss, stats), grads = gradient(params, stats, constants, x, y)
            updates, state = self.recipe.optimizer.update(grads, state, params)
            params = optax.apply_updates(params, updates)
            params = self.constrain("params", params)
            stats = self.constrain("stats", stats)
            state = self.constrain("state", state)
            return params, stats, state, loss

        return step

    def make_file_step(self, graph: nnx.GraphDef) -> Callable[..., Any]:
        """Return the function of `make_training_step` for the step of a user's file.

        That step changes a model and an optimizer in place. They are therefore built from the
        arguments before it, and taken apart after it.
        """
        module = self.model_module

        def step(
            params: Tree, stats: Tree, state: Tree, constants: Tree, x: Tree, y: Tree
        ) -> tuple[Tree, Tree, Tree, Array]:
            model = merge_model(graph, params, stats, constants)
            optimizer = module.make_step_optimizer(model, self.recipe.optimizer)
            module.write_optimizer(optimizer, state)
            loss = module.run_step(model, (x, y), optimizer)
            updated = self.take_apart(model)
            return updated.params, updated.stats, module.read_optimizer(optimizer), loss

        return step

    def constrain(self, kind: str, tree: Tree) -> Tree:
        """Keep results, inside the compiled step, on the devices where its arguments are."""
        sharding = self.recipe.sharding
        if sharding is None:
            return tree

        def constrain_array(array: Array) -> Array:
            return jax.lax.with_sharding_constraint(array, sharding(kind, array.shape))

        return jax.tree.map(constrain_array, tree)

    def list_arguments(self) -> tuple[Any, ...]:
        """Return the arguments of the program, for the current inputs."""
        if self.case.scenario_spec.trains:
            return self.params, self.stats, self.optimizer_state, self.constants, *self.inputs
        if self.case.scenario == "generate":
            return self.recipe.decoder_arguments()
        if self.case.scenario == "eval":
            return self.params, self.stats, self.constants, self.inputs[0]
        return self.params, self.stats, self.constants, *self.inputs

    def one_step(self) -> None:
        self.recipe.step()

    def train_step(self) -> None:
        """Update the weights, in one call of the program or several."""
        self.inputs = self.next_batch()
        self.output = 0.0
        for x, y in self.cut_batch(self.inputs, self.recipe.calls):
            self.params, self.stats, self.optimizer_state, loss = self.program(
                self.params, self.stats, self.optimizer_state, self.constants, x, y
            )
            if self.recipe.calls == 1:
                self.output = loss
            else:
                self.output += loss / self.recipe.calls

    def eval_step(self) -> None:
        """Compute the logits of the batch."""
        self.release()
        self.output, stats, self.residuals = self.program(*self.list_arguments())
        self.stats = stats or self.stats

    def stream_step(self) -> None:
        """Compute the mean loss over the tokens, without those of padding."""
        total: Any = 0
        for x, y in self.stream:
            total += self.program(self.params, self.stats, self.constants, x, y)
        self.output = total / self.case.work

    def pair_step(self) -> None:
        """Compute the mean loss of two models."""
        self.output = 0.0
        for params, stats in self.recipe.models():
            self.output += self.program(params, stats, self.constants, *self.inputs) / 2

    def release(self) -> None:
        self.output = None
        self.residuals = None

    def synchronize(self) -> None:
        jax.block_until_ready((self.output, self.params))

    def loss(self) -> float:
        if self.case.scenario != "eval":
            return float(self.output)
        target = self.find_target(self.inputs)
        return float(jax.jit(self.model_module.loss)(self.output, target))

    def logits(self) -> np.ndarray:
        if self.case.scenario == "generate":
            return self.recipe.read_logits()
        logits = join_output(self.output, is_inexact, self.recipe.to_numpy)
        input_axes = np.ndim(next(iterate_arrays(self.inputs[0])))
        if logits.ndim > 3 and logits.ndim == input_axes:  # of volumes: JAX has channels last
            return np.moveaxis(logits, -1, 1)
        return logits

    def weights(self) -> Iterator[tuple[str, np.ndarray]]:
        model = (self.params, self.constants["frozen"], self.stats)
        for path, value in jax.tree_util.tree_leaves_with_path(model):
            yield from self.names.restore_leaf(list_keys(path), self.recipe.to_numpy(value))
        teacher = self.constants.get("teacher", ())
        for path, value in jax.tree_util.tree_leaves_with_path(teacher):
            for name, array in self.teacher_names.restore_leaf(list_keys(path), np.asarray(value)):
                yield f"teacher.{name}", array

    def states(self) -> Iterator[State]:
        rename = self.model_module.rename_weight if self.is_user_model else None
        return read_states(
            self.optimizer_state, self.params, self.names, self.recipe.to_numpy, rename
        )

    def restore(self) -> None:
        # arrays of the same shapes: the executable takes them as it took those of the first step
        self.place_model(self.load_canonical(self.config, self.recipe.training))

    def observe(self) -> Evidence:
        stats_before = [np.array(array) for array in jax.tree.leaves(self.stats)]
        handed_over = jax.tree.leaves((self.params, self.stats, self.optimizer_state))
        self.one_step()
        self.synchronize()
        changed = 0
        for before, after in zip(stats_before, jax.tree.leaves(self.stats)):
            if not np.array_equal(before, after):
                changed += 1
        return {
            **count_in_program(self.program, self.list_jaxprs()),
            "residuals": len(jax.tree.leaves(self.residuals)),
            "weight_dtypes": count_dtypes((self.params, self.constants["frozen"])),
            "state_dtypes": count_dtypes(self.optimizer_state),
            "buffers": len(stats_before),
            "buffers_changed": changed,
            "arguments_deleted": sum(array.is_deleted() for array in handed_over),
        }

    def list_jaxprs(self) -> list[ClosedJaxpr]:
        """Return the programs of the step as they were traced."""
        traced = list(self.program.traced.values())
        if not traced:  # an eager step has traced none
            traced = [self.program.trace(*self.list_arguments())]
        return [each.jaxpr for each in traced]

    def keeps_drawing(self) -> bool:
        names = {equation.primitive.name for equation in walk_equations(*self.list_jaxprs())}
        return not names.isdisjoint(DRAWING)

    def find_narrow_result(self) -> str:
        for equation in walk_equations(*self.list_jaxprs()):
            for variable in equation.outvars:
                is_narrow = getattr(variable.aval, "dtype", None) in NARROWER_THAN_FLOAT64
                if is_narrow and variable.aval.ndim:  # scalars are such as a scheduled rate
                    return f"{equation.primitive.name} in {variable.aval.dtype}"
        return ""

    def count_batched_matmuls(self) -> int:
        return count_batched_matmuls(*self.list_jaxprs())

    def trace_with(self, **changes: Any) -> Any:
        """Return the trace of the same training step with some parts of the recipe changed.

        Proofs compare it with the step that was measured.
        """
        changed_adapter = copy.copy(self)
        changed_adapter.recipe = replace(self.recipe, **changes)
        model = changed_adapter.make_abstract(self.config, self.recipe.training)
        parts = changed_adapter.take_apart(model)
        if self.trains_by_file():
            state = jax.eval_shape(lambda: self.optimizer_state)
        else:
            state = jax.eval_shape(changed_adapter.recipe.optimizer.init, parts.params)
        constants = self.constants | {"frozen": parts.frozen}
        first_call, *_ = self.cut_batch(self.inputs, self.recipe.calls)
        program = changed_adapter.make_program(parts.graph)
        return program.trace(parts.params, parts.stats, state, constants, *first_call)

    def allocate(self, size: int) -> Array:
        return jnp.ones(size, jnp.uint8)

    def parameter_count(self) -> int:
        return self.weight_count

    def live_bytes(self) -> int:
        on_device = [a for a in jax.live_arrays() if a.sharding.memory_kind != "pinned_host"]
        # globals of a user's file may hold some of them, which `untracked_bytes` counts
        held_by_globals = sum(self.measure_held_arrays().values())
        return count_bytes(on_device) - held_by_globals

    def make_array_finder(self) -> tuple[FindStorages, set[int]]:
        storages_by_array = {}
        for array in jax.live_arrays():
            shards = list_shards(array)
            storages_by_array[id(array)] = {s.unsafe_buffer_pointer(): s.nbytes for s in shards}
        model = self.params, self.stats, self.optimizer_state, self.constants
        known = find_addresses((model, self.inputs, self.output, self.residuals))
        return (lambda instance: storages_by_array.get(id(instance), {})), known

    def read_peaks(self) -> dict[str, int]:
        # The allocator's peak never resets. In a memory worker the programs come from the cache
        # that the time worker filled and are not tuned again, so the autotuner's scratch memory is
        # not in it. `read_counters` shows whether that was so.
        counts = self.read_allocator()
        peaks = {name: counts[key] for name, key in PEAKS.items() if key in counts}
        if self.program.plan:
            peaks["compiler.plan"] = self.program.plan + self.count_unplanned_bytes()
        return peaks

    def read_counters(self) -> dict[str, int]:
        counts = self.read_allocator()
        counters = {name: counts[key] for name, key in COUNTERS.items() if key in counts}
        if counters:  # with them the cache's hits and misses, which say whether XLA tuned again
            counters |= {name: EVENT_COUNTS[event] for name, event in CACHE_EVENTS.items()}
        return counters

    def read_allocator(self) -> dict[str, int]:
        """Return the counters of the device's allocator.

        It is empty on the CPU and where the allocator has no pool, where JAX gives None.
        """
        return jax.local_devices()[0].memory_stats() or {}

    def count_unplanned_bytes(self) -> int:
        """Return the bytes of the arrays that are alive during a step but not in its plan.

        These are the batches of later steps, and other models. What globals of a user's file hold
        is in `untracked_bytes`.
        """
        planned = find_addresses((self.list_arguments(), self.output, self.residuals, self.inputs))
        if self.recipe.calls > 1:  # the plan has a part of the batch
            planned -= find_addresses(self.inputs)
        others = [a for a in jax.live_arrays() if find_addresses(a).isdisjoint(planned)]
        return count_bytes(others) - sum(self.measure_held_arrays().values())

    def compile(self) -> None:
        if self.case.scenario == "eval":
            self.program.prepare(*self.list_arguments())
            return
        # also run once: the first run takes several MiB for the process, whatever the batch
        self.step()
        self.synchronize()
        self.release()

    def limit_memory(self, budget: int | None) -> bool:
        if super().limit_memory(budget):
            return True
        # on a GPU JAX reads its share of the memory from this variable, once, when it is imported
        return self.device() != "cpu" and "XLA_PYTHON_CLIENT_MEM_FRACTION" in os.environ

    def sample_losses(self) -> list[float]:
        # sliced by NumPy: a slice by JAX would be another program to compile
        self.output = np.asarray(self.output)
        inputs, targets = self.inputs
        self.inputs = (inputs, np.asarray(targets))
        return super().sample_losses()

    def versions(self) -> dict[str, str]:
        cuda_plugins = [f"jax-cuda{n}-plugin" for n in (12, 13) if find_spec(f"jax_cuda{n}_plugin")]
        packages = ("jax", "jaxlib", "flax", "optax", "numpy", *cuda_plugins)
        versions = {name: version(name) for name in packages}
        backend = get_backend()
        if backend.platform != "cpu":  # it says what XLA was built for
            versions["xla"] = " ".join(backend.platform_version.split())
        return versions

    def device(self) -> str:
        device = jax.devices()[0]
        return "cpu" if device.platform == "cpu" else device.device_kind


def is_inexact(array: Any) -> bool:
    """Return whether something is an array of floating-point or complex numbers."""
    return isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jnp.inexact)
