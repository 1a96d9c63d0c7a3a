"""How Jittor switches on the strategies of `framebench/strategies/steps.toml`, and their proofs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jittor as jt
import numpy as np
from jittor import Module, Var, nn

from framebench.adapters.base import Switches
from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.adapters.jittor.checkpoint import run_checkpointed
from framebench.adapters.jittor.observe import list_variables
from framebench.adapters.proof import Evidence, Proof, above, equal_to, expect
from framebench.adapters.replacing import replace_attributes
from framebench.suite.trees import read_batch_length

switch = Switches()


@switch
def accumulate(adapter: JittorAdapter) -> Proof:
    """Prove that a step makes a forward pass for each micro-batch, of a part of the batch."""

    def count_parts() -> Evidence:
        if read_batch_length(adapter.inputs[0]) == adapter.case.batch:
            return {"samples_per_part": [adapter.case.batch // adapter.micro_batches]}
        # a user's batch without an axis of samples, such as graphs
        parts = adapter.cut_batch(adapter.inputs, adapter.micro_batches)
        return {"samples_per_part": sorted({read_batch_length(x) for x, _ in parts})}

    proof = expect(
        forward_passes=adapter.micro_batches, samples_per_pass=equal_to("samples_per_part")
    )
    return proof.counting(count_parts)


class PartOfLoss(Module):
    """Cross entropy of some tokens, from the output of the last block, (tokens, width)."""

    def __init__(self, embedding: Var, loss: Callable[[Var], Var]) -> None:
        """Set the embedding, whose transpose gives logits, and their loss."""
        self.embedding = embedding
        self.loss = loss

    def execute(self, hidden: Var) -> Var:
        """Return the sum of the losses."""
        return self.loss(nn.linear(hidden, self.embedding))


def count_large_variables(adapter: JittorAdapter, loss: Callable[[Var, Var], Var]) -> int:
    """Count the variables of a step with this loss that are as large as a micro-batch's logits.

    Such a variable has as many columns as the logits, and at least as many numbers.
    """
    adapter.synchronize()
    with replace_attributes(adapter.recipe, loss=loss):
        adapter.one_step()
    _, targets = adapter.inputs
    tokens = targets.numel() // adapter.micro_batches
    columns = adapter.config.vocabulary
    transposed_embedding = [adapter.config.width, columns]
    count = 0
    for _, shape in list_variables():
        if shape[-1:] == [columns] and shape != transposed_embedding:
            count += math.prod(shape) >= tokens * columns
    return count


@switch
def chunked_loss(adapter: JittorAdapter, chunks: int) -> Proof:
    """Compute the logits and their loss chunk by chunk, and again in the backward pass."""
    adapter.recipe.build_options["head"] = adapter.model_module.skip_head
    losses = 0  # of chunks, in the forward pass and again in the backward pass

    def loss(x: Var, y: Var) -> Var:
        hidden, embedding = adapter.model(x)
        hidden = hidden.reshape(chunks, -1, hidden.shape[-1])
        y = y.reshape(chunks, -1)
        total: Any = 0
        for i in range(chunks):
            total = total + compute_part(hidden[i], embedding, y[i])
        return total / y.numel()

    def compute_part(hidden: Var, embedding: Var, targets: Var) -> Var:
        def loss(logits: Var) -> Var:
            nonlocal losses
            losses += 1
            return adapter.model_module.loss_sum(logits[None], targets)

        return run_checkpointed(PartOfLoss(embedding, loss), hidden)

    def sum_hidden(x: Var, _: Var) -> Var:
        """Return a loss of the hidden states: no logits are computed."""
        hidden, _embedding = adapter.model(x)
        return hidden.sum()

    def count_large() -> Evidence:
        """Count large variables, also of a step that ends before the head."""
        nonlocal losses
        losses = 0
        return {
            "as_large_as_the_logits": count_large_variables(adapter, adapter.recipe.loss),
            "losses_of_a_chunk": losses,
            "as_large_without_a_head": count_large_variables(adapter, sum_hidden),
        }

    adapter.recipe.loss = loss
    proof = expect(
        as_large_as_the_logits=equal_to("as_large_without_a_head"),
        # one for each chunk in the forward pass, and again in the backward pass
        losses_of_a_chunk=2 * chunks * adapter.micro_batches,
    )
    return proof.counting(count_large)


@switch
def autotune_off(adapter: JittorAdapter) -> Proof:
    """Give Jittor's table of tried cuDNN algorithms no room: a heuristic chooses instead."""
    jt.cudnn.set_algorithm_cache_size(0)

    def try_one() -> Evidence:
        """Run one more convolution while the table has room for one entry.

        Counts Jittor's log lines about a table that has just become full. There is one if the table
        was empty, so if no step before has tried an algorithm.
        """
        x = jt.array(np.ones((1, 8, 6, 6, 6), np.float32))
        w = jt.array(np.ones((8, 8, 3, 3, 3), np.float32))
        jt.cudnn.set_algorithm_cache_size(1)
        try:
            with jt.log_capture_scope() as log_lines:
                nn.conv3d(x, w).sync()
        finally:
            jt.cudnn.set_algorithm_cache_size(0)
        filled = sum("algorithm cache is full" in line["msg"] for line in log_lines)
        return {"tables_filled_by_one_trial": filled}

    return expect(tables_filled_by_one_trial=1).counting(try_one)


@switch
def rewrite(adapter: JittorAdapter) -> Proof:
    """Compute 3-D convolutions by 2-D ones, for which oneDNN has kernels."""
    adapter.recipe.build_options["rewrite"] = True
    return expect(loops_3d=0, onednn_convolutions=above(0))


@switch
def no_fuse(adapter: JittorAdapter) -> Proof:
    """Fuse no operators."""
    jt.flags.no_fuse = 1
    return expect(kernels=above(0), fused_kernels=0)


@switch
def no_onednn(adapter: JittorAdapter) -> Proof:
    """Prove that oneDNN is not there, as the environment decided before Jittor was imported."""

    def look_for_library() -> Evidence:
        return {"onednn_mapped": "mkldnn" in Path("/proc/self/maps").read_text()}

    proof = expect(onednn_convolutions=0, onednn_products=0, onednn_mapped=False)
    return proof.counting(look_for_library)


@switch
def not_lazy(adapter: JittorAdapter) -> Proof:
    """Run kernels at once. In lazy mode none runs before a value is read."""
    jt.flags.lazy_execution = 0
    nearly_all = above("kernels", times=0.9)
    return expect(kernels_before_sync=nearly_all)
