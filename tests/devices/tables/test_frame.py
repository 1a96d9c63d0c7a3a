"""Predictions as a DataFrame: ratios are to the same device, release and batch, and the public
function returns it.
"""

import pandas as pd

import framebench
from framebench.devices.plans import store
from framebench.devices.tables.frame import COLUMNS, frame
from tests.callbacks import ignore
from tests.devices.fake_predictions import MIB, make_compiled, make_simulated, make_unplanned


def test_a_ratio_is_to_the_baseline_of_the_same_batch():
    baselines = [make_simulated("fp32", 100), make_simulated("fp32", 400, batch=16)]
    checkpoint = make_simulated("checkpoint", 100, batch=16)
    without_baseline = make_simulated("offload", 7, batch=2)
    df = frame([*baselines, checkpoint, without_baseline])
    ratios = df[~df["baseline"]].set_index("strategy")["ratio"]
    assert ratios["checkpoint"] == 0.25
    assert pd.isna(ratios["offload"])


def test_releases_have_baselines_of_their_own_and_are_in_order():
    """As text 0.10.2 is before 0.9.2, and a plot would draw a rise as a fall."""
    df = frame(
        [
            make_compiled("checkpoint", 500),
            make_compiled("fp32", 2000),
            make_compiled("checkpoint", 750, version="0.9.2"),
            make_compiled("fp32", 1000, version="0.9.2"),
        ]
    )
    assert list(df["framework_version"]) == ["0.9.2", "0.9.2", "0.10.2", "0.10.2"]
    assert list(df["strategy"]) == ["fp32", "checkpoint", "fp32", "checkpoint"]
    assert list(df["ratio"]) == [1, 0.75, 1, 0.25]
    assert list(df["pinned"]) == [False, False, True, True]


def test_a_simulation_has_two_sizes_and_a_plan_one():
    df = frame(
        [make_simulated("fp32", 100), make_compiled("fp32", 300), make_unplanned("not planned")]
    )
    sizes = df.sort_values("used_bytes")[["used_bytes", "reserved_bytes", "temporary_bytes"]] / MIB
    simulation, plan, nothing = sizes.to_numpy()
    assert list(simulation[:2]) == [100, 200]
    assert list(plan) == [300, 300, 0]
    assert pd.isna(nothing).all()


def test_planned_returns_the_cached_predictions(tmp_path):
    store.write(tmp_path, make_simulated("fp32", 100), ignore)
    df = framebench.planned(tmp_path)
    assert list(df.columns) == [column.name for column in COLUMNS]
    assert df["case"].to_list() == ["transformer/torch/train/fp32/b8/full"]
    assert framebench.planned(tmp_path / "none").empty
