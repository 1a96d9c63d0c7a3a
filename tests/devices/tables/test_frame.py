"""Predictions as a DataFrame: ratios are to the same device, release and batch, and the public
function returns it.
"""

from __future__ import annotations

from pathlib import Path

import framebench
from framebench.devices.plans import store
from framebench.devices.tables.frame import COLUMNS, frame
from framebench.records.pins import find_pinned_version
from tests.devices.fake_predictions import MIB
from tests.devices.tables.test_strategies import plan, simulated


def test_a_ratio_is_to_the_same_release_and_batch() -> None:
    df = frame(
        [
            plan("checkpoint", 500),
            plan("fp32", 2000),
            plan("fp32", 1000, version="0.9.2"),
            simulated("fp32", 100),
            plan("checkpoint", 750, version="0.9.2"),
            simulated("fp32", 400, batch=16),
            simulated("checkpoint", 100, batch=16),
            simulated("offload", 7, batch=2),
        ]
    ).set_index(["framework_version", "strategy", "batch"])
    jax, torch = find_pinned_version("jax"), find_pinned_version("torch")
    assert df.loc[(jax, "checkpoint", 8), "ratio"] == 0.25
    assert df.loc[("0.9.2", "checkpoint", 8), "ratio"] == 0.75
    assert df.loc[(torch, "checkpoint", 16), "ratio"] == 0.25
    assert df.loc[(torch, "offload", 2), "ratio"] != df.loc[(torch, "offload", 2), "ratio"], (
        "without a baseline there is none"
    )
    assert list(df["pinned"]) == [version != "0.9.2" for version, *_ in df.index]
    assert df["baseline"].sum() == 4


def test_a_simulation_has_two_sizes_and_a_plan_one() -> None:
    df = frame(
        [
            simulated("fp32", 100),
            plan("fp32", 300),
            simulated("pool_off", None, outcome="not planned", reason="why"),
        ]
    )
    by = df.set_index(["framework", "strategy"])
    assert list(by.loc[("torch", "fp32"), ["used_bytes", "reserved_bytes"]]) == [
        100 * MIB,
        200 * MIB,
    ]
    assert list(by.loc[("jax", "fp32"), ["used_bytes", "reserved_bytes", "temporary_bytes"]]) == [
        300 * MIB,
        300 * MIB,
        0,
    ]
    assert by.loc[("torch", "pool_off"), "reason"] == "why"
    assert df.isna().loc[df["strategy"] == "pool_off", "used_bytes"].all()


def test_planned_returns_the_cached_predictions(tmp_path: Path) -> None:
    store.write(tmp_path, simulated("fp32", 100))
    df = framebench.planned(tmp_path)
    assert list(df.columns) == [column.name for column in COLUMNS]
    assert df["case"].to_list() == ["transformer/torch/train/fp32/b8/full"]
    assert framebench.planned(tmp_path / "none").empty


def test_releases_are_in_the_order_of_releases() -> None:
    """As text 0.10.2 is before 0.9.2, and a plot draws a rise as a fall."""
    df = frame(
        [
            plan("fp32", 3000),
            plan("fp32", 2000, version="0.10.0"),
            plan("fp32", 1000, version="0.9.2"),
        ]
    )
    assert list(df["framework_version"].cat.categories) == ["0.9.2", "0.10.0", "0.10.2"]
    assert list(df["framework_version"]) == ["0.9.2", "0.10.0", "0.10.2"]
