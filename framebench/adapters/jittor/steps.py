"""How Jittor switches on the strategies of `suite/catalog/steps.py`, and what proves that they were on. See `base.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import jittor as jt
import numpy as np
from jittor import Module, Var, nn

from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.adapters.jittor.checkpoint import checkpointed

switch = Switches()


@switch
def accumulate(run: JittorAdapter) -> Proof:
    return lambda e: e["forward_passes"] == run.micro and e["samples_per_pass"] == [run.case.batch // run.micro]


class PartOfLoss(Module):
    """Cross entropy of some tokens from what the last block makes of them: (tokens, width) -> a number."""

    def __init__(self, embedding: Var, loss: Callable[[Var], Var]) -> None:
        self.embedding, self.loss = embedding, loss

    def execute(self, hidden: Var) -> Var:
        return self.loss(nn.linear(hidden, self.embedding))


def _as_large(run: JittorAdapter, loss: Callable[[Var, Var], Var]) -> int:
    """Variables of a step with this loss that are as large as the logits of a micro-batch, with as many columns."""
    run.synchronize()
    before, run.recipe.loss = run.recipe.loss, loss
    run.one_step()
    run.recipe.loss = before
    ends = (str(n).rpartition(")[")[2] for n in jt.dump_all_graphs().nodes_info if str(n).startswith("Var("))
    shapes = [[int(n) for n in end.strip("],").split(",") if n] for end in ends]
    tokens, columns = run.inputs[1].numel() // run.micro, run.config.vocabulary
    large = [s for s in shapes if s[-1:] == [columns] and math.prod(s) >= tokens * columns]
    return sum(s != [run.config.width, columns] for s in large)  # the transposed embedding


@switch
def chunked_loss(run: JittorAdapter, chunks: int) -> Proof:
    run.recipe.build_options["head"] = run.model_module.unprojected
    runs: list[int] = []  # tokens of each chunk whose loss was asked for, in the forward pass and again in the backward pass

    def loss(x: Var, y: Var) -> Var:
        hidden, embedding = run.model(x)
        hidden, y = hidden.reshape(chunks, -1, hidden.shape[-1]), y.reshape(chunks, -1)
        return sum(part(hidden[i], embedding, y[i]) for i in range(chunks)) / y.numel()

    def part(hidden: Var, embedding: Var, targets: Var) -> Var:
        def loss(logits: Var) -> Var:
            runs.append(len(logits))
            return run.model_module.loss_sum(logits[None], targets)

        return checkpointed(PartOfLoss(embedding, loss), hidden)

    def proof(e: Evidence) -> bool:
        """Beside the variables of a step that ends before the head."""
        runs.clear()
        e["as_large_as_the_logits"], e["losses_of_a_chunk"] = _as_large(run, run.recipe.loss), len(runs)
        e["as_large_without_a_head"] = _as_large(run, lambda x, _: run.model(x)[0].sum())
        return e["as_large_as_the_logits"] == e["as_large_without_a_head"] and len(runs) == 2 * chunks * run.micro

    run.recipe.loss = loss
    return proof


@switch
def autotune_off(run: JittorAdapter) -> Proof:
    """The size of the table of algorithms that were tried; once it is full, a heuristic chooses."""
    jt.cudnn.set_algorithm_cache_size(0)

    def proof(e: Evidence) -> bool:
        """Jittor says so when a trial fills the table. Given room for one entry, a new convolution fills it only if no step has
        tried any out."""
        x, w = (jt.array(np.ones(shape, np.float32)) for shape in ((1, 8, 6, 6, 6), (8, 8, 3, 3, 3)))
        jt.cudnn.set_algorithm_cache_size(1)
        with jt.log_capture_scope() as log_lines:
            nn.conv3d(x, w).sync()
        jt.cudnn.set_algorithm_cache_size(0)
        e["tables_filled_by_one_trial"] = sum("algorithm cache is full" in line["msg"] for line in log_lines)
        return e["tables_filled_by_one_trial"] == 1

    return proof


@switch
def rewrite(run: JittorAdapter) -> Proof:
    run.recipe.build_options["rewrite"] = True
    return lambda e: e["loops_3d"] == 0 and e["onednn_convolutions"] > 0


@switch
def no_fuse(run: JittorAdapter) -> Proof:
    jt.flags.no_fuse = 1
    return lambda e: e["kernels"] > 0 == e["fused_kernels"]


@switch
def no_onednn(run: JittorAdapter) -> Proof:
    """Decided by the environment, before Jittor is imported."""

    def proof(e: Evidence) -> bool:
        e["onednn_mapped"] = "mkldnn" in Path("/proc/self/maps").read_text()
        return e["onednn_convolutions"] == e["onednn_products"] == 0 and not e["onednn_mapped"]

    return proof


@switch
def not_lazy(run: JittorAdapter) -> Proof:
    """Lazily, not one kernel runs before someone asks for a value."""
    jt.flags.lazy_execution = 0
    return lambda e: e["kernels_before_sync"] > 0.9 * e["kernels"]
