"""What one rank holds of a model's states between two steps: published formulas, and counts by each
implementation's rule.

The states are Adam's where nothing else is said. This is only arithmetic on shapes; tests of real
and of predicted ranks check that frameworks hold just this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from framebench.suite.case import Case

Shapes = Sequence[tuple[int, ...]]
# shapes of the tensors, and ranks -> numbers that the fullest rank holds
Rule = Callable[[Shapes, int], int]
WIDE = 4  # bytes of float32
# what a rank holds, by a record's names
PARTS = (
    "parameters",
    "copy of the weights",
    "gradients",
    "gradient buckets",
    "optimizer states",
)


@dataclass(frozen=True)
class Formula:
    """Bytes of one rank, of a strategy that shards parameters, gradients or states."""

    name: str
    whole: int  # per parameter, on every rank
    shared: int  # per parameter, divided by the number of ranks
    source: str
    layer: int = 0  # per parameter of the largest layer

    def at(self, parameters: int, ranks: int, largest: int = 0) -> float:
        """Return the bytes of one rank.

        Args:
            parameters: Of the model.
            ranks: The number of ranks.
            largest: The parameters of the largest layer.
        """
        return self.whole * parameters + self.shared * parameters / ranks + self.layer * largest


PAPER = "Rajbhandari et al. 2020, figure 1: 2 + 2 in 16 bits, 12 for a float32 copy and two moments"
OURS = "the same division of 4 + 4 + 8 bytes in float32"
NO_SHARING = Formula("nothing divided", 16, 0, PAPER)
MIXED = (
    NO_SHARING,
    Formula("ZeRO-1, mixed precision", 4, 12, PAPER),
    Formula("ZeRO-2, mixed precision", 2, 14, PAPER),
    Formula("ZeRO-3, mixed precision", 0, 16, PAPER),
)
ZERO_1 = Formula("ZeRO-1, float32", 8, 8, OURS)
ZERO_2 = Formula("ZeRO-2, float32", 4, 12, OURS)
ZERO_3 = Formula("ZeRO-3, float32", 0, 16, OURS)
ESTIMATE_2 = Formula(
    "estimate_zero2_model_states_mem_needs",
    2,
    18,
    "DeepSpeed's stage_1_and_2.py: 18 = 2 + 4 for gradients in 16 and 32 bits, 4 + 8 for copy "
    "and moments",
)
ESTIMATE_3 = Formula(
    "estimate_zero3_model_states_mem_needs",
    0,
    18,
    "DeepSpeed's stage3.py: likewise, and 4 bytes for each parameter of the largest layer",
    layer=4,
)
FORMULAS = (*MIXED, ZERO_1, ZERO_2, ZERO_3, ESTIMATE_2, ESTIMATE_3)


def count_all(shapes: Shapes, ranks: int) -> int:
    """Count everything: nothing is divided."""
    return sum(map(prod, shapes))


def count_first_chunks(shapes: Shapes, ranks: int) -> int:
    """Count as `fully_shard` does, which cuts the first axis into equal parts, and pads each rank's
    to the longest.
    """
    return sum(divide_up(shape[0], ranks) * prod(shape[1:]) for shape in shapes)


def count_whole_tensors(shapes: Shapes, ranks: int) -> int:
    """Count as `ZeroRedundancyOptimizer` does, which hands out whole tensors."""
    return max(hand_out(shapes, ranks))


def find_fullest_rank(case: Case) -> int:
    """Return the number of the rank that holds most.

    That is the first one where each tensor is divided: it has more of one that does not divide.
    ZeroRedundancyOptimizer hands out whole tensors.
    """
    if not any(part.how == "zero_optimizer" for part in case.parts):
        return 0
    shapes = [param.shape for param in case.spec.params(case.config) if param.trainable]
    shares = hand_out(shapes, case.ranks)
    return shares.index(max(shares))


def hand_out(shapes: Shapes, ranks: int) -> list[int]:
    """Return each rank's share of whole tensors: the largest goes first, each to the rank that has
    least.
    """
    shares = [0] * ranks
    for size in sorted(map(prod, shapes), reverse=True):
        shares[shares.index(min(shares))] += size
    return shares


def count_longest_axis(shapes: Shapes, ranks: int) -> int:
    """Count as `adapters/jax/ranks.py` does, which divides an axis that the ranks divide; a tensor
    without one stays whole.

    It takes the longest such axis, which makes no difference to the count.
    """
    total = 0
    for shape in shapes:
        is_divided = any(length % ranks == 0 for length in shape)
        total += prod(shape) // ranks if is_divided else prod(shape)
    return total


def count_even_parts(shapes: Shapes, ranks: int) -> int:
    """Count as DeepSpeed's stages 1 and 2 do: all tensors in a row, cut into equal parts of an even
    length.
    """
    return 2 * divide_up(count_all(shapes, ranks), 2 * ranks)


def count_padded_row(shapes: Shapes, ranks: int) -> int:
    """Count the weights of DeepSpeed's stages 1 and 2, which are views of the row, whose end is
    padded.
    """
    return ranks * count_even_parts(shapes, ranks)


def count_touched_tensors(shapes: Shapes, ranks: int) -> int:
    """Count the gradients of DeepSpeed's stages 1 and 2: a rank keeps each tensor whole that its
    part has a piece of.

    The last rank keeps the padding, too.
    """
    padding = count_padded_row(shapes, ranks) - count_all(shapes, ranks)
    sizes = [*map(prod, shapes), padding]
    part = count_even_parts(shapes, ranks)
    shares = []
    for rank in range(ranks):
        share = 0
        begin = 0  # of a tensor in the row
        for size in sizes:
            end = begin + size
            if begin < (rank + 1) * part and rank * part < end:
                share += size
            begin = end
        shares.append(share)
    return max(shares)


def count_parts_of_each(shapes: Shapes, ranks: int) -> int:
    """Count as DeepSpeed's stage 3 does, which cuts each tensor into equal parts, and pads the
    last.
    """
    return sum(divide_up(prod(shape), ranks) for shape in shapes)


def count_sixteenth(shapes: Shapes, ranks: int) -> int:
    """Count the bucket that `adapters/torch/deepspeed.py` asks for."""
    return count_all(shapes, ranks) // 16


def divide_up(number: int, divisor: int) -> int:
    """Divide and round up."""
    return -(-number // divisor)


@dataclass(frozen=True)
class HeldStates:
    """What a rank holds under a strategy: the rule for each part, and the formula that is published
    for it.
    """

    formula: Formula
    parameters: Rule
    states: Rule
    gradients: Rule | None = None  # None: they live inside the step
    buckets: Rule | None = None
    why: str = ""  # where the counts differ from the formula
    copy: Rule | None = None  # of the weights that this rank updates

    def bytes(self, shapes: Shapes, ranks: int, states: int = 2) -> dict[str, int]:
        """Return the bytes of each part by its name in a record's `ranks`.

        Args:
            shapes: Those of all parameters.
            ranks: How many there are.
            states: Numbers that the optimizer keeps for each weight.
        """
        rules = {
            "parameters": self.parameters,
            "copy of the weights": self.copy,
            "gradients": self.gradients,
            "gradient buckets": self.buckets,
        }
        parts = {name: WIDE * rule(shapes, ranks) for name, rule in rules.items() if rule}
        parts["optimizer states"] = states * WIDE * self.states(shapes, ranks)
        return parts


INSIDE = "gradients are not counted: they live inside the compiled step"
FULLY_SHARDED = HeldStates(
    Formula("ZeRO-3 without gradients", 0, 12, ""),
    parameters=count_longest_axis,
    states=count_longest_axis,
)
STRATEGIES = {
    "ddp": HeldStates(
        NO_SHARING,
        parameters=count_all,
        states=count_all,
        gradients=count_all,
        buckets=count_all,
        why="the buckets hold every gradient once more",
    ),
    "ddp_bucket_view": HeldStates(
        NO_SHARING,
        parameters=count_all,
        states=count_all,
        gradients=count_all,
    ),
    "zero_optimizer": HeldStates(
        ZERO_1,
        parameters=count_all,
        states=count_whole_tensors,
        gradients=count_all,
        buckets=count_all,
        why="the buckets of DistributedDataParallel, and whole tensors that do not divide evenly",
    ),
    "deepspeed_zero0": HeldStates(
        NO_SHARING,
        parameters=count_all,
        states=count_all,
        gradients=count_all,
    ),
    "deepspeed_zero1": HeldStates(
        ZERO_1,
        parameters=count_padded_row,
        states=count_even_parts,
        gradients=count_touched_tensors,
        copy=count_even_parts,
        why="a copy of the part's weights; at the end of the backward pass only the part's "
        "gradients are left",
    ),
    "deepspeed_zero2": HeldStates(
        ESTIMATE_2,
        parameters=count_padded_row,
        states=count_even_parts,
        gradients=count_touched_tensors,
        copy=count_even_parts,
        why=(
            "the estimate is of 16 bits: in float32 4 + 16 / N, and the gradients of the "
            "tensors at a part's ends are whole"
        ),
    ),
    "deepspeed_zero3": HeldStates(
        ESTIMATE_3,
        parameters=count_parts_of_each,
        states=count_parts_of_each,
        gradients=count_parts_of_each,
        buckets=count_sixteenth,
        copy=count_parts_of_each,
        why="the estimate is of 16 bits: in float32 20 / N; a bucket that stays; no layer is "
        "whole between two steps",
    ),
    "fsdp_keep": HeldStates(
        ZERO_2,
        parameters=count_first_chunks,
        states=count_first_chunks,
        gradients=count_first_chunks,
        why="weights are whole inside the step only, and divided between two steps",
    ),
    "fsdp": HeldStates(
        ZERO_3,
        parameters=count_first_chunks,
        states=count_first_chunks,
        gradients=count_first_chunks,
        why="the first axis is padded to a multiple of the ranks",
    ),
    "replicated": HeldStates(
        Formula("", 12, 0, ""),
        parameters=count_all,
        states=count_all,
        why=INSIDE,
    ),
    "sharded_states": HeldStates(
        Formula("ZeRO-1 without gradients", 4, 8, ""),
        parameters=count_all,
        states=count_longest_axis,
    ),
    "fully_sharded": FULLY_SHARDED,
    "fully_sharded_processes": FULLY_SHARDED,
}
