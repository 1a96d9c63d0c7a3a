"""Cases over ranks: their ids, how a batch is divided, and how an invalid one is refused."""

import fnmatch

import pytest

from framebench.ranks.cases import match_cases, match_smallest_cases, parse_rank_case
from framebench.strategies.registry import OVER_RANKS, STRATEGIES
from framebench.suite.case import Case, UnknownCase
from framebench.suite.hypothetical import parse_any_batch
from framebench.suite.profiles import list_cases
from framebench.suite.selectors import asks_for_ranks, select

FSDP = "transformer/torch/train/fsdp"


def test_the_id_has_the_ranks_and_parses_back():
    case = Case("transformer", "torch", "train", "fsdp", 4, "tiny", ranks=2)
    assert case.id == f"{FSDP}/b4x2/tiny"
    assert Case.from_id(case.id) == case
    assert parse_rank_case(case.id) == case
    assert parse_rank_case(f"{FSDP}/b4/tiny", 2) == case


@pytest.mark.parametrize(
    ("batch", "ranks", "samples"),
    [(4, 2, 4), (4, 3, 6), (4, 64, 64), (1, 2, 2), (1024, 1024, 1024)],
)
def test_a_batch_is_rounded_up_to_as_many_samples_for_every_rank(batch, ranks, samples):
    assert parse_rank_case(f"{FSDP}/b{batch}", ranks).id == f"{FSDP}/b{samples}x{ranks}/cpu"


def test_a_combination_over_ranks_has_its_parts_in_order_and_a_rounded_batch():
    combined = parse_rank_case(f"{FSDP}+checkpoint/b4", 3)
    assert combined.strategy == "checkpoint+fsdp"
    assert combined.batch == 6


@pytest.mark.parametrize(("strategy", "samples"), [("fsdp", 4), ("accumulate_2+ddp", 8)])
def test_the_smallest_batch_over_ranks_has_a_sample_in_each_micro_batch(strategy, samples):
    (case,) = match_smallest_cases(f"transformer/torch/train/{strategy}/*/full", 4)
    assert case.id == f"transformer/torch/train/{strategy}/b{samples}x4/full"


@pytest.mark.parametrize(
    ("case", "ranks", "message"),
    [
        (f"{FSDP}/b4", None, "--ranks 2, or b4x2"),
        (f"{FSDP}/b4x2", 4, "b4x2 says 2 ranks, and --ranks 4"),
        (f"{FSDP}/b4", 1025, "choose from 2 to 1024"),
        (f"{FSDP}/b4", 1, "choose from 2 to 1024"),
        (
            "transformer/torch/train/fsdq/b4",
            2,
            "no strategy 'fsdq'; strategies over ranks in train: ddp,",
        ),
        ("transformer/torch/train/fp32/b4", 2, "fp32 runs in a single process"),
        ("transformer/torch/train/ddp+fsdp/b4", 2, "alternatives"),
    ],
)
def test_invalid_rank_cases_are_refused_with_a_hint(case, ranks, message):
    with pytest.raises(UnknownCase) as caught:
        parse_rank_case(case, ranks)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("selector", "has_ranks"),
    [
        (f"{FSDP}/b4", True),
        ("transformer/torch/train/checkpoint+fsdp/b4", True),
        ("transformer/torch/train/fp32/b4x2", True),
        ("transformer/torch/train/fp32/b4", False),
        ("transformer", False),
    ],
)
def test_a_selector_asks_for_ranks_by_its_strategy_or_batch(selector, has_ranks):
    assert asks_for_ranks(selector) == has_ranks


def test_a_selector_selects_cases_over_ranks_only_on_request():
    cases = select("transformer/torch/train/{ddp,fsdp_k*}/b4x2/tiny", ranks=True)
    assert [case.id for case in cases] == [
        "transformer/torch/train/ddp/b4x2/tiny",
        "transformer/torch/train/fsdp_keep/b4x2/tiny",
    ]
    assert {case.ranks for case in select("transformer/torch/train")} == {1}


def test_single_process_profiles_have_no_strategies_over_ranks():
    assert not OVER_RANKS.keys() & STRATEGIES.keys()
    for case in list_cases():
        assert case.ranks == 1
        assert not case.strategy_spec.over_ranks


def test_a_strategy_over_ranks_is_no_case_of_a_single_process():
    with pytest.raises(UnknownCase):
        parse_any_batch(f"{FSDP}/b4/cpu")


def test_micro_batches_divide_the_samples_of_each_rank():
    """Two samples cannot be divided into four micro-batches, and four can."""
    assert "batch 2 of each rank" in parse_rank_case(f"{FSDP}+accumulate/b4x2").support.why
    assert parse_rank_case(f"{FSDP}+accumulate/b8x2").support.supported


def test_a_pattern_selects_several_strategies_over_ranks():
    pattern = f"{FSDP}*/b8x8/full"
    ids = [case.id for case in match_cases(pattern)]
    assert f"{FSDP}/b8x8/full" in ids
    assert len(ids) > 1
    assert fnmatch.filter(ids, pattern) == ids


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("transformer/torch/train/nothing*/b8x8/full", "choose from: "),
        ("transformer/torch/train", "write for instance"),
        ("transformer/torch/train/fsdp/b8/full", "needs a number of ranks"),
        (f"{FSDP}/1.3B", f"names no batch; write for instance '{FSDP}/b8x4/1.3B'"),
        (FSDP, f"names no batch; write for instance '{FSDP}/b8x4/cpu'"),
    ],
)
def test_a_selector_that_matches_nothing_or_is_incomplete_is_refused(selector, message):
    with pytest.raises(UnknownCase, match=message):
        match_cases(selector)
