"""Figures show what the rows say: fronts, and crosses for lost memory.

Titles are computed from the same rows, and the same rows give the same bytes.
"""

from __future__ import annotations

from itertools import combinations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.text import Text

from framebench.analysis import frames
from framebench.analysis.figures import fronts
from framebench.analysis.figures.batches import draw_curves, draw_savings
from framebench.analysis.results import Results
from framebench.publish import figures as published
from framebench.suite.result import StrategyEffect
from tests.fake_records import repeat_in_blocks
from tests.figure_records import (
    get_panels,
    make_frame,
    make_lost,
    make_record,
    read_labels,
    read_places,
    read_texts,
)
from tests.sample_records import MACHINE, RESULTS

Point = tuple[float, float]
coordinates = st.integers(1, 6).map(float)


def is_beaten(point: Point, points: list[Point]) -> bool:
    """Return whether another point has no more memory and no less speed."""

    def beats(other: Point) -> bool:
        return other != point and other[0] <= point[0] and other[1] >= point[1]

    return any(beats(other) for other in points)


@given(st.lists(st.tuples(coordinates, coordinates), max_size=12))
def test_the_front_has_the_points_that_no_other_point_beats(points):
    table = pd.DataFrame(points, columns=["relative_peak", "speed"], dtype=float)
    front = fronts.find_front(table)
    expected = {point for point in points if not is_beaten(point, points)}
    assert list(front.itertuples(index=False, name=None)) == sorted(expected)


def test_pareto_draws_ratios_and_names_the_front():
    figure = fronts.draw_pareto(
        make_frame(
            make_record("fp32", 200),
            make_record("checkpoint", 100, step=1.25),
            make_record("amp_bf16", 160, step=0.5),
            make_record("keep_grads", 300, step=2.0),
            make_record("gc_off", 20, step=0.1),  # only for claims
            make_record("accumulate", 10, effect=StrategyEffect(proven=False, evidence={})),
            make_lost("foreach", "wrong"),
            make_record("fp32", 300, framework="jax"),
        )
    )
    (axes,) = get_panels(figure)
    # the baseline is where the lines cross
    assert read_places(axes) == {(0.5, 0.8), (0.8, 2.0), (1.5, 0.5)}
    assert read_labels(axes) == {"checkpoint", "amp_bf16"}
    assert axes.get_title(loc="left") == "PyTorch 1"
    title, footer = read_texts(figure)
    assert "checkpoint (0.50x the peak, 1.25 x the time)" in title
    assert "Without numbers: not proven: PyTorch accumulate; wrong: PyTorch foreach." in footer


def test_memory_against_speed_names_the_fastest_and_the_leanest():
    table = make_frame(
        make_record("fp32", 200),
        make_record("checkpoint", 100, step=2.0),
        make_record("amp_bf16", 160, step=0.5),
    )
    figure = fronts.draw_memory_and_speed(table)
    (axes,) = get_panels(figure)
    assert {peak for peak, _ in read_places(axes)} == {100, 160, 200}
    title, _ = read_texts(figure)
    assert "fastest PyTorch amp_bf16 (160 MiB" in title
    assert "least memory of what was timed PyTorch checkpoint (100 MiB" in title


def test_labels_do_not_cover_each_other():
    crowded = [  # peak in MiB, seconds of a step: all on the front, and close to each other
        make_record("checkpoint", 100, step=1.30),
        make_record("checkpoint_every_2", 103, step=1.28),
        make_record("amp_bf16", 106, step=1.26),
        make_record("accumulate", 109, step=1.24),
        make_record("foreach", 112, step=1.22),
    ]
    figure = fronts.draw_pareto(make_frame(make_record("fp32", 200), *crowded))
    (axes,) = get_panels(figure)
    labels = [text for text in axes.texts if text.get_text()]
    boxes = [Text.get_window_extent(label) for label in labels]
    assert len(boxes) == len(crowded)
    for box, other in combinations(boxes, 2):
        assert not box.overlaps(other)


