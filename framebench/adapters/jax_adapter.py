"""JAX with Flax NNX and optax: one jitted, functional step over plain dictionaries of arrays.

The step is traced, lowered and compiled ahead of time inside the first `step()`, so that the first step's time contains
all three and every later one calls the executable. Nothing is donated: donation changes memory and is not a baseline.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array, lax
from jax.extend.core import ClosedJaxpr, Jaxpr

from framebench.adapters.base import Adapter, Effect
from framebench.cases import Case
from models import flax_weights
from models.spec import Optimizer

Tree = Any  # nested dictionaries of arrays
# XLA:CPU drops the barriers that jax.checkpoint sets before it removes common subexpressions, and so merges recomputations
# with the originals; no memory is saved. Without that pass the barriers last. A loop needs none; XLA:GPU was not tried.
KEEP_BARRIERS = {"xla_disable_hlo_passes": "cse_barrier_expander"}
PRODUCTS = ("dot_general", "conv_general_dilated")
Gradient = Callable[[Tree, Tree, Array, Array], tuple[tuple[Array, Tree], Tree]]  # -> (loss, statistics), gradient


def make(case: Case) -> JaxAdapter:
    return JaxAdapter(case)


def optimizer(o: Optimizer) -> optax.GradientTransformation:
    if o.name == "sgd":
        return optax.sgd(o.lr, o.momentum)
    return optax.adamw(o.lr, *o.betas, eps=o.eps, weight_decay=o.weight_decay)


def options(case: Case) -> dict[str, Any]:
    """What the case's strategy asks of the model."""
    if case.strategy == "checkpoint":
        return {"remat": True, "scan": True} if case.spec.scan_layers else {"remat": True}
    return {"amp_bf16": {"dtype": jnp.bfloat16}, "rewrite": {"rewrite": True}}.get(case.strategy, {})


def accumulated(gradient: Gradient, k: int) -> Gradient:
    """The same over k micro-batches in a loop: mean loss and gradient; the running statistics pass from one to the next."""

    def over_micro_batches(params: Tree, stats: Tree, x: Array, y: Array) -> tuple[tuple[Array, Tree], Tree]:
        def micro(carry: tuple[Array, Tree, Tree], xy: tuple[Array, Array]) -> tuple[tuple[Array, Tree, Tree], None]:
            loss, stats, total = carry
            (value, stats), grads = gradient(params, stats, *xy)
            return (loss + value / k, stats, jax.tree.map(lambda t, g: t + g / k, total, grads)), None

        micro_batches = jax.tree.map(lambda a: a.reshape(k, -1, *a.shape[1:]), (x, y))
        start = (jnp.zeros((), jnp.result_type(*jax.tree.leaves(params))), stats, jax.tree.map(jnp.zeros_like, params))
        (loss, stats, grads), _ = lax.scan(micro, start, micro_batches)
        return (loss, stats), grads

    return over_micro_batches


