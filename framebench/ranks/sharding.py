"""Compute what one rank holds of a model's states between two steps.

There are published formulas (`formulas.csv`), and counts by each implementation's rule:
`strategies.csv` has the rule by which a strategy divides each part of what a rank holds. The states
are Adam's where nothing else is said. This is only arithmetic on shapes; tests of real and of
predicted ranks check that frameworks hold just this.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from framebench.suite.case import Case

Shapes = Sequence[tuple[int, ...]]
# shapes of the tensors, and the number of ranks -> elements that the fullest rank holds
Rule = Callable[[Shapes, int], int]
FLOAT32_BYTES = 4  # bytes of float32
# the parts of a rank's memory, by the names in records
PARTS = (
    "parameters",
    "copy of the weights",
    "gradients",
    "gradient buckets",
    "optimizer states",
)


@dataclass(frozen=True)
class Formula:
    """Compute the bytes of one rank by a published formula of sharded training."""

    name: str
    whole: int  # per parameter, on every rank
    shared: int  # per parameter, divided by the number of ranks
    layer: int  # per parameter of the largest layer
    source: str  # empty if nobody published it

    def compute(self, parameters: int, ranks: int, largest: int = 0) -> float:
        """Return the bytes of one rank.

        Args:
            parameters: The number of the model's parameters.
            ranks: The number of ranks.
            largest: The parameters of the largest layer.
        """
        return self.whole * parameters + self.shared * parameters / ranks + self.layer * largest


@dataclass(frozen=True)
class HeldStates:
    """The bytes that a rank holds under a strategy, by a rule for each part and by a formula."""

    formula: Formula  # the published one
    rules: dict[str, Rule]  # by part; a part without a rule is not there between two steps
    why: str  # where the counts differ from the formula

    def count_bytes(self, shapes: Shapes, ranks: int, states: int = 2) -> dict[str, int]:
        """Return the bytes of each part of a rank's memory by its name, one of PARTS.

        Args:
            shapes: Those of all parameters.
            ranks: How many there are.
            states: Elements that the optimizer keeps for each weight; Adam keeps two.
        """
        sizes = {part: FLOAT32_BYTES * rule(shapes, ranks) for part, rule in self.rules.items()}
        sizes["optimizer states"] *= states
        return sizes


def count_all(shapes: Shapes, ranks: int) -> int:
    """Return how many elements all tensors have; each rank holds them if nothing is divided."""
    return sum(map(prod, shapes))


def count_first_chunks(shapes: Shapes, ranks: int) -> int:
    """Return the elements of the first rank, as `fully_shard` cuts each tensor's first axis.

    The axis is cut in equal parts, each padded to the longest.
    """
    return sum(divide_up(shape[0], ranks) * prod(shape[1:]) for shape in shapes)


def count_whole_tensors(shapes: Shapes, ranks: int) -> int:
    """Return the elements of the fullest rank if whole tensors are handed out.

    `ZeroRedundancyOptimizer` does so.
    """
    return max(hand_out(shapes, ranks))


def hand_out(shapes: Shapes, ranks: int) -> list[int]:
    """Return each rank's share of whole tensors.

    The largest tensor goes first, each to the rank that has least.
    """
    shares = [0] * ranks
    for size in sorted(map(prod, shapes), reverse=True):
        shares[shares.index(min(shares))] += size
    return shares


def find_fullest_rank(case: Case) -> int:
    """Return the number of the rank that holds most.

    If each tensor is divided, it is the first rank, which gets the longest chunk of a tensor that
    the ranks do not divide evenly. ZeroRedundancyOptimizer hands out whole tensors, so that the
    rank depends on their sizes.
    """
    if not any(part.switch == "zero_optimizer" for part in case.parts):
        return 0
    shapes = [param.shape for param in case.workload_spec.params(case.config) if param.trainable]
    shares = hand_out(shapes, case.ranks)
    return shares.index(max(shares))


def count_longest_axis(shapes: Shapes, ranks: int) -> int:
    """Return the elements of a rank as `adapters/jax/ranks.py` cuts each tensor's longest axis.

    Only axes that the ranks divide evenly count; a tensor without one stays whole. Which axis is
    cut makes no difference to the number.
    """
    total = 0
    for shape in shapes:
        is_divided = any(length % ranks == 0 for length in shape)
        total += prod(shape) // ranks if is_divided else prod(shape)
    return total


def count_even_parts(shapes: Shapes, ranks: int) -> int:
    """Return the weights of one rank's part under DeepSpeed's stages 1 and 2.

    These stages lay all tensors end to end in a flat buffer, and cut it into equal parts of an even
    length.
    """
    pairs = divide_up(count_all(shapes, ranks), 2 * ranks)
    return 2 * pairs


def count_flat_buffer(shapes: Shapes, ranks: int) -> int:
    """Return the length of the flat buffer that each rank holds under DeepSpeed's stages 1 and 2.

    All weights are views of it. Its end is padded, so that the ranks' parts are equal
    (`count_even_parts`).
    """
    return ranks * count_even_parts(shapes, ranks)


def count_touched_tensors(shapes: Shapes, ranks: int) -> int:
    """Return the most gradients that a rank holds under DeepSpeed's stages 1 and 2.

    A rank holds the whole of each tensor that its part of the flat buffer touches. The last rank
    also has the padding.
    """
    padding = count_flat_buffer(shapes, ranks) - count_all(shapes, ranks)
    part = count_even_parts(shapes, ranks)
    shares = [0] * ranks
    begin = 0  # of a tensor in the flat buffer
    for size in [*map(prod, shapes), padding]:
        end = begin + size
        for rank in range(ranks):
            if begin < (rank + 1) * part and rank * part < end:
                shares[rank] += size
        begin = end
    return max(shares)


def count_parts_of_each(shapes: Shapes, ranks: int) -> int:
    """Return the elements of a rank under DeepSpeed's stage 3.

    It cuts each tensor into equal parts, and pads the last one.
    """
    return sum(divide_up(prod(shape), ranks) for shape in shapes)


def count_sixteenth(shapes: Shapes, ranks: int) -> int:
    """Return the elements of the bucket that `adapters/torch/deepspeed.py` asks for."""
    return count_all(shapes, ranks) // 16


def divide_up(number: int, divisor: int) -> int:
    """Return the quotient, rounded up."""
    return -(-number // divisor)


RULES: dict[str, Rule] = {
    "everything": count_all,
    "first axis": count_first_chunks,
    "whole tensors": count_whole_tensors,
    "longest axis": count_longest_axis,
    "even parts": count_even_parts,
    "flat buffer": count_flat_buffer,
    "touched tensors": count_touched_tensors,
    "parts of each": count_parts_of_each,
    "sixteenth": count_sixteenth,
}


def read_formulas() -> dict[str, Formula]:
    """Return the formulas by name, in the order of the table."""
    formulas = {}
    for row in read_rows("formulas.csv"):
        formulas[row["name"]] = Formula(
            name=row["name"],
            whole=int(row["whole"]),
            shared=int(row["shared"]),
            layer=int(row["layer"]),
            source=row["source"],
        )
    return formulas


def read_strategies() -> dict[str, HeldStates]:
    """Return, by strategy, the rules for the bytes that a rank holds."""
    strategies = {}
    for row in read_rows("strategies.csv"):
        rules = {part: RULES[row[part]] for part in PARTS if row[part]}
        states = HeldStates(FORMULAS[row["formula"]], rules, row["why"])
        strategies[row["strategy"]] = states
    return strategies


def read_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table next to this file."""
    with Path(__file__).with_name(name).open(newline="") as file:
        return list(csv.DictReader(file))


FORMULAS = read_formulas()
STRATEGIES = read_strategies()
