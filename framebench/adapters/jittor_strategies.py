"""How Jittor switches each strategy on, and what proves that it was on. See `adapters/base.py` for what a switch is."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jittor as jt
import numpy as np
from jittor import Module, Var, nn

from framebench.adapters.base import Evidence, Proof, Switch, Switches
from framebench.adapters.jittor_checkpoint import checkpointed
from framebench.instruments.jittor_probe import probe

if TYPE_CHECKING:
    from framebench.adapters.jittor_adapter import JittorAdapter

switch = Switches()
SPARE = 64 << 20  # bytes
ONE_BLOCK = 1 << 20  # the least that the pool takes from the system, and so the least that it can give back


def floats(e: Evidence) -> set[str]:
    """The floating-point types that occurred in the graph."""
    return {dtype for dtype in e["variable_dtypes"] if "float" in dtype}


ROUNDED = 1e-2  # an error beyond this is not float32's: TensorFloat-32 makes 0.03 and 0.07 of it


def errors_of_products() -> dict[str, float]:
    """Of a matrix product and of a convolution of numbers that need more than TensorFloat-32's ten bits of mantissa."""
    number = 1 + 2.0**-12

    def filled(*shape: int) -> Var:
        return jt.array(np.full(shape, number, np.float32))

    product = jt.matmul(filled(64, 64), filled(64, 64))
    convolution = nn.conv2d(filled(1, 16, 8, 8), filled(16, 16, 3, 3))
    wanted = {"product": (product, 64 * number**2), "convolution": (convolution, 16 * 9 * number**2)}
    return {f"error_of_a_{name}": float(np.abs(var.numpy() - exact).max()) for name, (var, exact) in wanted.items()}


@switch
def fp32(run: JittorAdapter) -> Proof:
    """Newer cards may round convolutions to TensorFloat-32 by cuDNN's default, which Jittor leaves as it is: there two products
    tell."""

    def proof(e: Evidence) -> bool:
        found = errors_of_products() if jt.flags.use_cuda else {}
        e |= found
        return floats(e) == {"float32"} and all(error < ROUNDED for error in found.values())

    return proof


@switch
def tf32(run: JittorAdapter) -> Proof:
    """For convolutions the flag allows cuDNN float16 as well, which has as many bits; their error is in the evidence."""
    jt.flags.use_tensorcore = 1

    def proof(e: Evidence) -> bool:
        e |= errors_of_products()
        return floats(e) == {"float32"} and e["error_of_a_product"] > ROUNDED

    return proof


@switch
def half(run: JittorAdapter, dtype: str) -> Proof:
    """Sums are still taken in float32, which no setting but amp_level 6 changes."""
    run.dtype = dtype

    def proof(e: Evidence) -> bool:
        e["weight_dtypes"] = sorted({str(p.dtype) for p in run.model.parameters()})
        return e["weight_dtypes"] == [dtype] == [str(run.output.dtype)]

    return proof


# at each level: the exponential of a float16 number, the square of a float32 array from outside, the array itself
AMP_TYPES = {
    3: ("float16", "float32", "float32"),
    4: ("float32", "float16", "float32"),
    5: ("float32", "float16", "float16"),
    6: ("float16", "float16", "float16"),
}


def amp_types() -> tuple[str, ...]:
    """The types that Jittor now chooses; without a level the row of AMP_TYPES would be float32 throughout."""
    half, single = jt.float16([1, 2]), jt.array(np.ones(2, np.float32))
    return str(half.exp().dtype), str((single * single).dtype), str(single.dtype)


@switch
def amp_level(run: JittorAdapter, level: int) -> Proof:
    """Set for good, as a user would: level 3 concerns what is float16 already, from 5 on arrays made by `jt.array` are float16
    too. In float16 AdamW's epsilon is zero, and on a CPU the backward pass of max pooling does not compile."""
    jt.flags.amp_level = level

    def proof(e: Evidence) -> bool:
        e["weight_dtypes"] = sorted({str(p.dtype) for p in run.model.parameters()})
        e["types_chosen"] = amp_types()
        return e["types_chosen"] == AMP_TYPES[level] and ("float16" in floats(e)) == (level > 3)

    return proof


