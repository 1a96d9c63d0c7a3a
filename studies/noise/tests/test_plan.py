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

READY = {name: Environment(name, "1", Path("python")) for name in FRAMEWORKS}


@pytest.mark.parametrize("size", ["tiny", "cpu"])
def test_there_are_sixty_comparisons_of_equal_variants_over_all_frameworks(size: str) -> None:
    found = plan.cases(size)
    assert all(is_declared(case) and not runner.explain_unsupported(case) for case in found)
    assert len(set(found)) == len(found)
    groups = plan.timed(found, READY)
    assert sum(count_equal(group) // 2 for group in groups) >= 60
    assert {case.framework for case in found} == set(FRAMEWORKS)
    slowdowns = [variant.spin for group in groups for variant in group.always]
    for share in plan.SPINS:
        assert slowdowns.count(share) == len(found)
    larger = plan.larger_cases(size)
    held = plan.held(larger, READY)
    additions = [variant.extra for group in held for variant in group.always]
    assert additions.count(0) // 2 >= 60
    for share in plan.EXTRAS:
        assert additions.count(share) == len(larger)
    assert not any(group.others for group in groups), "what is compared is in one block"


def test_each_slowed_variant_has_an_equal_one_of_its_own() -> None:
    (group,) = plan.timed(plan.cases("tiny")[:1], READY)
    slowed = [variant for variant in group.always if variant.spin]
    assert len(slowed) <= count_equal(group)


def count_equal(group: Group) -> int:
    """Count the variants of a group in which nothing is planted."""
    return sum(not variant.planted_differences for variant in group.always)


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
