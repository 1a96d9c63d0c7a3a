"""Formulas of what a rank holds, and the rules by which implementations divide."""

import pytest

from framebench.ranks import sharding

SHAPES = [(10, 4), (3,), (1, 5)]  # 48 numbers


def test_formulas_give_the_gigabytes_of_the_zero_paper():
    """Figure 1 of Rajbhandari et al. 2020 has 7.5 B parameters over 64 ranks."""
    for name, gigabytes in (
        ("nothing divided", 120),
        ("ZeRO-1, mixed precision", 31.4),
        ("ZeRO-2, mixed precision", 16.6),
        ("ZeRO-3, mixed precision", 1.9),
    ):
        size = sharding.FORMULAS[name].compute(7_500_000_000, 64)
        assert size / 1e9 == pytest.approx(gigabytes, abs=0.06)


def test_each_rule_counts_the_numbers_of_the_fullest_rank():
    assert sharding.count_all(SHAPES, 4) == 48
    # three of the ten rows of (10, 4), one number of (3,), the only row of (1, 5)
    assert sharding.count_first_chunks(SHAPES, 4) == 3 * 4 + 1 + 5
    assert sharding.count_whole_tensors(SHAPES, 2) == 40, "the largest tensor is one rank's"
    # only (10, 4) has an axis that four ranks divide evenly; the others stay whole
    assert sharding.count_longest_axis(SHAPES, 4) == 40 // 4 + 3 + 5
    # 50 numbers
    assert sharding.count_even_parts([(10, 5)], 4) == 14, "an even number, so 6 are padding"
    assert sharding.count_touched_tensors(SHAPES, 2) == 48, (
        "the second half begins inside the first tensor"
    )
    # each half is whole tensors
    assert sharding.count_touched_tensors([(2,), (2,), (4,)], 2) == 4
    # a quarter of the 40, 3 and 5 numbers of each tensor, rounded up
    assert sharding.count_parts_of_each(SHAPES, 4) == 10 + 1 + 2


@pytest.mark.parametrize(
    "rule", [rule for name, rule in sharding.RULES.items() if name != "sixteenth"]
)
def test_the_fullest_rank_has_at_least_its_share(rule):
    assert rule(SHAPES, 1) == 48
    for ranks in (2, 3, 4, 64):
        assert rule(SHAPES, ranks) * ranks >= 48


def test_a_strategy_holds_its_parts_by_their_rules():
    """Everything is in float32, and Adam has two moments."""
    sizes = sharding.STRATEGIES["zero_optimizer"].count_bytes(SHAPES, 2)
    assert sizes == {
        "parameters": 4 * 48,
        "gradients": 4 * 48,
        "gradient buckets": 4 * 48,
        "optimizer states": 2 * 4 * 40,
    }
