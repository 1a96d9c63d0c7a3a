"""The answer in words: the least memory of each framework, and its cost in time."""

from __future__ import annotations

import re
from dataclasses import replace

from framebench.analysis import frames
from framebench.publish.readme.in_words import describe_training
from framebench.suite.case import Case
from tests.fake_records import blocks

FP32, CHECKPOINT, ACCUMULATE = (
    Case("transformer", "torch", "train", strategy, 4, "cpu")
    for strategy in ("fp32", "checkpoint", "accumulate")
)


def message(times: list[list[list[float]]], peaks: list[int]) -> tuple[str, ...]:
    """Of three strategies with these seconds, by block and round, and peaks."""
    found = blocks(list(zip((FP32, CHECKPOINT, ACCUMULATE), times)), peaks=peaks)
    return describe_training(frames.make_frame(found), "m").lines


def sizes(*mib: int) -> list[int]:
    return [size * 2**20 for size in mib]


def steady(seconds: float) -> list[list[float]]:
    return [[seconds * (1 + 0.001 * (block % 3))] * 8 for block in range(5)]


def test_the_least_memory_and_what_it_costs() -> None:
    lines = message([steady(1.0), steady(1.3), steady(1.1)], sizes(200, 100, 150))
    start = (
        "**Transformer**, training at batch 4. PyTorch needs 105 MiB with `checkpoint` (50% of "
        "`fp32`, "
    )
    assert lines == (f"{start}1.30 x the time).",)
    wild = [[0.8 + 0.4 * ((block * 7 + turn) % 3)] * 8 for turn, block in enumerate(range(5))]
    (line,) = message([steady(1.0), wild, steady(1.1)], sizes(200, 100, 150))
    assert re.fullmatch(re.escape(start) + r"0\.\d\d to 1\.\d\d x the time\)\.", line)


def test_the_least_memory_is_of_all_proven_strategies_and_says_that_it_was_not_timed() -> None:
    never: list[list[float]] = [[float("nan")] * 8] * 5
    first = "PyTorch needs 105 MiB with `accumulate` (50% of `fp32`, not timed)"
    (line,) = message([steady(1.0), never, never], sizes(200, 150, 100))
    assert line.endswith(f"{first}.")
    (line,) = message([steady(1.0), steady(1.3), never], sizes(200, 150, 100))
    assert line.endswith(f"{first}, or 158 MiB with `checkpoint` (75% of `fp32`, 1.30 x the time).")


def test_missing_times_come_from_another_machine_of_the_same_kind() -> None:
    never: list[list[float]] = [[float("nan")] * 8] * 5
    mine, other = (
        frames.make_frame(blocks([(FP32, steady(1.0)), (ACCUMULATE, times)], peaks=sizes(200, 100)))
        for times in (never, steady(1.2))
    )
    tables = {"m": mine, "n": other}
    (line,) = describe_training(mine, "m", tables).lines
    assert line.endswith(
        "PyTorch needs 105 MiB with `accumulate` (50% of `fp32`, 1.20 x the time on `n`)."
    )
    (line,) = describe_training(other, "n", tables).lines
    assert line.endswith("(50% of `fp32`, 1.20 x the time).")
    (line,) = describe_training(mine, "m", {"n": other.assign(device="gpu")}).lines
    assert "not timed" in line, "a device of another kind says nothing"


def test_a_share_that_depends_on_the_batch_is_said_with_the_batch_where_it_differs_most() -> None:
    """By the records of this machine, or else of another of the same kind."""
    mine = frames.make_frame(
        blocks([(FP32, steady(1.0)), (ACCUMULATE, steady(1.1))], peaks=sizes(200, 100))
    )
    records = []
    for batch, peak in ((4, 100), (8, 96), (16, 60)):
        arms = [(replace(case, batch=batch), steady(1.0)) for case in (FP32, ACCUMULATE)]
        records += blocks(arms, peaks=sizes(200, peak))
    other = frames.make_frame(records)
    tables = {"m": mine, "n": other}
    (line,) = describe_training(mine, "m", tables).lines
    assert line.endswith("(50% of `fp32`, 1.10 x the time; 30% at batch 16).")
    (line,) = describe_training(mine, "m", {"n": other.query("batch < 16")}).lines
    assert line.endswith("(50% of `fp32`, 1.10 x the time)."), "two points are no dependence"
    (line,) = describe_training(mine, "m", {"n": other.assign(device="gpu")}).lines
    assert line.endswith("(50% of `fp32`, 1.10 x the time).")
