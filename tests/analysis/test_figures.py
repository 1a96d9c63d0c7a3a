"""Figures show what the rows say: fronts, crosses for lost memory, a number or reason in each cell.

Titles are computed from the same rows, and the same rows give the same bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.text import Text

from framebench.analysis import figures, frames
from framebench.analysis.figures import fronts
from framebench.analysis.figures.batches import draw_curves, draw_savings
from framebench.analysis.figures.strategies import draw_heat_map
from framebench.analysis.results import Results
from framebench.publish import figures as published
from framebench.suite.result import StrategyEffect
from tests.fake_records import in_blocks
from tests.figure_records import frame, lost, made, named, origin, panels, places, texts
from tests.processes import ROOT
from tests.sample_records import MACHINE, RESULTS

Point = tuple[float, float]
coordinates = st.integers(1, 6).map(float)


def is_beaten(point: Point, points: list[Point]) -> bool:
    """Return whether another point has no more memory and no less speed."""
    memory, speed = point
    others = [other for other in points if other != point]
    return any(other[0] <= memory and other[1] >= speed for other in others)


@given(st.lists(st.tuples(coordinates, coordinates), max_size=12))
def test_the_front_is_what_no_other_point_beats(points: list[Point]) -> None:
    table = pd.DataFrame(points, columns=["relative_peak", "speed"], dtype=float)
    front = fronts.find_front(table)
    expected = {point for point in points if not is_beaten(point, points)}
    assert list(front.itertuples(index=False, name=None)) == sorted(expected)


def test_pareto_draws_ratios_and_names_the_front_of_each_framework_with_strategies() -> None:
    figure = fronts.draw_pareto(
        frame(
            made("fp32", 200),
            made("checkpoint", 100, 1.25),
            made("amp_bf16", 160, 0.5),
            made("keep_grads", 300, 2.0),
            made("gc_off", 20, 0.1),  # only for claims
            made("fp32", 300, framework="jax"),
        )
    )
    (axes,) = panels(figure)
    # the baseline is where the lines cross
    assert places(axes) == {(0.5, 0.8), (0.8, 2.0), (1.5, 0.5)}
    assert named(axes) == {"checkpoint", "amp_bf16"}
    assert axes.get_title(loc="left") == "PyTorch 1.0"
    assert "checkpoint (0.50x the peak, 1.25 x the time)" in texts(figure)[0]


def test_memory_against_speed_is_in_mib_and_names_the_fastest_and_the_leanest() -> None:
    table = frame(made("fp32", 200), made("checkpoint", 100, 2.0), made("amp_bf16", 160, 0.5))
    figure = fronts.draw_memory_and_speed(table)
    (axes,) = panels(figure)
    assert {peak for peak, _ in places(axes)} == {100, 160, 200}
    title, _ = texts(figure)
    assert "fastest PyTorch amp_bf16 (160 MiB" in title
    assert "least memory of what was timed PyTorch checkpoint (100 MiB" in title


def test_labels_do_not_cover_each_other() -> None:
    crowded = [  # peak in MiB, seconds of a step: all on the front, and close to each other
        made("checkpoint", 100, 1.30),
        made("checkpoint_every_2", 103, 1.28),
        made("amp_bf16", 106, 1.26),
        made("accumulate", 109, 1.24),
        made("foreach", 112, 1.22),
    ]
    figure = fronts.draw_pareto(frame(made("fp32", 200), *crowded))
    (axes,) = panels(figure)
    labels = [text for text in axes.texts if text.get_text()]
    boxes = [Text.get_window_extent(label) for label in labels]
    assert len(boxes) == len(crowded)
    for box, other in combinations(boxes, 2):
        assert not box.overlaps(other)


def list_crosses(axes: Axes) -> list[tuple[float, float]]:
    crosses: list[tuple[float, float]] = []
    for line in axes.lines:
        if line.get_marker() == "x":
            crosses += zip(*line.get_data())
    return crosses


def test_lost_memory_is_a_cross_at_the_edge_that_it_would_be_beyond() -> None:
    table = frame(made("fp32", 256, batch=4), made("fp32", 512, batch=8), lost("fp32", batch=16))

    memory, speed = panels(draw_curves(table))

    assert list_crosses(memory) == [(16, 0.97)]
    assert list_crosses(speed) == [(16, 0.03)]
    assert list(memory.lines[0].get_ydata()) == [256, 512]
    assert memory.get_xscale() == "log"


def test_savings_are_by_batch_with_the_strategy_that_depends_most_in_the_title() -> None:
    peaks = {("fp32", 4): 100, ("fp32", 8): 200, ("checkpoint", 4): 50, ("checkpoint", 8): 60}
    timed = [made(name, peak, batch=batch) for (name, batch), peak in peaks.items()]
    untimed = [
        made(name, peak, batch=batch, framework="jax", step_s=[])
        for (name, batch), peak in peaks.items()
    ]
    figure = draw_savings(frame(*timed, *untimed))
    shown = {axes.get_title(loc="left") for axes in panels(figure) if axes.get_visible()}
    assert shown == {"PyTorch: peak", "PyTorch: throughput", "JAX: peak"}
    assert (
        "checkpoint in PyTorch takes 50% of the baseline's peak at batch 4, 30% at batch 8"
        in (texts(figure)[0])
    )


def list_texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_the_map_has_a_number_or_a_reason_in_every_cell() -> None:
    figure = draw_heat_map(
        frame(
            made("fp32", 200),
            made("checkpoint", 100, 1.5),
            made("accumulate", 10, effect=StrategyEffect(proven=False, evidence={})),
            lost("amp_bf16", "wrong"),
            made("fp32", 50, framework="jax"),
            made("accumulate", 50, framework="jax"),
            made("amp_bf16", 50, framework="jax"),
        )
    )

    # strategies in the catalog's order, PyTorch and JAX
    numbers = ["1.00", "1.00", "1.00", "0.50", "1.00"]
    reasons = ["wrong", "-", "not proven"]
    assert list_texts(panels(figure)[0]) == numbers + reasons
    title, footer = texts(figure)
    assert "1 of 1 in PyTorch" in title
    assert "with steps certainly less than 5 % longer: 0 and" in title
    assert "not proven: PyTorch accumulate" in footer


@pytest.fixture(scope="module")
def undecided() -> pd.DataFrame:
    """Return rows of which `checkpoint` has an undecided ratio of times, and `no_donate` none."""
    records = [
        made("fp32", 200),
        made("accumulate", 100, 0.9),
        made("amp_bf16", 250, 0.8),
        made("keep_grads", 250, 0.8),
        made("checkpoint", 90),
    ]
    timed = list(in_blocks(records))
    noisy = timed[-1].model_copy(update={"step_s": [2.0] * 3})
    return frames.make_frame([*timed[:-1], noisy, made("no_donate", 100)])


def test_an_undecided_ratio_is_drawn_with_its_interval(undecided: pd.DataFrame) -> None:
    _, times = panels(draw_heat_map(undecided))
    assert list_texts(times) == ["1.00", "0.80", "0.90", "0.80", "undecided", "-"]
    figure = fronts.draw_pareto(undecided)
    (axes,) = panels(figure)
    decided = {(0.5, round(1 / 0.9, 6)), (1.25, 1.25)}
    ((peak, speed),) = places(axes) - decided

    bars = next(bars for bars in axes.collections if isinstance(bars, LineCollection))
    (bar,) = [bar for bar in bars.get_segments() if bar[0, 0] == pytest.approx(peak, abs=1e-6)]
    low, high = sorted(bar[:, 1])
    title, footer = texts(figure)
    assert low < speed < high
    assert f"checkpoint (0.45x the peak, {1 / high:.2f} to {1 / low:.2f} x the time)" in title
    assert "times without an interval: PyTorch no_donate." in footer


@pytest.mark.parametrize("records", [[], [lost("fp32", "crashed"), lost("checkpoint")]])
def test_rows_without_numbers_give_no_figure(records: list[object]) -> None:
    assert published.draw_all(frame(*records)) == {}  # type: ignore[arg-type]


def test_two_machines_are_refused() -> None:
    both = frame(made("fp32", 1), made("fp32", 1, provenance=origin("torch", machine="other")))
    with pytest.raises(ValueError, match="other"):
        published.draw_all(both)


def test_text_from_records_is_no_markup() -> None:
    odd = origin("torch", hardware={"device": "cpu", "cpu": "$x^{ <b> & \x07"})
    table = frame(made("fp32", 100, provenance=odd), made("checkpoint", 100, provenance=odd))
    figure = fronts.draw_pareto(table)
    assert figure is not None
    assert "&lt;b&gt;" in figures.render_svg(figure)


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    table = Results(RESULTS).table(MACHINE)
    unet = table[table["workload"] == "unet3d"]
    first = published.save(unet, tmp_path / "first")
    second = published.save(unet, tmp_path / "second")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    assert first


def test_drawing_imports_no_framework_and_leaves_no_figure_open() -> None:
    program = Path(__file__).parent / "programs" / "figures_drawn.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, program, RESULTS], env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
