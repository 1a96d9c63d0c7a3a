"""What is said while the largest batches are searched for."""

from framebench.devices.catalog import find
from framebench.devices.fit.fitting import MOST_PLANS, PredictedBatchSearch
from framebench.devices.fit.rounds import SearchRounds
from framebench.suite.case import Case
from tests.devices.fake_predictions import make_planned, make_unplanned


def test_progress_tells_the_round_and_failed_plans():
    searches = []
    for framework in ("torch", "jax"):
        case = Case("transformer", framework, "train", "fp32", 1, "full")
        searches.append(PredictedBatchSearch(case, find("a100-40gb")))
    rounds = SearchRounds(searches)
    torch, jax = rounds.begin()
    rounds.keep(make_planned(case=torch.id, framework="torch", device="a100-40gb"))
    rounds.keep(make_unplanned("failed", case=jax.id, device="a100-40gb"))
    assert rounds.describe() == f"round 1 of at most {MOST_PLANS}: 1 of 2 planned, 1 failed"
