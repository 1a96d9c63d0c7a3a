"""How Jittor switches on the strategies of `framebench/strategies/scenarios.toml`, with proofs."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator

import jittor as jt
import numpy as np
from jittor import Module, Var, nn

from framebench.adapters import common
from framebench.adapters.base import Switches
from framebench.adapters.jittor.adapter import RUNNING, JittorAdapter, copy_weights
from framebench.adapters.jittor.memory import empty_pool
from framebench.adapters.jittor.probe import load_probe
from framebench.adapters.proof import (
    Evidence,
    Proof,
    above,
    at_least,
    below,
    check,
    equal_to,
    expect,
)
from framebench.adapters.replacing import replace_attributes

switch = Switches()


# evaluation


@switch
def no_grad(adapter: JittorAdapter) -> Proof:
    """Evaluate without a graph."""
    unchanged = common.expect_buffers_unchanged(lambda: not adapter.recipe.evaluates)
    return expect(operations_kept=0) & unchanged


@switch
def grad(adapter: JittorAdapter) -> Proof:
    """Keep the graph of a backward pass."""
    adapter.recipe.keeps_graph = True
    unchanged = common.expect_buffers_unchanged(lambda: not adapter.recipe.evaluates)
    return expect(operations_kept=above("blocks")) & unchanged


@switch
def batch_stats(adapter: JittorAdapter) -> Proof:
    """Evaluate by the statistics of the batch, and prove that every running statistic changes."""
    adapter.recipe.evaluates = False

    def displace() -> None:
        for name, statistic in adapter.model.named_parameters():
            if name.endswith(RUNNING):
                statistic.assign(statistic + 1)

    def is_graph_dropped(evidence: Evidence) -> bool:
        return bool(evidence["operations_kept"] == 0 or adapter.recipe.keeps_graph)

    proof = check(is_graph_dropped, "no operations are kept for a backward pass")
    return proof & common.expect_buffers_changed(adapter, displace)


# the other scenarios


@switch
def frozen(adapter: JittorAdapter, part: str = "half") -> Proof:
    """Train one part of the weights, such as half the layers; the gradient of others stops."""
    assert adapter.workload.trained  # else the case is unsupported
    prefixes = adapter.workload.trained(adapter.config, part)

    def freeze(model: Module) -> None:
        for name, parameter in model.named_parameters():
            if not name.startswith(prefixes):
                parameter.stop_grad()

    def find_moved() -> set[str]:
        weights_before = copy_weights(adapter.model)
        adapter.step()
        weights_after = copy_weights(adapter.model)
        # in training mode the running statistics of every block change
        weights = [name for name in weights_before if not name.endswith(RUNNING)]
        return {
            name
            for name in weights
            if not np.array_equal(weights_after[name], weights_before[name])
        }

    adapter.recipe.on_model.append(freeze)
    return common.expect_trained(adapter, prefixes, find_moved)


@switch
def distill(adapter: JittorAdapter) -> Proof:
    """Distil the plain model: half the loss is how far its probabilities are from the student's."""
    config = adapter.teacher_config = adapter.workload.config(adapter.case.size)

    def attach_teacher(model: Module) -> None:
        """Make the teacher, and have the loss compare the student with it."""
        teacher = adapter.load(config, adapter.workload.make_weights(config))
        teacher.eval()
        adapter.watched["teacher_passes"] = [teacher]

        def loss(x: Var, y: Var) -> Var:
            with jt.no_grad():
                log_teacher = nn.log_softmax(teacher(x), -1)
            logits = model(x)
            log_student = nn.log_softmax(logits, -1)
            divergence = (log_teacher.exp() * (log_teacher - log_student)).sum(-1).mean()
            return (adapter.model_module.loss(logits, y) + divergence) / 2

        adapter.recipe.loss = loss

    def count_parameters() -> Evidence:
        return {
            "parameters": adapter.parameter_count(),
            "parameters_of_the_teacher": adapter.workload.parameter_count(config),
        }

    adapter.recipe.claim("loss")
    adapter.recipe.on_model.append(attach_teacher)
    proof = expect(
        teacher_passes=adapter.micro_batches,
        forward_passes=adapter.micro_batches,
        parameters=below("parameters_of_the_teacher"),
    )
    return proof.counting(count_parameters)


# pairs of models


@switch
def together(adapter: JittorAdapter, shared_trunk: bool = False) -> Proof:
    """Keep two models in memory; with `shared_trunk` they have one trunk and a head each."""
    models: list[Module] = []

    def load_models() -> None:
        for weights in adapter.host_weights:
            models.append(load_evaluated(adapter, weights))
        if shared_trunk:
            share_trunk(adapter, *models)

    # with a shared trunk the second model adds only its head, and otherwise all of its weights
    added_prefixes = adapter.workload.head if shared_trunk else ("",)
    expected_bytes = count_weight_bytes(adapter) + count_weight_bytes(adapter, added_prefixes)
    adapter.before_first_step.append(load_models)
    return run_pair(adapter, lambda: iter(models), expected_bytes)


def share_trunk(adapter: JittorAdapter, first: Module, second: Module) -> None:
    """Give the second model the modules of the first, except for the head."""
    for name, part in vars(first).items():
        if isinstance(part, Module) and not f"{name}.".startswith(adapter.workload.head):
            setattr(second, name, part)


@switch
def in_turn(adapter: JittorAdapter, cleared: bool = False) -> Proof:
    """Load one model after the other, and delete each before the next.

    With `cleared` the pool's free memory is given back in between.
    """
    given_back: list[int] = []  # in the last step

    def load_each() -> Iterator[Module]:
        given_back.clear()
        for weights in adapter.host_weights:
            yield load_evaluated(adapter, weights)
            if cleared:
                gc.collect()
                given_back.append(empty_pool(adapter))

    def count_given_back() -> Evidence:
        return {"calls": len(given_back), "bytes_given_back": sum(given_back)}

    proof = run_pair(adapter, load_each, expected_bytes=count_weight_bytes(adapter))
    if cleared:
        proof &= expect(calls=2, bytes_given_back=above(0)).counting(count_given_back)
    return proof


