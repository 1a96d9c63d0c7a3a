"""Test that each ratio column of `framebench.load` is the quotient of the bytes columns of its
name.
"""

from __future__ import annotations

from functools import cache

import pandas as pd
import pytest

import framebench
from framebench.analysis.frames import COLUMNS
from tests.processes import ROOT

NAMES = [column.name for column in COLUMNS]
OF_BYTES = [
    name for name in NAMES if name.endswith("_ratio") and name.replace("_ratio", "_bytes") in NAMES
]
INSTRUMENTS = {"needs_ratio": "step_instrument"}
# What a row shares with its baseline.
ALIKE = ["workload", "framework", "framework_version", "scenario", "batch", "size"]


@cache
def load_table(machine: str) -> pd.DataFrame:
    return framebench.load(ROOT / "results", machine=machine, versions="all")


@pytest.mark.parametrize("machine", framebench.machines(ROOT / "results"))
@pytest.mark.parametrize("ratio", OF_BYTES)
def test_a_ratio_column_divides_the_bytes_column_of_its_name(ratio: str, machine: str) -> None:
    size = ratio.replace("_ratio", "_bytes")
    # what a job needs is more than the peak of its step, and rests on who read that
    instrument = INSTRUMENTS.get(ratio, ratio.replace("_ratio", "_instrument"))
    table = load_table(machine)
    bases = table.loc[table["baseline"], [*ALIKE, size, instrument]]

    joined = table.merge(bases, on=ALIKE, how="left", suffixes=("", "_of_base"))
    quotients = joined[size] / joined[f"{size}_of_base"]
    comparable = joined[instrument] == joined[f"{instrument}_of_base"]

    assert len(joined) == len(table), "one baseline for each row"
    assert comparable.sum() > 0
    pd.testing.assert_series_equal(
        joined[ratio], quotients.where(comparable), check_names=False, rtol=1e-12
    )
