"""The figure of what strategies are predicted to need: bars are the rows' own numbers."""

from __future__ import annotations

import pytest
from matplotlib.container import BarContainer

from framebench.analysis.figures.page import read_finding_and_source
from framebench.analysis.results import Results
from framebench.devices import figure
from framebench.devices.plans import store
from framebench.devices.plans.planned import Planned
from framebench.devices.tables.frame import frame
from tests.callbacks import ignore
from tests.devices.fake_predictions import make_compiled, make_simulated

STRATEGIES = {
    "fp32": 8192,
    "checkpoint": 4096,
    "accumulate": 2048,
    "foreach": 8100,
    "amp_bf16+checkpoint": 1024,
}


def predict_all(device: str = "h100-80gb") -> list[Planned]:
    """Return predictions of both frameworks, JAX's of twice PyTorch's bytes."""
    predictions = []
    for name, mib in STRATEGIES.items():
        for prediction in (make_simulated(name, mib), make_compiled(name, 2 * mib)):
            predictions.append(prediction.model_copy(update={"device": device}))
    return predictions


def read_widths(bars: BarContainer) -> list[int]:
    """Return the lengths of horizontal bars, from the first strategy to the last."""
    return [round(bar.get_width()) for bar in bars]


def test_each_panel_is_a_device_and_each_bar_a_prediction():
    drawn = figure.draw_savings(frame([*predict_all(), *predict_all("a100-40gb")]))
    h100, a100 = drawn.axes
    assert h100.get_title(loc="left").startswith("NVIDIA H100 SXM 80 GB")
    assert a100.get_title(loc="left").startswith("NVIDIA A100 SXM 40 GB")
    # the panels share one y axis, whose labels are those of the first
    names = [label.get_text() for label in h100.get_yticklabels()]
    assert names == ["fp32", "checkpoint", "accumulate"], "nothing that changes little"
    for axes in (h100, a100):
        torch_bars, jax_bars = axes.containers
        assert read_widths(torch_bars) == [8192, 4096, 2048]
        assert read_widths(jax_bars) == [2 * 8192, 2 * 4096, 2 * 2048]


def test_a_figure_is_of_training_at_the_base_batch(tmp_path):
    for one in [*predict_all(), make_simulated("fp32", 7, batch=64)]:
        store.write(tmp_path, one, ignore)
    (name, _, rows), (releases, draw, several) = figure.figures(Results(tmp_path), [])
    assert name == "devices-transformer-train-full"
    assert set(rows["batch"]) == {8}
    assert releases == "devices-releases-h100-80gb"
    assert draw(several) is None, "one release is no line"


def test_each_case_is_a_line_sorted_by_release():
    plans = [
        make_compiled("checkpoint", 90, "0.10.0"),
        make_compiled("checkpoint", 100, "0.9.2"),
        make_compiled("checkpoint", 95, "0.10.1"),
        make_compiled("fp32", 7, "0.9.2"),  # one release is a point, and no line
    ]
    drawn = figure.draw_plans(frame(plans))
    lines = [list(line.get_ydata()) for line in drawn.axes[0].lines]
    assert pytest.approx([0, -10, -5]) in lines, "in per cent"
    finding, _ = read_finding_and_source(drawn)
    assert finding.startswith("JAX 0.9.2 to 0.10.1: plans for one NVIDIA H100")
    assert "-10.0% to +0.0%" in finding