def load_evaluated(adapter: JittorAdapter, weights: dict[str, np.ndarray]) -> Module:
    """Return a model of a pair, in evaluation mode."""
    model = adapter.load(adapter.config, weights)
    adapter.set_evaluation(model)
    return model


def count_weight_bytes(adapter: JittorAdapter, prefixes: tuple[str, ...] = ("",)) -> int:
    """Return the bytes of a model's weights whose names have one of these prefixes."""
    params = adapter.workload.params(adapter.config)
    return sum(4 * math.prod(p.shape) for p in params if p.name.startswith(prefixes))


def run_pair(
    adapter: JittorAdapter, models: Callable[[], Iterator[Module]], expected_bytes: int
) -> Proof:
    """Set the models of a pair, and return a proof of the bytes in use while each of them runs.

    Args:
        adapter: The adapter of the case.
        models: Yields the two models, one after the other.
        expected_bytes: The bytes of the weights that are in memory at the same time.
    """
    adapter.recipe.models = models

    def count_held() -> Evidence:
        """Read the bytes in use while each model runs, without inputs and output."""
        adapter.release()
        adapter.synchronize()
        gc.collect()  # variables in reference cycles would be counted with the models
        input_output_bytes = sum(var.nbytes for var in (*adapter.inputs, adapter.output))
        bytes_held: list[int] = []

        def watch_models() -> Iterator[Module]:
            """Yield each model, and read the bytes in use before it runs."""
            for model in models():
                jt.sync_all(True)
                bytes_held.append(load_probe().used_bytes() - input_output_bytes)
                yield model
                del model  # else it would stay in memory while the next one is made

        with replace_attributes(adapter.recipe, models=watch_models):
            adapter.one_step()
            adapter.synchronize()
        return {"models_run": len(bytes_held), "parameter_bytes_held": max(bytes_held)}

    most_bytes = 1.02 * expected_bytes + 1024
    expected = (at_least(expected_bytes), below(most_bytes))
    return expect(models_run=2, parameter_bytes_held=expected).counting(count_held)


# rules for derivatives

ROOT_HALF = 0.5**0.5
ROOT_TWO_PI = (2 * np.pi) ** 0.5


class JittorLeanGelu(jt.Function):
    """GELU, x Phi(x), that keeps only x for the backward pass."""

    def execute(self, x: Var) -> Var:
        """Return x Phi(x), and keep x."""
        self.x = x.detach()
        with jt.no_grad():
            return self.x * (1 + jt.erf(self.x * ROOT_HALF)) / 2

    def grad(self, upstream: Var) -> Var:
        """Return the gradient of x, computed from x and that of the output."""
        x = self.x
        density = jt.exp(-x * x / 2) / ROOT_TWO_PI
        return upstream * ((1 + jt.erf(x * ROOT_HALF)) / 2 + x * density)


class JittorWastefulGelu(jt.Function):
    """GELU that keeps all intermediate results.

    Fusing is switched off for them: a fused result is not stored, although Python refers to it, but
    computed again when it is needed.
    """

    def execute(self, x: Var) -> Var:
        """Return x Phi(x), and keep each step of its computation."""
        with jt.no_grad():
            x = x.detach()
            scaled = (x * ROOT_HALF).stop_fuse()
            error_function = jt.erf(scaled).stop_fuse()
            cumulative = ((1 + error_function) / 2).stop_fuse()
            density = (jt.exp(-scaled * scaled) / ROOT_TWO_PI).stop_fuse()
            self.saved = x, scaled, error_function, cumulative, density
            return x * cumulative

    def grad(self, upstream: Var) -> Var:
        """Return the gradient of x, from the kept results and that of the output."""
        x, _, _, cumulative, density = self.saved
        return upstream * (cumulative + x * density)


def count_saved_arrays(gelu: Callable[[Var], Var]) -> int:
    """Count the arrays in memory between one GELU and its backward pass, without its output."""
    x = jt.random([12347]).start_grad()  # a size that nothing else has
    y = gelu(x)
    jt.sync([x, y])
    jt.sync_all(True)
    array_count = load_probe().kept_arrays(x.nbytes) - 1
    jt.grad(y, x).sync()
    return array_count


def use_gelu(adapter: JittorAdapter, gelu: Callable[[Var], Var], arrays: int) -> Proof:
    """Use this GELU, and return a proof that it runs in each block and saves `arrays` arrays."""
    calls = 0

    def count_and_run(x: Var) -> Var:
        nonlocal calls
        calls += 1
        return gelu(x)

    def count_calls() -> Evidence:
        before = calls
        adapter.step()
        return {"saved_by_one_gelu": count_saved_arrays(gelu), "calls": calls - before}

    adapter.recipe.build_options["gelu"] = count_and_run
    return expect(saved_by_one_gelu=arrays, calls=equal_to("block_runs")).counting(count_calls)


@switch
def built_in(adapter: JittorAdapter) -> Proof:
    """Use Jittor's own GELU."""
    return use_gelu(adapter, nn.gelu, arrays=1)


@switch
def custom_rule(adapter: JittorAdapter, lean: bool) -> Proof:
    """Use a hand-written derivative of GELU; a `lean` one saves only its input."""
    gelu = JittorLeanGelu.apply if lean else JittorWastefulGelu.apply
    return use_gelu(adapter, gelu, arrays=1 if lean else 5)