@switch
def checkpoint(run: JittorAdapter, every: int = 1) -> Proof:
    chosen: list[Module] = []

    def attach(model: Module) -> None:
        chosen[:] = run.model_module.blocks_of(model)[::every]
        places = {id(block) for block in chosen}
        model.remat = lambda block, *xs: (checkpointed if id(block) in places else Module.__call__)(block, *xs)

    def proof(e: Evidence) -> bool:
        """A block below every trained weight has nothing to recompute for."""
        again = [b for b in chosen if any(not p.is_stop_grad() for p in b.parameters())]
        return bool(again) and e["block_runs"] == run.micro * (e["blocks"] + len(again))

    run.on_model.append(attach)
    return proof


@switch
def accumulate(run: JittorAdapter) -> Proof:
    return lambda e: e["forward_passes"] == run.micro and e["samples_per_pass"] == [run.case.batch // run.micro]


@switch
def autotune_off(run: JittorAdapter) -> Proof:
    """The size of the table of algorithms that were tried; once it is full, a heuristic chooses."""
    jt.cudnn.set_algorithm_cache_size(0)

    def proof(e: Evidence) -> bool:
        """Jittor says so when a trial fills the table. Given room for one entry, a new convolution fills it only if no step has
        tried any out."""
        x, w = (jt.array(np.ones(shape, np.float32)) for shape in ((1, 8, 6, 6, 6), (8, 8, 3, 3, 3)))
        jt.cudnn.set_algorithm_cache_size(1)
        with jt.log_capture_scope() as said:
            nn.conv3d(x, w).sync()
        jt.cudnn.set_algorithm_cache_size(0)
        e["tables_filled_by_one_trial"] = sum("algorithm cache is full" in line["msg"] for line in said)
        return e["tables_filled_by_one_trial"] == 1

    return proof


@switch
def rewrite(run: JittorAdapter) -> Proof:
    run.build_options["rewrite"] = True
    return lambda e: e["loops_3d"] == 0 and e["onednn_convolutions"] > 0


@switch
def no_fuse(run: JittorAdapter) -> Proof:
    jt.flags.no_fuse = 1
    return lambda e: e["kernels"] > 0 == e["fused_kernels"]


@switch
def not_lazy(run: JittorAdapter) -> Proof:
    """Lazily, not one kernel runs before someone asks for a value."""
    jt.flags.lazy_execution = 0
    return lambda e: e["kernels_before_sync"] > 0.9 * e["kernels"]


@switch
def empty_cache(run: JittorAdapter, every: int = 1) -> Proof:
    """`jt.gc()` after every so many steps, which gives the pool's free blocks back to the system."""
    given: list[int] = []

    def clear() -> None:
        if run.steps % every == 0:
            run.synchronize()
            given.append(give_back(run))

    def litter() -> None:
        """A free block for certain: a small model may leave something in each of its own."""
        if run.steps % every == 0:
            (jt.array(np.zeros(SPARE // 4, np.float32)) + 1).sync()

    def proof(e: Evidence) -> bool:
        run.after_step.insert(0, litter)
        given.clear()
        for _ in range(2 * every):
            run.step()
        run.after_step.remove(litter)
        e |= {"steps_watched": 2 * every, "calls": len(given), "bytes_given_back": sum(given)}
        return len(given) == 2 and min(given) >= SPARE

    run.after_step.append(clear)
    return proof


def give_back(run: JittorAdapter) -> int:
    """Empties the pool; returns the bytes that it held in vain."""
    before = run.reserved()
    jt.gc()
    return before - run.reserved()


@switch
def managed_allocator(run: JittorAdapter) -> Proof:
    """The flag came from the environment, before the import. What counts is who gives the watched pool its memory."""

    def proof(e: Evidence) -> bool:
        e["source_of_the_pool"] = probe().source()
        return e["source_of_the_pool"] == "cuda_managed"

    return proof


def train_once(run: JittorAdapter, model: Module) -> int:
    """One training step, whose pool stays; then the model gets its weights back. Returns how many tensors the step changed."""
    from framebench.adapters.jittor_adapter import load_weights, make_optimizer, trainable, values

    x, y = run.inputs
    before = values(model)
    optimizer = make_optimizer(run.workload.optimizer, trainable(model))
    optimizer.step(run.model_module.loss(model(x), y))
    run.synchronize()
    changed = sum(not np.array_equal(w, before[name]) for name, w in values(model).items())
    load_weights(model, run.case.weights)
    return changed


@switch
def after_training(run: JittorAdapter, cleared: bool) -> Proof:
    """The same model is trained for one step. What that leaves in the pool may stay there."""
    run.keeps_pool = not cleared
    found: Evidence = {}

    def train(model: Module) -> None:
        found["tensors_trained"] = train_once(run, model)
        found["bytes_left_by_training"] = run.reserved()

    def clear() -> None:
        if cleared:
            gc.collect()
            found["bytes_given_back"] = give_back(run)

    def proof(e: Evidence) -> bool:
        e |= found
        nothing_to_give = found["bytes_left_by_training"] <= ONE_BLOCK
        emptied = "bytes_given_back" in found and (found["bytes_given_back"] > 0 or nothing_to_give)
        return found["tensors_trained"] > 0 and cleared == emptied

    run.on_model.append(train)
    run.before_first_step.append(clear)
    return proof


@switch
def mem_limit(run: JittorAdapter, share: float = 0.75) -> Proof:
    """A share of what the pool holds after one step without a limit. Jittor exceeds it rather than fail."""

    def limit(model: Module) -> None:
        jt.gc()
        train_once(run, model)
        jt.flags.cpu_mem_limit = jt.flags.device_mem_limit = int(share * run.reserved())
        jt.gc()

    def proof(e: Evidence) -> bool:
        before = probe().swapped_bytes()
        run.step()
        run.synchronize()
        e |= {"bytes_swapped": probe().swapped_bytes() - before, "limit": jt.flags.cpu_mem_limit, "reserved": run.reserved()}
        return e["bytes_swapped"] > 0

    run.on_model.append(limit)
    return proof


@switch
def no_grad(run: JittorAdapter) -> Proof:
    return lambda e: e["operations_kept"] == 0


@switch
def grad(run: JittorAdapter) -> Proof:
    run.keeps_graph = True
    return lambda e: e["operations_kept"] > e["blocks"]


@switch
def batch_stats(run: JittorAdapter) -> Proof:
    run.evaluates = False
    return lambda e: e["buffers_changed"] > 0 == e["operations_kept"]


@switch
def frozen(run: JittorAdapter) -> Proof:
    """The gradient of what the workload does not train is stopped."""
    prefixes = run.workload.trained(run.config, "head" if run.case.plan.mathematics == "head" else "half")

    def freeze(model: Module) -> None:
        for name, parameter in model.named_parameters():
            if not name.startswith(prefixes):
                parameter.stop_grad()

    def proof(e: Evidence) -> bool:
        """Running statistics move in every block: it is in training mode."""
        from framebench.adapters.jittor_adapter import RUNNING, values

        before = values(run.model)
        run.step()
        moved = {n for n, w in values(run.model).items() if not np.array_equal(w, before[n]) and not n.endswith(RUNNING)}
        e["weights_moved"] = len(moved)
        return moved == {n for n in before if n.startswith(prefixes) and not n.endswith(RUNNING)} != set()

    run.on_model.append(freeze)
    return proof


@switch
def distill(run: JittorAdapter) -> Proof:
    """The plain model teaches: half the loss is how far its probabilities are from the student's."""

    def teach(model: Module) -> None:
        config = run.workload.config(run.case.size)
        teacher = run.load(config, run.workload.weights(config))
        teacher.eval()
        run.watched["teacher_passes"] = [teacher]

        def loss(x: Var, y: Var) -> Var:
            with jt.no_grad():
                wanted = nn.log_softmax(teacher(x), -1)
            logits = model(x)
            divergence = (wanted.exp() * (wanted - nn.log_softmax(logits, -1))).sum(-1).mean()
            return (run.model_module.loss(logits, y) + divergence) / 2

        run.loss_for = loss

    def proof(e: Evidence) -> bool:
        config = run.workload.config(run.case.size)
        e["parameters"], e["parameters_of_the_teacher"] = run.parameter_count(), run.workload.parameter_count(config)
        return e["teacher_passes"] == run.micro == e["forward_passes"] and e["parameters"] < e["parameters_of_the_teacher"]

    run.on_model.append(teach)
    return proof


@switch
def together(run: JittorAdapter, shared: bool = False) -> Proof:
    held: list[Module] = []

    def hold() -> None:
        held.extend(load_one(run, weights) for weights in run.host_weights)
        if shared:
            one, other = held
            for name, part in one.__dict__.items():
                if isinstance(part, Module) and not f"{name}.".startswith(run.workload.head):
                    setattr(other, name, part)

    run.before_first_step.append(hold)
    return pair_of(run, lambda: iter(held), lambda one, head: one + head if shared else 2 * one)


@switch
def in_turn(run: JittorAdapter, cleared: bool = False) -> Proof:
    given: list[int] = []

    def build() -> Iterator[Module]:
        for weights in run.host_weights:
            yield load_one(run, weights)
            if cleared:
                gc.collect()
                given.append(give_back(run))

    proof = pair_of(run, build, lambda one, head: one)
    if not cleared:
        return proof

    def counted(e: Evidence) -> bool:
        given.clear()
        proven = proof(e)
        e |= {"calls": len(given), "bytes_given_back": sum(given)}
        return proven and len(given) == 2 and sum(given) > 0

    return counted


def load_one(run: JittorAdapter, weights: dict[str, np.ndarray]) -> Module:
    model = run.load(run.config, weights)
    run.set_evaluation(model)
    return model


def pair_of(run: JittorAdapter, models: Any, expected: Any) -> Proof:
    """The proof watches the bytes in use while each of the two models works."""
    run.models = models

    def proof(e: Evidence) -> bool:
        weights = {p.name: 4 * int(np.prod(p.shape)) for p in run.workload.params(run.config)}
        held: list[int] = []

        def watched() -> Iterator[Module]:
            for model in models():
                jt.sync_all(True)
                held.append(probe().used_bytes() - others)
                yield model
                del model

        run.release()
        run.synchronize()
        others = sum(v.nbytes for v in (*run.inputs, run.output))
        run.models = watched
        run.one_step()
        run.synchronize()
        run.models = models
        wanted = expected(sum(weights.values()), sum(n for name, n in weights.items() if name.startswith(run.workload.head)))
        e |= {"parameter_bytes_held": max(held), "parameter_bytes_expected": wanted}
        return len(held) == 2 and wanted <= max(held) < 1.02 * wanted + 1024

    return proof


ROOT_HALF, ROOT_TWO_PI = 0.5**0.5, (2 * np.pi) ** 0.5


class LeanGelu(jt.Function):
    """x Phi(x); keeps x alone."""

    def execute(self, x: Var) -> Var:
        self.x = x.detach()
        with jt.no_grad():
            return self.x * (1 + jt.erf(self.x * ROOT_HALF)) / 2

    def grad(self, upstream: Var) -> Var:
        x = self.x
        density = jt.exp(-x * x / 2) / ROOT_TWO_PI
        return upstream * ((1 + jt.erf(x * ROOT_HALF)) / 2 + x * density)


class WastefulGelu(jt.Function):
    """The same; keeps whatever it has computed on the way. What is fused away is not stored, though Python holds it, but
    computed again when it is wanted: so nothing may be fused."""

    def execute(self, x: Var) -> Var:
        with jt.no_grad():
            x = x.detach()
            scaled = (x * ROOT_HALF).stop_fuse()
            error_function = jt.erf(scaled).stop_fuse()
            cumulative = ((1 + error_function) / 2).stop_fuse()
            density = (jt.exp(-scaled * scaled) / ROOT_TWO_PI).stop_fuse()
            self.saved = x, scaled, error_function, cumulative, density
            return x * cumulative

    def grad(self, upstream: Var) -> Var:
        x, _, _, cumulative, density = self.saved
        return upstream * (cumulative + x * density)


def saved_by(gelu: Callable[[Var], Var]) -> int:
    """How many arrays are in memory between one GELU and its backward pass, beside its output."""
    x = jt.random([12347]).start_grad()  # a size that nothing else has
    y = gelu(x)
    jt.sync([x, y])
    jt.sync_all(True)
    found = probe().kept_arrays(x.nbytes) - 1
    jt.grad(y, x).sync()
    return found


def rule(gelu: Callable[[Var], Var], arrays: int) -> Switch:
    """A training step with this GELU, which must keep so many arrays; it runs once per block."""

    def apply(run: JittorAdapter) -> Proof:
        calls: list[int] = []

        def counted(x: Var) -> Var:
            calls.append(1)
            return gelu(x)

        def proof(e: Evidence) -> bool:
            calls.clear()
            run.step()
            e |= {"saved_by_one_gelu": saved_by(gelu), "calls": len(calls)}
            return e["saved_by_one_gelu"] == arrays and len(calls) == e["block_runs"]

        run.build_options["gelu"] = counted
        return proof

    return apply


switch["built_in"] = rule(nn.gelu, 1)


@switch
def custom_rule(run: JittorAdapter, lean: bool) -> Proof:
    return (rule(LeanGelu.apply, 1) if lean else rule(WastefulGelu.apply, 5))(run)
