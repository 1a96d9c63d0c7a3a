"""The plan of the study: enough comparisons whose answer is known, and a load that ends."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.groups import Group
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import is_declared
from studies.noise import plan
from studies.noise.planting import get_planted_shares

READY = {name: Environment(name, "1", Path("python")) for name in FRAMEWORKS}


@pytest.mark.parametrize("size", ["tiny", "cpu"])
def test_there_are_sixty_comparisons_of_equal_variants_over_all_frameworks(
    size: str, tmp_path: Path
) -> None:
    found = plan.cases(size)
    assert all(is_declared(case) and not runner.explain_unsupported(case) for case in found)
    assert len(set(found)) == len(found)
    groups = plan.timed(found, READY, tmp_path)
    assert sum(count_equal(group) // 2 for group in groups) >= 60
    assert {case.framework for case in found} == set(FRAMEWORKS)
    slowdowns = list_shares(groups, "spin")
    for share in plan.SPINS:
        assert slowdowns.count(share) == len(found)
    larger = plan.larger_cases(size)
    held = plan.held(larger, READY, tmp_path)
    additions = list_shares(held, "extra")
    assert additions.count(0) // 2 >= 60
    for share in plan.EXTRAS:
        assert additions.count(share) == len(larger)
    assert not any(group.others for group in groups), "what is compared is in one block"


def test_each_slowed_variant_has_an_equal_one_of_its_own(tmp_path: Path) -> None:
    (group,) = plan.timed(plan.cases("tiny")[:1], READY, tmp_path)
    assert len(group.always) - count_equal(group) <= count_equal(group)


def list_shares(groups: list[Group], name: str) -> list[float]:
    """Return the share of this name that is planted in each variant, 0 where nothing is."""
    shares = []
    for group in groups:
        shares += [get_planted_shares(variant).get(name, 0) for variant in group.always]
    return shares


def count_equal(group: Group) -> int:
    """Count the variants of a group in which nothing is planted."""
    return sum(not get_planted_shares(variant) for variant in group.always)


def test_the_load_ends() -> None:
    me = psutil.Process()
    before = {p.pid for p in me.children()}
    with plan.busy(2):
        load = [p for p in me.children() if p.pid not in before]
        assert len(load) >= 2
        time.sleep(0.3)
        assert any(p.cpu_times().user > 0 for p in load)
    assert not [
        p
        for p in load
        if p.is_running() and p.status() != psutil.STATUS_ZOMBIE and p.name() != "resource_tracker"
    ][2:]
