"""The cases of a model of the user's own, measured block by block until their ratios are decided."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

from framebench.engine import blocks, runner
from framebench.engine.groups import Group
from framebench.engine.timed_process import Arm
from framebench.user_model.look import compiles


def _went_wrong(arm: Arm, run: blocks.Run) -> bool:
    """Seen in a first look, if there was one."""
    records = run.records(arm)
    return bool(records) and records[-1].status != "ok"


def measure_blocks(arms: list[Arm], run: blocks.Run, least: int, seconds: float, decided: Callable[[list[Arm]], bool]) -> None:
    """At least so many blocks of these arms, of which the first is the baseline, and more until their ratios are decided, as
    far as these end so many seconds after the beginning.

    What did not come out right in the first block, or takes many times as long because the processor has no units for it, is in
    no other: its interval is not worth the wait. What torch.compile takes a minute for comes last, two at once: beside one,
    what is built in seconds would wait.
    """
    if _went_wrong(arms[0], run):
        return
    arms = [arms[0], *sorted((arm for arm in arms[1:] if not _went_wrong(arm, run)), key=lambda arm: compiles(arm.case))]
    began = time.monotonic()
    for number in count():
        before = time.monotonic()
        blocks.measure_group(Group(arms[0].case.id, tuple(arms[:1]), tuple(arms[1:])), run, number)
        done = [arm for arm in arms if not run.records(arm)[-1].usable or runner.too_slow(arm.case)]
        for arm in done:
            run.listener.skipped(arm.case)
        if arms[0] in done:
            return
        arms = [arm for arm in arms if arm not in done]
        now = time.monotonic()
        if number + 1 >= least and (now - began + (now - before) > seconds or decided(arms)):
            return


def notes(facts: dict[str, Any]) -> list[str]:
    """What verification cannot see in this model."""
    said, gets = [], facts.get("without_gradient", {"first": 0, "ever": [], "weights": 0})
    none = f"of {gets['weights']} weights get no gradient, or one of zeros"
    if gets["ever"]:
        said.append(f"{len(gets['ever'])} {none}, such as {gets['ever'][0]}")
    elif gets["first"]:
        said.append(f"{gets['first']} {none}, in the first step: the second verifies them")
    if facts.get("narrow"):
        said.append("the file computes in a lower precision by itself: its strategies are checked in that precision alone")
    if facts.get("compiled"):
        said.append("the file compiles its model: strategies run it uncompiled, but for those that compile")
    if facts.get("level"):
        said.append("a step moves the loss by less than float32 shows: that weights are updated is seen by the weights alone")
    return said
