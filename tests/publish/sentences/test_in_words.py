"""The answer in words: the least memory of each framework, and its cost in time."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from framebench.analysis import frames
from framebench.publish.sentences.in_words import describe_training
from framebench.suite.case import Case
from tests.fake_records import make_blocks

FP32 = Case.from_id("transformer/torch/train/fp32/b4/cpu")
CHECKPOINT = replace(FP32, strategy="checkpoint")
ACCUMULATE = replace(FP32, strategy="accumulate")
BATCHES = {4: 100, 8: 96, 16: 60, 32: 80}  # what `accumulate` needs in MiB, the baseline 200


def make_steady(seconds: float) -> list[list[float]]:
    """Return the seconds of five blocks of eight rounds."""
    return [[seconds * (1 + 0.001 * (block % 3))] * 8 for block in range(5)]


NEVER = [[math.nan] * 8] * 5


def make_rows(*cases: tuple[Case, list[list[float]], int]) -> pd.DataFrame:
    """Return the rows of cases with these seconds and peaks in MiB."""
    variants, peaks = [], []
    for case, seconds, mib in cases:
        variants.append((case, seconds))
        peaks.append(mib * 2**20)
    return frames.make_frame(make_blocks(variants, peaks=peaks))


def describe_transformer(table: pd.DataFrame) -> str:
    (line,) = describe_training(table, "m").lines
    return line.removeprefix("**Transformer**, training at batch 4. PyTorch needs ")


@pytest.mark.parametrize(
    ("checkpoint", "accumulate", "words"),
    [
        (
            (make_steady(1.3), 100),
            (make_steady(1.1), 150),
            r"105.0 MiB with `checkpoint` (50% of `fp32`, 1.30 x the time).",
        ),
        (
            (NEVER, 150),
            (NEVER, 100),
            "105.0 MiB with `accumulate` (50% of `fp32`, not timed).",
        ),
        (
            (make_steady(1.3), 150),
            (NEVER, 100),
            "105.0 MiB with `accumulate` (50% of `fp32`, not timed), or 157.5 MiB with "
            "`checkpoint` (75% of `fp32`, 1.30 x the time).",
        ),
    ],
    ids=["timed", "not timed", "another was timed"],
)
def test_the_least_memory_has_its_cost_in_time(checkpoint, accumulate, words):
    base = (FP32, make_steady(1.0), 200)
    assert (
        describe_transformer(make_rows(base, (CHECKPOINT, *checkpoint), (ACCUMULATE, *accumulate)))
        == words
    )


def test_the_batch_with_the_most_different_share_is_named():
    tables = []
    for batch, mib in BATCHES.items():
        base, change = replace(FP32, batch=batch), replace(ACCUMULATE, batch=batch)
        tables.append(make_rows((base, make_steady(1.0), 200), (change, make_steady(1.1), mib)))
    table = pd.concat(tables)
    start = "105.0 MiB with `accumulate` (50% of `fp32`, 1.10 x the time"
    assert describe_transformer(table) == f"{start}; 30% at batch 16)."
    assert describe_transformer(table.query("batch < 16")) == f"{start})."
