"""Batches that are copied to the card beside the step, and how much of the copying a step hid."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from framebench.adapters.torch.adapter import TorchAdapter

Span = tuple[float, float]  # start and end, in ms


class Copies:
    """Batches copied from page-locked memory on a stream of their own, by the thread that prepares them; events tell when."""

    def __init__(self, run: TorchAdapter) -> None:
        self.run, self.stream = run, torch.cuda.Stream()
        self.made: list[tuple[Any, Any]] = []  # events before and after each copy

    def send(self, x: Any, y: Any) -> tuple[Tensor, Tensor, Any]:
        """Called by the thread."""
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        host = [torch.from_numpy(array).pin_memory() for array in (x, y)]
        with torch.cuda.stream(self.stream):
            first.record()
            inputs, targets = (tensor.to(self.run.where, non_blocking=True) for tensor in host)
            last.record()
        self.made.append((first, last))
        return inputs, targets, last

    def arrive(self, inputs: Tensor, targets: Tensor, copied: Any) -> tuple[Tensor, Tensor]:
        """Called by the step, which the device begins when the copy is done; the memory is not given back before it ends."""
        step = torch.cuda.current_stream()
        step.wait_event(copied)
        for tensor in (inputs, targets):
            tensor.record_stream(step)
        return self.run.recipe.on_input(inputs.to(self.run.recipe.dtype)), targets

    def watched(self, steps: int) -> tuple[list[Span], list[Span]]:
        """When copies and steps ran, in ms from now."""
        start, marks = torch.cuda.Event(enable_timing=True), []
        self.run.synchronize()
        start.record()
        self.made.clear()
        for _ in range(steps):
            marks.append(tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)))
            marks[-1][0].record()
            self.run.step()
            marks[-1][1].record()
        made = list(self.made)
        self.run.synchronize()
        done = [pair for pair in made if pair[1].query()]
        copies, ran = ([tuple(start.elapsed_time(e) for e in pair) for pair in pairs] for pairs in (done, marks))
        return copies, ran


def overlap(copies: list[Span], steps: list[Span]) -> float:
    """Share of the copies' time during which a step ran; steps do not overlap each other."""
    total = sum(end - start for start, end in copies)
    shared = sum(max(0.0, min(end, b) - max(start, a)) for start, end in copies for a, b in steps)
    return shared / total if total else 0.0
