"""The plan of the study: enough comparisons whose answer is known, and a load that ends."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.features.study import measure as study
from framebench.suite.case import declared
from framebench.suite.strategy import FRAMEWORKS
from tests.processes import framebench

READY = {name: Environment(name, "1", Path("python")) for name in FRAMEWORKS}


@pytest.mark.parametrize("size", ["tiny", "cpu"])
def test_there_are_sixty_comparisons_of_equal_arms_over_all_frameworks(size: str) -> None:
    found = study.cases(size)
    assert all(declared(case) and not runner.unsupported(case) for case in found)
    assert len(set(found)) == len(found)
    groups = study.timed(found, READY)
    equal = [sum(not arm.planted for arm in group.always) // 2 for group in groups]
    assert sum(equal) >= 60
    assert {case.framework for case in found} == set(FRAMEWORKS)
    for share in study.SPINS:
        assert sum(arm.spin == share for group in groups for arm in group.always) == len(found)
    larger = study.larger_cases(size)
    held = study.held(larger, READY)
    assert sum(arm.extra == 0 for group in held for arm in group.always) // 2 >= 60
    for share in study.EXTRAS:
        assert sum(arm.extra == share for group in held for arm in group.always) == len(larger)
    assert not any(group.others for group in groups), "what is compared is in one block"


def test_each_slowed_arm_has_an_equal_one_of_its_own() -> None:
    (group,) = study.timed(study.cases("tiny")[:1], READY)
    assert len([arm for arm in group.always if arm.spin]) <= len([arm for arm in group.always if not arm.planted])


def test_the_load_ends() -> None:
    me = psutil.Process()
    before = {p.pid for p in me.children()}
    with study.busy(2):
        load = [p for p in me.children() if p.pid not in before]
        assert len(load) >= 2
        time.sleep(0.3)
        assert any(p.cpu_times().user > 0 for p in load)
    assert not [p for p in load if p.is_running() and p.status() != psutil.STATUS_ZOMBIE and p.name() != "resource_tracker"][2:]


def test_a_condition_that_is_none_is_answered(results: Path) -> None:
    done = framebench("dev", "study", "calm", "--results", str(results))
    assert done.returncode == 2
    assert "choose quiet or loaded" in done.stderr
    done = framebench("dev", "study", "quiet", "--part", "speed", "--results", str(results))
    assert (done.returncode, "choose time or memory" in done.stderr) == (2, True)
