"""What one rank holds of a model's states between two steps, of Adam's where nothing else is said: published formulas, and the
counts by the rule of each implementation. Only arithmetic on shapes; that frameworks hold just this is what tests of real and
of predicted ranks check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

Shapes = Sequence[tuple[int, ...]]
Rule = Callable[[Shapes, int], int]  # numbers of the fullest rank
WIDE = 4  # bytes of float32


@dataclass(frozen=True)
class Formula:
    """Bytes of one rank: `whole` for each parameter, and `shared` for each, divided by the ranks."""

    name: str
    whole: int
    shared: int
    source: str
    layer: int = 0  # for each parameter of the largest layer

    def at(self, parameters: int, ranks: int, largest: int = 0) -> float:
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
FLOAT32 = (
    Formula("ZeRO-1, float32", 8, 8, OURS),
    Formula("ZeRO-2, float32", 4, 12, OURS),
    Formula("ZeRO-3, float32", 0, 16, OURS),
)
DEEPSPEED = (
    Formula(
        "estimate_zero2_model_states_mem_needs", 2, 18,
        "DeepSpeed's stage_1_and_2.py: 18 = 2 + 4 for gradients in 16 and 32 bits, 4 + 8 for copy and moments",
    ),
    Formula(
        "estimate_zero3_model_states_mem_needs", 0, 18,
        "DeepSpeed's stage3.py: likewise, and 4 bytes for each parameter of the largest layer", layer=4,
    ),
)  # fmt: skip
FORMULAS = (*MIXED, *FLOAT32, *DEEPSPEED)


def everything(shapes: Shapes, ranks: int) -> int:
    return sum(map(prod, shapes))


def first_chunks(shapes: Shapes, ranks: int) -> int:
    """`fully_shard` cuts the first axis into equal parts, and pads each rank's to the longest."""
    return sum(-(-shape[0] // ranks) * prod(shape[1:]) for shape in shapes)


def whole_tensors(shapes: Shapes, ranks: int) -> int:
    """`ZeroRedundancyOptimizer` hands out whole tensors, the largest first, each to the rank that has least."""
    shares = [0] * ranks
    for size in sorted(map(prod, shapes), reverse=True):
        shares[shares.index(min(shares))] += size
    return max(shares)


def longest_axis(shapes: Shapes, ranks: int) -> int:
    """`adapters/jax/ranks.py` divides the longest axis that so many divide, and leaves whole what has none."""
    return sum(prod(shape) // (ranks if any(n % ranks == 0 for n in shape) else 1) for shape in shapes)


def even_parts(shapes: Shapes, ranks: int) -> int:
    """DeepSpeed's stages 1 and 2 cut all tensors, laid out in a row, into equal parts of an even length."""
    return 2 * -(-everything(shapes, ranks) // (2 * ranks))


def _row_of_parts(shapes: Shapes, ranks: int) -> int:
    """Their weights are views of the row, whose end is padded."""
    return ranks * even_parts(shapes, ranks)


def touched_tensors(shapes: Shapes, ranks: int) -> int:
    """Of their gradients a rank keeps those that its part has any piece of, whole, and the last one the padding."""
    part, sizes = even_parts(shapes, ranks), [*map(prod, shapes), _row_of_parts(shapes, ranks) - everything(shapes, ranks)]
    ends = list(accumulate(sizes))
    return max(
        sum(size for size, end in zip(sizes, ends) if end - size < (i + 1) * part and i * part < end) for i in range(ranks)
    )


def parts_of_each(shapes: Shapes, ranks: int) -> int:
    """DeepSpeed's stage 3 cuts each tensor into equal parts, and pads the last."""
    return sum(-(-prod(shape) // ranks) for shape in shapes)


def _sixteenth(shapes: Shapes, ranks: int) -> int:
    """The bucket that `adapters/torch/deepspeed.py` asks for."""
    return everything(shapes, ranks) // 16


@dataclass(frozen=True)
class Held:
    """The rule for each part that a strategy has, and the formula that is published for it."""

    formula: Formula
    parameters: Rule
    states: Rule
    gradients: Rule | None = None  # None: they live inside the step
    buckets: Rule | None = None
    why: str = ""  # where the counts differ from the formula
    copy: Rule | None = None  # of the weights that this rank updates

    def bytes(self, shapes: Shapes, ranks: int, states: int = 2) -> dict[str, int]:
        """By the names that a record's `ranks` have; of an optimizer that keeps so many `states` for each weight."""
        parts = {
            "parameters": self.parameters,
            "copy of the weights": self.copy,
            "gradients": self.gradients,
            "gradient buckets": self.buckets,
        }
        bytes_by_name = {name: WIDE * rule(shapes, ranks) for name, rule in parts.items() if rule}
        return bytes_by_name | {"optimizer states": states * WIDE * self.states(shapes, ranks)}


ZERO_1, ZERO_2, ZERO_3 = FLOAT32
ESTIMATE_2, ESTIMATE_3 = DEEPSPEED
INSIDE = "gradients are not counted: they live inside the compiled step"
STRATEGIES = {
    "ddp": Held(NO_SHARING, everything, everything, everything, everything, "the buckets hold every gradient once more"),
    "ddp_bucket_view": Held(NO_SHARING, everything, everything, everything, None),
    "zero_optimizer": Held(
        ZERO_1, everything, whole_tensors, everything, everything,
        "the buckets of DistributedDataParallel, and whole tensors that do not divide evenly",
    ),
    "deepspeed_zero0": Held(NO_SHARING, everything, everything, everything),
    "deepspeed_zero1": Held(
        ZERO_1, _row_of_parts, even_parts, touched_tensors, copy=even_parts,
        why="a copy of the part's weights; at the end of the backward pass only the part's gradients are left",
    ),
    "deepspeed_zero2": Held(
        ESTIMATE_2, _row_of_parts, even_parts, touched_tensors, copy=even_parts,
        why="the estimate is of 16 bits: in float32 4 + 16 / N, and the gradients of the tensors at a part's ends are whole",
    ),
    "deepspeed_zero3": Held(
        ESTIMATE_3, parts_of_each, parts_of_each, parts_of_each, _sixteenth,
        "the estimate is of 16 bits: in float32 20 / N; a bucket that stays; no layer is whole between two steps",
        parts_of_each,
    ),
    "fsdp_keep": Held(
        ZERO_2, first_chunks, first_chunks, first_chunks, None,
        "weights are whole inside the step only, and divided between two steps",
    ),
    "fsdp": Held(ZERO_3, first_chunks, first_chunks, first_chunks, None, "the first axis is padded to a multiple of the ranks"),
    "replicated": Held(Formula("", 12, 0, ""), everything, everything, why=INSIDE),
    "sharded_states": Held(Formula("ZeRO-1 without gradients", 4, 8, ""), everything, longest_axis),
    "fully_sharded": Held(Formula("ZeRO-3 without gradients", 0, 12, ""), longest_axis, longest_axis),
    "fully_sharded_processes": Held(Formula("ZeRO-3 without gradients", 0, 12, ""), longest_axis, longest_axis),
}  # fmt: skip
