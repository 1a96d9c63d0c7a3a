"""The picture of what strategies are predicted to need: bars are the rows' own numbers."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from framebench.analysis.figures.page import read_finding_and_source
from framebench.analysis.results import Results
from framebench.devices import figure
from framebench.devices.plans import store
from framebench.devices.plans.planned import Planned
from framebench.devices.tables.frame import frame
from tests.devices.tables.test_strategies import plan, simulated

STRATEGIES = {
    "fp32": 8192,
    "checkpoint": 4096,
    "accumulate": 2048,
    "foreach": 8100,
    "amp_bf16+checkpoint": 1024,
}


# JAX's predictions are made twice PyTorch's bytes, so that the two can be told apart
FACTORS = {"torch": 1, "jax": 2}


def predictions(**fields: str) -> list[Planned]:
    predicted = []
    for name, size in STRATEGIES.items():
        predicted.append(simulated(name, FACTORS["torch"] * size))
        predicted.append(plan(name, FACTORS["jax"] * size))
    return [one.model_copy(update=fields) for one in predicted]


def test_each_bar_is_a_row_and_each_panel_a_device() -> None:
    drawn = figure.draw_savings(frame([*predictions(), *predictions(device="a100-40gb")]))

    assert drawn
    assert [axes.get_title(loc="left").split(":")[0] for axes in drawn.axes] == [
        "NVIDIA H100 SXM 80 GB",
        "NVIDIA A100 SXM 40 GB",
    ]
    # the panels share one y axis, whose labels are those of the first
    names = [label.get_text() for label in drawn.axes[0].get_yticklabels()]
    assert names == ["fp32", "checkpoint", "accumulate"], (
        "strategies that change nothing, and combinations, are left out"
    )
    for axes in drawn.axes:
        assert len(axes.containers) == len(FACTORS)
        for bars, factor in zip(axes.containers, FACTORS.values()):
            widths = [round(bar.get_width()) for bar in bars]
            assert widths == [factor * STRATEGIES[name] for name in names]


def test_a_picture_is_of_training_at_the_base_batch(tmp_path: Path) -> None:
    for one in [
        *predictions(),
        simulated("fp32", 7, batch=64),
        simulated("no_grad", 7).model_copy(),
    ]:
        store.write(tmp_path, one)
    (name, _, rows), (releases, draw, several) = figure.figures(Results(tmp_path), [])
    assert (releases, draw(several)) == ("devices-releases-h100-80gb", None), (
        "one release is no line"
    )
    assert name == "devices-transformer-train-full"
    assert set(rows["batch"]) == {8}


def test_a_line_is_a_case_over_releases_in_their_order() -> None:
    result = [
        plan("checkpoint", size, version)
        for version, size in (("0.10.0", 90), ("0.9.2", 100), ("0.10.1", 95))
    ]
    drawn = figure.draw_plans(frame([*result, plan("fp32", 7, "0.9.2")]))
    assert drawn
    (line,) = [one for one in drawn.axes[0].lines if len(one.get_ydata()) == 3]
    assert list(line.get_ydata()) == pytest.approx([0, -10, -5]), "in per cent"
    assert read_finding_and_source(drawn)[0] == (
        "JAX 0.9.2 to 0.10.1: plans for one NVIDIA H100 SXM 80 GB differ by -10.0% to +0.0% from "
        "the oldest's"
    )


def test_accumulation_over_batch_norm_is_not_drawn() -> None:
    names = ("fp32", "checkpoint", "accumulate", "offload", "amp_bf16")

    def drawn(workload: str) -> set[str]:
        rows = [
            {
                "case": f"{workload}/torch/train/{name}/b64/full",
                "strategy": name,
                "baseline": name == "fp32",
                "ratio": 1 - i / 10,
            }
            for i, name in enumerate(names)
        ]
        return set(
            figure.select_strategies(
                pd.DataFrame(rows).assign(used_bytes=2**30, refused_bytes=2**30)
            )["strategy"]
        )

    assert drawn("transformer") == {*names}
    assert drawn("resnet50") == {*names} - {"accumulate"}
