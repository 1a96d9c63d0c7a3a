"""How Jittor switches on the strategies of `suite/catalog/scenarios.py`, and what proves that they were on."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import jittor as jt
import numpy as np
from jittor import Module, Var, nn

from framebench.adapters.base import Evidence, Proof, Switch, Switches
from framebench.adapters.jittor.adapter import RUNNING, JittorAdapter, values
from framebench.adapters.jittor.memory import give_back
from framebench.adapters.jittor.probe import probe

switch = Switches()


@switch
def no_grad(run: JittorAdapter) -> Proof:
    return lambda e: e["operations_kept"] == 0 and (e["buffers_changed"] == 0 or not run.recipe.evaluates)


@switch
def grad(run: JittorAdapter) -> Proof:
    run.recipe.keeps_graph = True
    return lambda e: e["operations_kept"] > e["blocks"] and (e["buffers_changed"] == 0 or not run.recipe.evaluates)


@switch
def batch_stats(run: JittorAdapter) -> Proof:
    run.recipe.evaluates = False

    def proof(e: Evidence) -> bool:
        """Every statistic moves. Displaced first: under one batch again and again they would come to rest."""
        for name, statistic in run.model.named_parameters():
            if name.endswith(RUNNING):
                statistic.assign(statistic + 1)
        e |= {name: n for name, n in run.observe().items() if name.startswith("buffers")}
        return e["buffers_changed"] == e["buffers"] > 0 and (e["operations_kept"] == 0 or run.recipe.keeps_graph)

    return proof


@switch
def frozen(run: JittorAdapter, part: str = "half") -> Proof:
    """The gradient of what the workload does not train is stopped."""
    assert run.workload.trained  # else the cell is unsupported
    prefixes = run.workload.trained(run.config, part)

    def freeze(model: Module) -> None:
        for name, parameter in model.named_parameters():
            if not name.startswith(prefixes):
                parameter.stop_grad()

    def proof(e: Evidence) -> bool:
        """Running statistics move in every block: it is in training mode."""
        before = values(run.model)
        run.step()
        moved = {n for n, w in values(run.model).items() if not np.array_equal(w, before[n]) and not n.endswith(RUNNING)}
        e["weights_moved"] = len(moved)
        e["weights_with_states"] = len(with_states := {state.name for state in run.states()})
        return moved == with_states == {n for n in before if n.startswith(prefixes) and not n.endswith(RUNNING)} != set()

    run.recipe.on_model.append(freeze)
    return proof


@switch
def distill(run: JittorAdapter) -> Proof:
    """The plain model teaches: half the loss is how far its probabilities are from the student's."""

    def teach(model: Module) -> None:
        config = run.teacher = run.workload.config(run.case.size)
        teacher = run.load(config, run.workload.weights(config))
        teacher.eval()
        run.watched["teacher_passes"] = [teacher]

        def loss(x: Var, y: Var) -> Var:
            with jt.no_grad():
                wanted = nn.log_softmax(teacher(x), -1)
            logits = model(x)
            divergence = (wanted.exp() * (wanted - nn.log_softmax(logits, -1))).sum(-1).mean()
            return (run.model_module.loss(logits, y) + divergence) / 2

        run.recipe.loss = loss

    def proof(e: Evidence) -> bool:
        config = run.workload.config(run.case.size)
        e["parameters"], e["parameters_of_the_teacher"] = run.parameter_count(), run.workload.parameter_count(config)
        return e["teacher_passes"] == run.micro == e["forward_passes"] and e["parameters"] < e["parameters_of_the_teacher"]

    run.recipe.claim("loss")
    run.recipe.on_model.append(teach)
    return proof


@switch
def together(run: JittorAdapter, shared: bool = False) -> Proof:
    held: list[Module] = []

    def hold() -> None:
        held.extend(_load_one(run, weights) for weights in run.host_weights)
        if shared:
            one, other = held
            for name, part in one.__dict__.items():
                if isinstance(part, Module) and not f"{name}.".startswith(run.workload.head):
                    setattr(other, name, part)

    run.before_first_step.append(hold)
    return _pair_of(run, lambda: iter(held), lambda one, head: one + head if shared else 2 * one)


@switch
def in_turn(run: JittorAdapter, cleared: bool = False) -> Proof:
    given: list[int] = []

    def build() -> Iterator[Module]:
        for weights in run.host_weights:
            yield _load_one(run, weights)
            if cleared:
                gc.collect()
                given.append(give_back(run))

    proof = _pair_of(run, build, lambda one, head: one)
    if not cleared:
        return proof

    def counted(e: Evidence) -> bool:
        given.clear()
        proven = proof(e)
        e |= {"calls": len(given), "bytes_given_back": sum(given)}
        return proven and len(given) == 2 and sum(given) > 0

    return counted


def _load_one(run: JittorAdapter, weights: dict[str, np.ndarray]) -> Module:
    model = run.load(run.config, weights)
    run.set_evaluation(model)
    return model


def _pair_of(run: JittorAdapter, models: Any, expected: Any) -> Proof:
    """The proof watches the bytes in use while each of the two models works."""
    run.recipe.models = models

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
        gc.collect()  # what only cycles hold would be counted with the models
        others = sum(v.nbytes for v in (*run.inputs, run.output))
        run.recipe.models = watched
        run.one_step()
        run.synchronize()
        run.recipe.models = models
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


def _saved_by(gelu: Callable[[Var], Var]) -> int:
    """How many arrays are in memory between one GELU and its backward pass, beside its output."""
    x = jt.random([12347]).start_grad()  # a size that nothing else has
    y = gelu(x)
    jt.sync([x, y])
    jt.sync_all(True)
    array_count = probe().kept_arrays(x.nbytes) - 1
    jt.grad(y, x).sync()
    return array_count


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
            e |= {"saved_by_one_gelu": _saved_by(gelu), "calls": len(calls)}
            return e["saved_by_one_gelu"] == arrays and len(calls) == e["block_runs"]

        run.recipe.build_options["gelu"] = counted
        return proof

    return apply


switch["built_in"] = rule(nn.gelu, 1)


@switch
def custom_rule(run: JittorAdapter, lean: bool) -> Proof:
    return (rule(LeanGelu.apply, 1) if lean else rule(WastefulGelu.apply, 5))(run)
