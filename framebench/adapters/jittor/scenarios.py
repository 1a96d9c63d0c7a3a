"""How Jittor switches on the strategies of `framebench/strategies/scenarios.py`, and what proves that they were on."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import jittor as jt
import numpy as np
from jittor import Module, Var, nn

from framebench.adapters.base import Switch, Switches
from framebench.adapters.jittor.adapter import RUNNING, JittorAdapter, values
from framebench.adapters.jittor.memory import give_back
from framebench.adapters.jittor.probe import probe
from framebench.adapters.proof import Evidence, Proof, above, at_least, below, check, equal_to, expect

switch = Switches()


def expect_buffers_unchanged(run: JittorAdapter) -> Proof:
    """Return a proof that evaluation leaves every statistic as it was, unless to change them is the strategy."""

    def are_unchanged(e: Evidence) -> bool:
        return bool(e["buffers_changed"] == 0 or not run.recipe.evaluates)

    return check(are_unchanged, "running statistics stay as they were")


@switch
def no_grad(run: JittorAdapter) -> Proof:
    """Evaluate without a graph."""
    return expect(operations_kept=0) & expect_buffers_unchanged(run)


@switch
def grad(run: JittorAdapter) -> Proof:
    """Keep the graph of a backward pass."""
    run.recipe.keeps_graph = True
    return expect(operations_kept=above("blocks")) & expect_buffers_unchanged(run)


@switch
def batch_stats(run: JittorAdapter) -> Proof:
    """Evaluate by the statistics of the batch, and prove that every running statistic moves."""
    run.recipe.evaluates = False

    def count_changed(_: Evidence) -> Evidence:
        # displaced first: under one batch again and again they would come to rest
        for name, statistic in run.model.named_parameters():
            if name.endswith(RUNNING):
                statistic.assign(statistic + 1)
        observed = run.observe()
        return {name: observed[name] for name in ("buffers", "buffers_changed")}

    def is_graph_dropped(e: Evidence) -> bool:
        return bool(e["operations_kept"] == 0 or run.recipe.keeps_graph)

    proof = expect(buffers=above(0), buffers_changed=equal_to("buffers"))
    proof &= check(is_graph_dropped, "no operations are kept for a backward pass")
    return proof.counting(count_changed)


@switch
def frozen(run: JittorAdapter, part: str = "half") -> Proof:
    """Stop the gradient of what the workload does not train."""
    assert run.workload.trained  # else the cell is unsupported
    prefixes = run.workload.trained(run.config, part)

    def freeze(model: Module) -> None:
        for name, parameter in model.named_parameters():
            if not name.startswith(prefixes):
                parameter.stop_grad()

    def count_weights(_: Evidence) -> Evidence:
        before = values(run.model)
        run.step()
        after = values(run.model)
        # running statistics move in every block: it is in training mode
        weights = [name for name in before if not name.endswith(RUNNING)]
        to_train = {name for name in weights if name.startswith(prefixes)}
        moved = {name for name in weights if not np.array_equal(after[name], before[name])}
        with_states = {state.name for state in run.states()}
        return {
            "weights_moved": len(moved),
            "weights_with_states": len(with_states),
            "weights_to_train": len(to_train),
            "other_weights_than_these": len((moved | with_states) - to_train),
        }

    run.recipe.on_model.append(freeze)
    proof = expect(
        weights_to_train=above(0),
        weights_moved=equal_to("weights_to_train"),
        weights_with_states=equal_to("weights_to_train"),
        other_weights_than_these=0,
    )
    return proof.counting(count_weights)


@switch
def distill(run: JittorAdapter) -> Proof:
    """Distil the plain model: half the loss is how far its probabilities are from the student's."""

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

    def count_parameters(_: Evidence) -> Evidence:
        config = run.workload.config(run.case.size)
        return {
            "parameters": run.parameter_count(),
            "parameters_of_the_teacher": run.workload.parameter_count(config),
        }

    run.recipe.claim("loss")
    run.recipe.on_model.append(teach)
    proof = expect(
        teacher_passes=run.micro_batches,
        forward_passes=run.micro_batches,
        parameters=below("parameters_of_the_teacher"),
    )
    return proof.counting(count_parameters)


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

    def forget_given(_: Evidence) -> Evidence:
        given.clear()
        return {}

    def count_given(_: Evidence) -> Evidence:
        return {"calls": len(given), "bytes_given_back": sum(given)}

    proof = _pair_of(run, build, lambda one, head: one)
    if not cleared:
        return proof
    # the step that `proof` watches lies between the two
    beginning = Proof(()).counting(forget_given)
    return beginning & proof & expect(calls=2, bytes_given_back=above(0)).counting(count_given)


def _load_one(run: JittorAdapter, weights: dict[str, np.ndarray]) -> Module:
    model = run.load(run.config, weights)
    run.set_evaluation(model)
    return model


def _pair_of(run: JittorAdapter, models: Callable[[], Iterator[Module]], expected: Callable[[int, int], int]) -> Proof:
    """Take the two models, and prove how many bytes are in use while each of them works.

    `expected` returns that of the bytes of one model and of its head.
    """
    run.recipe.models = models

    def count_held(_: Evidence) -> Evidence:
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
        head = sum(size for name, size in weights.items() if name.startswith(run.workload.head))
        return {
            "models_run": len(held),
            "parameter_bytes_held": max(held),
            "parameter_bytes_expected": expected(sum(weights.values()), head),
        }

    def is_little_more(e: Evidence) -> bool:
        return bool(e["parameter_bytes_held"] < 1.02 * e["parameter_bytes_expected"] + 1024)

    proof = expect(models_run=2, parameter_bytes_held=at_least("parameter_bytes_expected"))
    proof &= check(is_little_more, "no more than parameter_bytes_expected, 2 % and 1 KiB are held")
    return proof.counting(count_held)


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
    """Return how many arrays are in memory between one GELU and its backward pass, without its output."""
    x = jt.random([12347]).start_grad()  # a size that nothing else has
    y = gelu(x)
    jt.sync([x, y])
    jt.sync_all(True)
    array_count = probe().kept_arrays(x.nbytes) - 1
    jt.grad(y, x).sync()
    return array_count


def rule(gelu: Callable[[Var], Var], arrays: int) -> Switch:
    """Return the switch of a training step with this GELU, which must keep so many arrays; it runs once per block."""

    def apply(run: JittorAdapter) -> Proof:
        calls: list[int] = []

        def counted(x: Var) -> Var:
            calls.append(1)
            return gelu(x)

        def count_calls(_: Evidence) -> Evidence:
            calls.clear()
            run.step()
            return {"saved_by_one_gelu": _saved_by(gelu), "calls": len(calls)}

        run.recipe.build_options["gelu"] = counted
        proof = expect(saved_by_one_gelu=arrays, calls=equal_to("block_runs"))
        return proof.counting(count_calls)

    return apply


switch["built_in"] = rule(nn.gelu, 1)


@switch
def custom_rule(run: JittorAdapter, lean: bool) -> Proof:
    return (rule(LeanGelu.apply, 1) if lean else rule(WastefulGelu.apply, 5))(run)
