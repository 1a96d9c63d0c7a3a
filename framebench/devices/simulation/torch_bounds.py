"""Bound the memory of a case that cannot be simulated, by the eager step that can be.

Each bound has its argument:

- At least: weights, gradients and optimizer states exist together when the update begins, whoever
  computed the gradients and whichever allocator serves them. Evaluation has its weights.
- At least, if only the allocator or the algorithms of convolutions differ: the same eager step has
  the same tensors, so it takes the most bytes of them at once, without workspaces and rounding.
- At most, without PyTorch's pool: the driver gives each tensor and workspace its own memory, in
  pages of 2 MiB, and takes it back at once.
  cuDNN names the workspaces of the algorithms of a convolution, of which the largest is counted.
  Where it cannot be asked, nobody knows the largest.
- If values decide how many elements are chosen: a tensor of chosen elements has between none and
  all of them.
- If the GPU decides when a copy on another stream is done: the tensors in use are the program's in
  any case, and a block that such a copy uses comes back between their death and the step's end.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from framebench.devices.plans.answer import AT_LEAST, AT_MOST, PlannerAnswer
from framebench.devices.simulation.blocks import round_up
from framebench.devices.simulation.scope import has_same_tensors, is_without_pool
from framebench.devices.simulation.torch_choices import BoundedStep
from framebench.devices.simulation.torch_simulate import Simulation
from framebench.devices.simulation.torch_watch import Life, find_peak
from framebench.suite.case import Case

PAGE = 2 << 20  # bytes in which the driver gives memory
OF_KERNELS = ("workspaces", "temporaries")  # what kernels take, which the GPU may choose otherwise
WITHOUT_CUDNN = (
    "cuDNN, which names the workspaces of convolutions, is not installed or does not know this GPU"
)
# Simulated with the largest workspace of each convolution, two of eight steps of ResNet-50 and of
# U-Net 3D reserved less than an H200 did, by up to 6 %: this is no bound.
OF_AUTOTUNE = (
    "cuDNN names the largest workspace of each convolution, but the pool may reserve more with "
    "smaller ones"
)
LASTING = ("weights", "gradients", "optimizer states")


@dataclass(frozen=True)
class Bounds:
    """Bytes that a case takes, with the reason of each side."""

    least: int
    why_least: str
    most: int | None = None  # None: no upper bound is known
    why_most: str = ""  # or why none is known, where there is more to say

    def describe(self) -> str:
        """Return a sentence."""
        sentence = f"It takes at least {self.least / 2**20:,.1f} MiB: {self.why_least}"
        if self.most is None:
            because = f": {self.why_most}" if self.why_most else ""
            return f"{sentence}. No upper bound is known{because}."
        return f"{sentence}; and at most {self.most / 2**20:,.1f} MiB: {self.why_most}."


def bound_by(case: Case, simulation: Simulation, largest: Simulation | None) -> Bounds:
    """Return the bounds of a case from the simulation of its stand-in.

    `largest` is the same with the largest workspace of each convolution, or None where cuDNN is not
    asked for all.
    """
    lives = simulation.watch.lives
    if not has_same_tensors(case):
        lasting = [life for life in lives if life.kind in LASTING]
        _, least = find_peak(lasting, attrgetter("size"))
        return Bounds(least, "weights, and in training gradients and optimizer states")
    tensors = [life for life in lives if life.kind not in OF_KERNELS]
    _, least = find_peak(tensors, attrgetter("size"))
    why_least = "the tensors of the eager step"
    if any(part.switch == "autotune" for part in case.parts) and simulation.watch.convolutions:
        return Bounds(least, why_least, why_most=OF_AUTOTUNE)
    if not is_without_pool(case):
        return Bounds(least, why_least)
    if largest is None:
        return Bounds(least, why_least, why_most=WITHOUT_CUDNN)
    _, most = find_peak(largest.watch.lives, round_to_pages)
    return Bounds(
        least,
        why_least,
        most,
        "each of them, and each workspace, in pages of 2 MiB, where a convolution has the largest "
        "workspace that cuDNN names",
    )


def bound_by_extremes(least: Simulation, most: Simulation, step: BoundedStep) -> Bounds:
    """Return the bounds of a step from two simulations, by the least and the most that it may be.

    `step` is why there are two. The pool may reserve more for the least, whose tensors leave other
    free blocks.
    """
    reserved = max(least.reserved, most.reserved)
    return Bounds(max(least.by_step), step.why_least, reserved, step.why_most)


def add_bounds(answer: PlannerAnswer, bounds: Bounds) -> None:
    """Write bounds into the answer of a case that is not planned."""
    answer.parts[AT_LEAST] = bounds.least
    if bounds.most is not None:
        answer.parts[AT_MOST] = bounds.most
    answer.notes = [*answer.notes, bounds.describe()]


def round_to_pages(life: Life) -> int:
    """Return the bytes of whole pages that hold the request."""
    return round_up(life.size, PAGE)
