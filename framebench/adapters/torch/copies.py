"""Copy batches to the GPU next to the step, and measure how much of the copying a step hides."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from framebench.adapters.torch.adapter import TorchAdapter

Span = tuple[float, float]  # start and end, in ms
Marks = tuple[torch.cuda.Event, torch.cuda.Event]  # at start and end


def make_marks() -> Marks:
    """Return two events that tell the time."""
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


class Copies:
    """Copies of batches from page-locked memory, on a stream of their own.

    The thread that prepares the batches makes the copies, and the step takes them.
    """

    def __init__(self, run: TorchAdapter) -> None:
        self.run = run
        self.stream = torch.cuda.Stream()
        self.marks: list[Marks] = []  # of each copy

    def send(self, x: Any, y: Any) -> tuple[Tensor, Tensor, torch.cuda.Event]:
        """Begin to copy a batch; return it with the event that ends the copy.

        The thread calls it.
        """
        host_inputs = torch.from_numpy(x).pin_memory()
        host_targets = torch.from_numpy(y).pin_memory()
        device = self.run.torch_device
        first, last = make_marks()
        with torch.cuda.stream(self.stream):
            first.record()
            inputs = host_inputs.to(device, non_blocking=True)
            targets = host_targets.to(device, non_blocking=True)
            last.record()
        self.marks.append((first, last))
        return inputs, targets, last

    def arrive(
        self, inputs: Tensor, targets: Tensor, copied: torch.cuda.Event
    ) -> tuple[Tensor, Tensor]:
        """Return a batch that the device may use once it is copied.

        The step calls it. The memory is not given back before the step ends.
        """
        step = torch.cuda.current_stream()
        step.wait_event(copied)
        for tensor in (inputs, targets):
            tensor.record_stream(step)
        recipe = self.run.recipe
        return recipe.on_input(inputs.to(recipe.dtype)), targets

    def watch(self, steps: int) -> tuple[list[Span], list[Span]]:
        """Make so many steps; return when copies and steps ran, in ms from now."""
        start = torch.cuda.Event(enable_timing=True)
        step_marks: list[Marks] = []
        self.run.synchronize()
        start.record()
        self.marks.clear()
        for _ in range(steps):
            first, last = make_marks()
            step_marks.append((first, last))
            first.record()
            self.run.step()
            last.record()
        copy_marks = list(self.marks)  # the thread goes on
        self.run.synchronize()

        def read(marks: Marks) -> Span:
            first, last = marks
            return start.elapsed_time(first), start.elapsed_time(last)

        copies = [read(marks) for marks in copy_marks if marks[1].query()]
        return copies, [read(marks) for marks in step_marks]


def compute_overlap(copies: list[Span], steps: list[Span]) -> float:
    """Return the share of the copies' time during which a step ran.

    Steps do not overlap each other.
    """
    total = shared = 0.0
    for start, end in copies:
        total += end - start
        for step_start, step_end in steps:
            shared += max(0.0, min(end, step_end) - max(start, step_start))
    return shared / total if total else 0.0
