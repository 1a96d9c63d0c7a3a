"""How Jittor switches on the strategies of `framebench/strategies/steps.py`, and what proves that they were on."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import jittor as jt
import numpy as np
from jittor import Module, Var, nn

from framebench.adapters.base import Switches
from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.adapters.jittor.checkpoint import checkpointed
from framebench.adapters.proof import Evidence, Proof, above, equal_to, expect

switch = Switches()


@switch
def accumulate(run: JittorAdapter) -> Proof:
    """Prove that a step makes a forward pass for each micro-batch, of a part of the batch."""
    return expect(forward_passes=run.micro_batches, samples_per_pass=[run.case.batch // run.micro_batches])


class PartOfLoss(Module):
    """Cross entropy of some tokens from what the last block makes of them: (tokens, width) -> a number."""

    def __init__(self, embedding: Var, loss: Callable[[Var], Var]) -> None:
        self.embedding, self.loss = embedding, loss

    def execute(self, hidden: Var) -> Var:
        return self.loss(nn.linear(hidden, self.embedding))


def _count_as_large(run: JittorAdapter, loss: Callable[[Var, Var], Var]) -> int:
    """Count the variables of a step with this loss that have the logits' columns and are as large as a micro-batch's."""
    run.synchronize()
    before, run.recipe.loss = run.recipe.loss, loss
    run.one_step()
    run.recipe.loss = before
    ends = (str(n).rpartition(")[")[2] for n in jt.dump_all_graphs().nodes_info if str(n).startswith("Var("))
    shapes = [[int(n) for n in end.strip("],").split(",") if n] for end in ends]
    tokens, columns = run.inputs[1].numel() // run.micro_batches, run.config.vocabulary
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

    def count_large(_: Evidence) -> Evidence:
        """Count large variables, also of a step that ends before the head."""
        runs.clear()
        large = _count_as_large(run, run.recipe.loss)
        losses = len(runs)
        without = _count_as_large(run, lambda x, _: run.model(x)[0].sum())
        return {
            "as_large_as_the_logits": large,
            "losses_of_a_chunk": losses,
            "as_large_without_a_head": without,
        }

    run.recipe.loss = loss
    proof = expect(
        as_large_as_the_logits=equal_to("as_large_without_a_head"),
        losses_of_a_chunk=2 * chunks * run.micro_batches,  # each in the forward pass, and once more in the backward pass
    )
    return proof.counting(count_large)


@switch
def autotune_off(run: JittorAdapter) -> Proof:
    """Leave no room in the table of algorithms that were tried: once it is full, a heuristic chooses."""
    jt.cudnn.set_algorithm_cache_size(0)

    def try_one(_: Evidence) -> Evidence:
        """Count how often a trial fills the table, which Jittor logs.

        Given room for one entry, a new convolution fills it only if no step has tried any out.
        """
        x, w = (jt.array(np.ones(shape, np.float32)) for shape in ((1, 8, 6, 6, 6), (8, 8, 3, 3, 3)))
        jt.cudnn.set_algorithm_cache_size(1)
        with jt.log_capture_scope() as log_lines:
            nn.conv3d(x, w).sync()
        jt.cudnn.set_algorithm_cache_size(0)
        filled = sum("algorithm cache is full" in line["msg"] for line in log_lines)
        return {"tables_filled_by_one_trial": filled}

    return expect(tables_filled_by_one_trial=1).counting(try_one)


@switch
def rewrite(run: JittorAdapter) -> Proof:
    """Compute 3-D convolutions by 2-D ones, for which oneDNN has kernels."""
    run.recipe.build_options["rewrite"] = True
    return expect(loops_3d=0, onednn_convolutions=above(0))


@switch
def no_fuse(run: JittorAdapter) -> Proof:
    """Fuse no operators."""
    jt.flags.no_fuse = 1
    return expect(kernels=above(0), fused_kernels=0)


@switch
def no_onednn(run: JittorAdapter) -> Proof:
    """Prove that oneDNN is not there, as the environment decided before Jittor was imported."""

    def look_for_library(_: Evidence) -> Evidence:
        return {"onednn_mapped": "mkldnn" in Path("/proc/self/maps").read_text()}

    proof = expect(onednn_convolutions=0, onednn_products=0, onednn_mapped=False)
    return proof.counting(look_for_library)


@switch
def not_lazy(run: JittorAdapter) -> Proof:
    """Run kernels at once. Lazily, not one of them runs before someone asks for a value."""
    jt.flags.lazy_execution = 0
    return expect(kernels_before_sync=above("kernels", times=0.9))