class JaxAdapter(Adapter):
    def build(self) -> None:
        self.width = np.float64 if self.float64 else np.float32  # of the weights, the optimizer's state and the inputs
        jax.config.update("jax_enable_x64", self.float64)
        jax.config.update("jax_default_matmul_precision", "highest" if self.case.plan.precision == "fp32" else None)
        self.train = self.case.scenario == "train"
        self.optimizer = optimizer(self.workload.optimizer)
        model = self.abstract(**options(self.case))
        flax_weights.load(model, self.workload.weights(self.case.size), self.width)
        graph, params, stats = nnx.split(model, nnx.Param, nnx.BatchStat)
        self.params, self.stats = jax.device_put((nnx.to_pure_dict(params), nnx.to_pure_dict(stats)))
        self.optimizer_state = self.optimizer.init(self.params) if self.train else None
        x, y = self.workload.batch(self.case.size, self.case.batch)
        if x.dtype == np.float32:  # images and volumes, to channels last; tokens stay as they are
            x = np.ascontiguousarray(np.moveaxis(x, 1, -1), self.width)
        self.x, self.y = jnp.asarray(x), jnp.asarray(y)
        self.function = self.step_function(graph)
        self.compiled: Any = None
        self.release()

    def abstract(self, **chosen: Any) -> nnx.Module:
        """The model in the right mode, with shapes in the place of arrays: Flax's initialisers never run."""
        build = partial(self.model_module.build, self.config, **{"dtype": self.width, **chosen})
        model = nnx.eval_shape(partial(build, param_dtype=self.width))
        model.train() if self.train else model.eval()
        return model

    def step_function(self, graph: nnx.GraphDef) -> Callable[..., Any]:
        if self.train:
            return self.train_step(graph)
        return self.kept_graph(graph) if self.case.strategy == "grad" else self.forward(graph)

    def forward(self, graph: nnx.GraphDef) -> Callable[..., Array]:
        """(parameters, statistics, x) -> logits."""
        return lambda params, stats, x: nnx.merge(graph, params, stats)(x)

    def kept_graph(self, graph: nnx.GraphDef) -> Callable[..., tuple[Array, Any]]:
        """(parameters, statistics, x) -> logits and the backward function with the residuals it holds.

        The parameters among them are left out (`args_res`, to be handed back before use): an executable can only return
        copies, and a graph that is kept refers to the weights, it does not copy them.
        """

        def step(params: Tree, stats: Tree, x: Array) -> tuple[Array, Any]:
            logits, backward = jax.vjp(lambda p: self.forward(graph)(p, stats, x), params)
            backward.args_res = [None] * len(backward.args_res)
            return logits, backward

        return step

    def gradient(self, graph: nnx.GraphDef) -> Gradient:
        def objective(params: Tree, stats: Tree, x: Array, y: Array) -> tuple[Array, Tree]:
            model = nnx.merge(graph, params, stats)
            loss = self.model_module.loss(model(x), y)
            return loss, nnx.to_pure_dict(nnx.state(model, nnx.BatchStat))

        gradient = jax.value_and_grad(objective, has_aux=True)
        k = self.case.plan.micro_batches
        return accumulated(gradient, k) if k > 1 else gradient

    def train_step(self, graph: nnx.GraphDef) -> Callable[..., tuple[Tree, Tree, Tree, Array]]:
        """(parameters, statistics, optimizer state, x, y) -> the first three, updated, and the loss before the update."""
        gradient = self.gradient(graph)

        def step(params: Tree, stats: Tree, state: Tree, x: Array, y: Array) -> tuple[Tree, Tree, Tree, Array]:
            (loss, stats), grads = gradient(params, stats, x, y)
            updates, state = self.optimizer.update(grads, state, params)
            return optax.apply_updates(params, updates), stats, state, loss

        return step

    def arguments(self) -> tuple[Any, ...]:
        if self.train:
            return self.params, self.stats, self.optimizer_state, self.x, self.y
        return self.params, self.stats, self.x

    def compile(self) -> None:
        self.traced = jax.jit(self.function).trace(*self.arguments())
        self.compiled = self.traced.lower().compile(self.compiler_options())

    def compiler_options(self) -> dict[str, str]:
        unrolled = self.case.strategy == "checkpoint" and not self.workload.scan_layers
        return KEEP_BARRIERS if unrolled and jax.default_backend() == "cpu" else {}

    def step(self) -> None:
        if self.compiled is None:
            self.compile()
        if self.train:
            self.params, self.stats, self.optimizer_state, self.output = self.compiled(
                self.params, self.stats, self.optimizer_state, self.x, self.y
            )
        else:
            self.release()
            self.output = self.compiled(self.params, self.stats, self.x)

    def release(self) -> None:
        self.output: Any = None  # the loss; in eval the logits, or logits and residuals

    def synchronize(self) -> None:
        jax.block_until_ready((self.output, self.params))

    def loss(self) -> float:
        if self.train:
            return float(self.output)
        return float(jax.jit(self.model_module.loss)(self._logits(), self.y))

    def _logits(self) -> Array:
        return self.output[0] if self.case.strategy == "grad" else self.output

    def logits(self) -> np.ndarray:
        logits = np.asarray(self._logits().astype(self.width))
        return np.moveaxis(logits, -1, 1) if self.x.ndim > 2 and logits.ndim == self.x.ndim else logits

    def gradient_norm(self) -> float:
        o = self.workload.optimizer
        field, share = ("trace", 1.0) if o.name == "sgd" else ("mu", 1 - o.betas[0])
        moments = jax.tree.leaves(optax.tree_utils.tree_get(self.optimizer_state, field))
        return float(np.sqrt(sum(np.square(np.asarray(m, np.float64)).sum() for m in moments)) / share)

    def effect(self) -> Effect:
        strategy = self.case.strategy
        special = {
            "checkpoint": self.recomputation,
            "accumulate": self.micro_batches,
            "rewrite": self.slow_convolutions,
            "grad": self.kept_residuals,
            "no_grad": self.kept_residuals,
        }
        return special.get(strategy, self.operand_types)()

    def operand_types(self) -> Effect:
        """Which dtypes enter the products that JAX asks for, and which the compiler makes of them (XLA:CPU widens
        bfloat16). The backward pass of attention keeps some operands in float32: most must be of the wanted type."""
        asked = [e for e in equations(self.traced.jaxpr) if e.primitive.name in PRODUCTS]
        types = Counter(str(v.aval.dtype) for e in asked for v in e.invars)
        precision = Counter(str(e.params["precision"]) for e in asked)
        strict = self.case.plan.precision == "fp32"
        wanted = np.dtype(self.width).name if strict else "bfloat16"
        proven = types[wanted] == types.total() if strict else 2 * types[wanted] > types.total()
        found = {"operands": types, "precision": precision, "compiled": compiled_products(self.compiled)}
        return Effect(proven, {name: dict(counter) for name, counter in found.items()})

    def recomputation(self) -> Effect:
        """Products in the executable against those that were asked for and those of the same step without checkpointing.

        The compiler may merge a recomputation with the original; the strategy is then off, whatever the program says.
        """
        graph = nnx.split(self.abstract(**{**options(self.case), "remat": False}))[0]
        plain = products(jax.jit(self.step_function(graph)).trace(*self.arguments()).jaxpr)
        asked, compiled = products(self.traced.jaxpr), compiled_products(self.compiled).total()
        evidence = {"without": plain, "asked": asked, "compiled": compiled, "compiler_options": self.compiler_options()}
        return Effect(compiled >= asked > plain, evidence)

    def micro_batches(self) -> Effect:
        k, x = self.case.plan.micro_batches, self.x
        scans = [e for e in equations(self.traced.jaxpr) if e.primitive.name == "scan" and e.params["length"] == k]
        shapes = {v.aval.shape for e in scans for v in e.invars}
        wanted = (k, x.shape[0] // k, *x.shape[1:])
        return Effect(wanted in shapes, {"scan_length": k if scans else 0, "micro_batch": list(wanted[1:])})

    def slow_convolutions(self) -> Effect:
        convs = [e.params for e in equations(self.traced.jaxpr) if e.primitive.name == "conv_general_dilated"]
        ranks = Counter(len(p["window_strides"]) for p in convs)
        return Effect(ranks[3] == 0 < ranks[2], {"3-D convolutions": ranks[3], "2-D convolutions": ranks[2]})

    def kept_residuals(self) -> Effect:
        kept = jax.tree.leaves(self.output)[1:]
        proven = bool(kept) == (self.case.strategy == "grad")
        return Effect(proven, {"residuals": len(kept), "bytes": sum(a.nbytes for a in kept)})

    def live_bytes(self) -> int:
        return sum({a.unsafe_buffer_pointer(): a.nbytes for a in jax.live_arrays()}.values())

    def own_peaks(self) -> dict[str, int]:
        stats = jax.devices()[0].memory_stats() or {}  # None on the CPU; never resets
        peaks = {"allocator.in_use": stats["peak_bytes_in_use"]} if "peak_bytes_in_use" in stats else {}
        return peaks if self.compiled is None else {**peaks, "compiler.plan": plan_bytes(self.compiled)}

    def is_oom(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError) or bool(re.search("RESOURCE_EXHAUSTED|bad_alloc", str(error)))

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("jax", "jaxlib", "flax", "optax", "numpy")}

    def device(self) -> str:
        device = jax.devices()[0]
        return "cpu" if device.platform == "cpu" else device.device_kind