def list_crosses(axes: Axes) -> list[tuple[float, float]]:
    crosses = []
    for line in axes.lines:
        if line.get_marker() == "x":
            crosses += zip(*line.get_data())
    return crosses


def test_a_case_out_of_memory_is_a_cross_at_the_edge():
    table = make_frame(
        make_record("fp32", 256, batch=4),
        make_record("fp32", 512, batch=8),
        make_lost("fp32", batch=16),
    )

    memory, speed = get_panels(draw_curves(table))

    assert list_crosses(memory) == [(16, 0.97)]
    assert list_crosses(speed) == [(16, 0.03)]
    assert list(memory.lines[0].get_ydata()) == [256, 512]
    assert memory.get_xscale() == "log"


def test_savings_by_batch_name_the_strategy_that_depends_most():
    peaks = {("fp32", 4): 100, ("fp32", 8): 200, ("checkpoint", 4): 50, ("checkpoint", 8): 60}
    records = []
    for (name, batch), peak in peaks.items():
        records.append(make_record(name, peak, batch=batch))
        records.append(make_record(name, peak, batch=batch, framework="jax", step_s=[]))
    figure = draw_savings(make_frame(*records))
    shown = {axes.get_title(loc="left") for axes in get_panels(figure) if axes.get_visible()}
    assert shown == {"PyTorch: peak", "PyTorch: throughput", "JAX: peak"}
    title, _ = read_texts(figure)
    finding = "checkpoint in PyTorch takes 50% of the baseline's peak at batch 4, 30% at batch 8"
    assert finding in title


@pytest.fixture(scope="module")
def undecided() -> pd.DataFrame:
    """Return rows of which `checkpoint` has an undecided ratio of times, and `no_donate` none."""
    records = [
        make_record("fp32", 200),
        make_record("accumulate", 100, step=0.9),
        make_record("amp_bf16", 250, step=0.8),
        make_record("keep_grads", 250, step=0.8),
        make_record("checkpoint", 90),
    ]
    timed = list(repeat_in_blocks(records))
    noisy = timed[-1].model_copy(update={"step_s": [2.0] * 3})
    return frames.make_frame([*timed[:-1], noisy, make_record("no_donate", 100)])


def find_interval(axes: Axes, peak: float) -> tuple[float, float]:
    """Return the ends of the line that is drawn through the mark at this peak."""
    (intervals,) = [each for each in axes.collections if isinstance(each, LineCollection)]
    for segment in intervals.get_segments():
        if segment[0, 0] == pytest.approx(peak):
            low, high = sorted(segment[:, 1])
            return low, high
    return pytest.fail("no interval is drawn there")


def test_an_undecided_ratio_is_drawn_with_its_interval(undecided):
    figure = fronts.draw_pareto(undecided)
    (axes,) = get_panels(figure)
    decided = {(0.5, round(1 / 0.9, 6)), (1.25, 1.25)}
    ((peak, speed),) = read_places(axes) - decided

    low, high = find_interval(axes, peak)
    title, footer = read_texts(figure)
    assert low < speed < high
    assert f"checkpoint (0.45x the peak, {1 / high:.2f} to {1 / low:.2f} x the time)" in title
    assert "times without an interval: PyTorch no_donate." in footer


def test_rows_without_numbers_give_no_figure():
    lost = make_frame(make_lost("fp32", "crashed"), make_lost("checkpoint"))
    figures = list(published.list_figures(lost))
    assert figures
    for name, draw, rows in figures:
        assert draw(rows) is None, name


def test_the_same_rows_give_the_same_bytes(tmp_path):
    table = Results(RESULTS).table(MACHINE)
    unet = table[table["workload"] == "unet3d"]
    first = published.save(unet, tmp_path / "first")
    second = published.save(unet, tmp_path / "second")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    assert first
