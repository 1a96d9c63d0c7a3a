"""Strategies by batch: what is compared at which batch, and which savings depend on it."""

from __future__ import annotations

import math

import pandas as pd

from framebench.analysis.batch_tables import format_throughput_ratios, make_batch_tables
from framebench.analysis.rendering import Table
from tests.fake_records import make_frame, make_measured, repeat_in_blocks

MIB = 2**20
FP32 = {4: (100, 1.0), 8: (200, 2.0)}  # MiB and seconds by batch


def tabulate_strategies(**strategies: dict[int, tuple[int, float]]) -> list[Table]:
    """Return the tables of strategies by their peaks in MiB and steps in seconds at each batch."""
    records = []
    for strategy, batches in strategies.items():
        for batch, (mib, step) in batches.items():
            records.append(make_measured(strategy, mib * MIB, step=step, batch=batch))
    return list(make_batch_tables(make_frame(*repeat_in_blocks(records))))


def test_each_strategy_is_compared_with_the_baseline_of_its_batch():
    table, short = tabulate_strategies(
        fp32=FP32,
        checkpoint={4: (50, 1.25), 8: (80, 2.5)},
        amp_bf16={4: (60, 1.0), 8: (124, 2.0)},
        accumulate={4: (40, 1.0)},
    )

    assert table.title == "transformer train by batch, size tiny"
    assert table.head == (
        "framework",
        "strategy",
        "b4: peak x base",
        "b8: peak x base",
        "b4: throughput x base",
        "b8: throughput x base",
        "b4: peak MiB",
        "b8: peak MiB",
    )
    assert table.rows == (  # without the strategy at a single batch
        ("torch", "fp32", "1.00", "1.00", "1.00", "1.00", "100.0", "200.0"),
        ("torch", "amp_bf16", "0.60", "0.62", *["1.00 (1.00 to 1.00)"] * 2, "60.0", "124.0"),
        ("torch", "checkpoint", "0.50", "0.40", *["0.80 (0.80 to 0.80)"] * 2, "50.0", "80.0"),
    )
    assert table.notes == (
        "torch checkpoint depends on the batch: 50% at batch 4, 40% at batch 8 of the baseline's "
        "peak",
    )
    assert short.head[2:4] == ("b4: needs MiB", "b8: needs MiB")
    assert "Throughput in tokens/s." in short.caption


def test_a_throughput_ratio_has_the_interval_of_the_times_upside_down():
    rows = pd.DataFrame(
        {
            "baseline": [True, False, False, False],
            "time_ratio": [1.0, 1.25, 0.5, math.nan],
            "time_ratio_low": [1.0, 1.0 / 0.9, math.nan, math.nan],
            "time_ratio_high": [1.0, 2.0, math.nan, math.nan],
        }
    )
    assert list(format_throughput_ratios(rows)) == ["1.00", "0.80 (0.50 to 0.90)", "~2.00", None]


def test_baselines_alone_make_no_table():
    assert tabulate_strategies(fp32=FP32) == []
