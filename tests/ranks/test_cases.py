"""Cases over ranks: their ids, how a batch is divided, and what a wrong one is answered with."""

from fnmatch import fnmatch

import pytest

from framebench.ranks.cases import match_cases, over_ranks
from framebench.strategies.registry import OVER_RANKS, STRATEGIES
from framebench.suite.case import Case, UnknownCase
from framebench.suite.hypothetical import parse_any_batch
from framebench.suite.profiles import list_cases
from framebench.suite.selectors import asks_for_ranks, select

FSDP = "transformer/torch/train/fsdp"


def test_the_id_tells_the_ranks_and_parses_back():
    case = Case("transformer", "torch", "train", "fsdp", 4, "tiny", ranks=2)
    assert case.id == f"{FSDP}/b4x2/tiny"
    assert Case.from_id(case.id) == case == over_ranks(case.id) == over_ranks(f"{FSDP}/b4/tiny", 2)
    assert Case.from_id("transformer/torch/train/fp32/b4/tiny").ranks == 1


@pytest.mark.parametrize(
    ("batch", "ranks", "samples"),
    [(4, 2, 4), (4, 3, 6), (4, 64, 64), (1, 2, 2), (1024, 1024, 1024)],
)
def test_every_rank_has_as_many_samples_and_at_least_one(batch, ranks, samples):
    assert over_ranks(f"{FSDP}/b{batch}", ranks).id == f"{FSDP}/b{samples}x{ranks}/cpu"
    combined = over_ranks(f"{FSDP}+checkpoint/b{batch}", ranks)
    assert (combined.strategy, combined.batch) == ("checkpoint+fsdp", samples)


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
        over_ranks(case, ranks)
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
def test_rank_cases_are_recognized_by_strategy_or_batch(selector, has_ranks):
    assert asks_for_ranks(selector) == has_ranks


def test_selectors_of_ranks_select_strategies_and_batches():
    cases = select("transformer/torch/train/{ddp,fsdp_k*}/b4x2/tiny", ranks=True)
    assert [case.id for case in cases] == [
        "transformer/torch/train/ddp/b4x2/tiny",
        "transformer/torch/train/fsdp_keep/b4x2/tiny",
    ]
    assert {case.ranks for case in select("transformer/torch/train")} == {1}


def test_single_process_profiles_have_no_rank_strategies():
    assert not OVER_RANKS.keys() & STRATEGIES.keys()
    for case in list_cases():
        assert case.ranks == 1
        assert not case.strategy_spec.over_ranks
    with pytest.raises(UnknownCase):
        parse_any_batch(f"{FSDP}/b4/cpu")


def test_micro_batches_are_of_the_part_of_a_rank():
    assert "batch 2 of each rank" in over_ranks(f"{FSDP}+accumulate/b4x2").support.why
    assert over_ranks(f"{FSDP}+accumulate/b8x2").support.supported


def test_a_pattern_names_every_strategy_over_ranks_that_matches():
    cases = match_cases("transformer/torch/train/fsdp*/b8x8/full")
    ids = [case.id for case in cases]
    assert "transformer/torch/train/fsdp/b8x8/full" in ids
    assert len(ids) > 1
    for case in ids:
        assert fnmatch(case, "transformer/torch/train/fsdp*/b8x8/full")
    assert match_cases("transformer/torch/train/fsdp*/b8/full", 8) == cases


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("transformer/torch/train/nothing*/b8x8/full", "choose from: "),
        ("transformer/torch/train", "write for instance"),
        ("transformer/torch/train/fsdp/b8/full", "needs a number of ranks"),
    ],
)
def test_a_pattern_that_names_nothing_is_refused(selector, message):
    with pytest.raises(UnknownCase, match=message):
        match_cases(selector)