def plan_bytes(compiled: Any) -> int:
    """What one run of the executable needs by XLA's plan. Its own `peak_memory_in_bytes` leaves temporaries out on the CPU."""
    m = compiled.memory_analysis()
    return m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes - m.alias_size_in_bytes


def equations(jaxpr: Jaxpr | ClosedJaxpr) -> Iterator[Any]:
    """Every equation, those inside loops and calls once each."""
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield eqn
        for value in jax.tree.leaves(eqn.params, is_leaf=lambda v: isinstance(v, Jaxpr | ClosedJaxpr)):
            if isinstance(value, Jaxpr | ClosedJaxpr):
                yield from equations(value)


def products(jaxpr: ClosedJaxpr) -> int:
    return sum(e.primitive.name in PRODUCTS for e in equations(jaxpr))


def compiled_products(compiled: Any) -> Counter[str]:
    """Products in the optimised HLO by result type: XLA:CPU turns some convolutions into dots, XLA:GPU calls libraries."""
    direct = r"= (\w+)\[\S* (?:dot|convolution)\("
    library = r"= \(?(\w+)\[.* custom-call\(.*custom_call_target=\"[^\"]*(?:gemm|matmul|conv)"
    return Counter(re.findall(direct, text := compiled.as_text())) + Counter(re.findall(library, text))
