"""Figures of a machine's rows: crosses for lost memory, a number or a reason in every cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from framebench.analysis import figures, frames
from framebench.analysis.figures.batches import draw_curves
from framebench.analysis.figures.peaks import draw_parts, draw_train_eval
from framebench.analysis.figures.strategies import draw_heat_map, draw_support
from framebench.publish import figures as published
from framebench.suite.result import StrategyEffect
from tests.fake_records import in_blocks
from tests.figure_records import MIB, frame, lost, made, panels, places, texts


def list_crosses(axes: Axes) -> list[tuple[float, float]]:
    crosses: list[tuple[float, float]] = []
    for line in axes.lines:
        if line.get_marker() == "x":
            crosses += zip(*line.get_data())
    return crosses


def list_texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def list_titles(figure: Figure | None) -> list[str]:
    return [axes.get_title(loc="left") for axes in panels(figure)]


def test_lost_memory_is_a_cross_at_the_edge_that_it_would_be_beyond() -> None:
    table = frame(made("fp32", 256, batch=4), made("fp32", 512, batch=8), lost("fp32", batch=16))

    memory, speed = panels(draw_curves(table))

    assert list_crosses(memory) == [(16, 0.97)]
    assert list_crosses(speed) == [(16, 0.03)]
    assert list(memory.lines[0].get_ydata()) == [256, 512]
    assert memory.get_xscale() == "log"


def test_peaks_of_two_instruments_have_two_panels() -> None:
    records = []
    for batch in (4, 8):
        records.append(made("fp32", 100 * batch, batch=batch))
        peaks = {"compiler.plan": batch * MIB}
        records.append(made("fp32", framework="jax", batch=batch, peaks=peaks))

    assert list_titles(draw_curves(frame(*records))) == [
        "peak memory by host.rss, MiB",
        "peak memory by compiler.plan, MiB",
        "throughput, tokens / s",
    ]


def test_throughput_at_one_batch_is_no_curve() -> None:
    untimed = made("fp32", 512, batch=8).model_copy(update={"step_s": [], "turns": None})
    assert list_titles(draw_curves(frame(made("fp32", 256, batch=4), untimed))) == [
        "peak memory by host.rss, MiB"
    ]


def test_parts_sum_to_the_peak_and_the_tick_is_there() -> None:
    table = frame(made("fp32", 400), lost("checkpoint"), made("checkpoint", 300, framework="jax"))
    axes = panels(draw_parts(table))[0]
    first_bar = [bar.get_width() for bar in axes.patches if bar.get_y() < 0.5]
    assert sum(first_bar) == pytest.approx(400)
    assert axes.lines[0].get_xdata()[0] == 400
    assert list_texts(axes) == ["oom"]


def test_evaluation_is_compared_with_training_by_one_instrument() -> None:
    table = frame(
        made("fp32", 400),
        made("grad", 300, scenario="eval"),
        made("no_grad", 100, scenario="eval"),
        made("fp32", 200, framework="jax"),
        made("no_grad", 80, scenario="eval", framework="jax"),
    )

    figure = draw_train_eval(table)

    axes = panels(figure)[0]
    heights: list[float] = []
    for bars in axes.containers:
        heights += [bar.get_height() for bar in bars]
    assert heights == pytest.approx([400, 300, 100, 200, 80])
    assert list_texts(axes) == ["1.00", "0.75", "0.25", "1.00", "0.40"]
    title, _ = texts(figure)
    assert title.startswith("Evaluation takes 0.25x in PyTorch and 0.40x in JAX the peak of train")
    assert "0.75x in PyTorch" in title


def test_frameworks_without_a_shared_instrument_are_not_drawn() -> None:
    # `made` reads by host.rss where no peaks are given
    planned: dict[str, Any] = {"framework": "jax", "peaks": {"compiler.plan": MIB}}
    table = frame(
        made("fp32", 400),
        made("no_grad", 100, scenario="eval"),
        made("fp32", **planned),
        made("no_grad", scenario="eval", **planned),
    )
    assert draw_train_eval(table) is None


def test_the_map_has_a_number_or_a_reason_in_every_cell() -> None:
    table = frame(
        made("fp32", 200),
        made("checkpoint", 100, 1.5),
        made("accumulate", 10, effect=StrategyEffect(proven=False, evidence={})),
        lost("amp_bf16", "wrong"),
        made("fp32", 50, framework="jax"),
        made("accumulate", 50, framework="jax"),
        made("amp_bf16", 50, framework="jax"),
    )

    figure = draw_heat_map(table)

    # strategies in the catalog's order, PyTorch and JAX
    numbers = ["1.00", "1.00", "1.00", "0.50", "1.00"]
    reasons = ["wrong", "-", "not proven"]
    assert list_texts(panels(figure)[0]) == numbers + reasons
    title, footer = texts(figure)
    assert "1 of 1 in PyTorch" in title
    assert "with steps certainly less than 5 % longer: 0 and" in title
    assert "not proven: PyTorch accumulate" in footer


def test_a_ratio_of_few_blocks_is_drawn_as_about() -> None:
    table = frames.make_frame(in_blocks([made("fp32", 200), made("checkpoint", 100, 1.5)], 2))
    _, times = panels(draw_heat_map(table))
    assert list_texts(times) == ["1.00", "~1.50"]


def test_records_without_times_are_drawn_without_them() -> None:
    records = []
    for strategy, peak in (("fp32", 50), ("checkpoint", 20)):
        for batch in (4, 8):
            untimed: dict[str, Any] = {"step_s": [], "first_step_s": None}
            records.append(made(strategy, peak * batch, batch=batch, **untimed))
    table = frame(*records)

    (title,) = list_titles(draw_curves(table))
    heat_map = draw_heat_map(table)

    assert "MiB" in title
    assert list_texts(panels(heat_map)[1]) == ["-", "-"]
    assert "2 of 2 rows were measured without times" in texts(heat_map)[1]


@pytest.mark.parametrize(
    "draw", [figures.draw_pareto, draw_heat_map, draw_parts, draw_support], ids=lambda f: f.__name__
)
def test_strategies_only_for_claims_are_in_no_figure(
    draw: Callable[[pd.DataFrame], Figure | None],
) -> None:
    table = frame(
        made("fp32", 200),
        made("checkpoint", 100, 1.25),
        made("gc_off", 20, 0.1),
        made("gc_every_1", 30, 0.2),
    )
    figure = draw(table)
    assert figure is not None
    svg = figures.render_svg(figure)
    assert "checkpoint" in svg
    assert "gc_" not in svg


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


def test_an_undecided_ratio_has_no_colour(undecided: pd.DataFrame) -> None:
    peaks, times = panels(draw_heat_map(undecided))
    assert list_texts(times) == ["1.00", "0.80", "0.90", "0.80", "undecided", "-"]
    assert "undecided" not in list_texts(peaks)


def test_an_undecided_ratio_is_drawn_with_its_interval(undecided: pd.DataFrame) -> None:
    figure = figures.draw_pareto(undecided)
    (axes,) = panels(figure)
    decided = {(0.5, round(1 / 0.9, 6)), (1.25, 1.25)}
    assert places(axes) > decided
    ((peak, speed),) = places(axes) - decided

    bars = next(bars for bars in axes.collections if isinstance(bars, LineCollection))
    (bar,) = [bar for bar in bars.get_segments() if bar[0, 0] == pytest.approx(peak, abs=1e-6)]
    low, high = sorted(bar[:, 1])
    title, footer = texts(figure)
    assert low < speed < high
    assert f"checkpoint (0.45x the peak, {1 / high:.2f} to {1 / low:.2f} x the time)" in title
    assert "times without an interval: PyTorch no_donate." in footer


def test_a_title_names_nothing_that_is_not_drawn(undecided: pd.DataFrame) -> None:
    """The least peak is that of `no_donate`, say, which was not timed."""
    least = undecided.assign(
        relative_peak=undecided["relative_peak"].mask(undecided["strategy"] == "no_donate", 0.1)
    )
    title, _ = texts(figures.draw_pareto(least))
    assert "no_donate" not in title
    assert "not timed" not in title


def test_no_rows_give_the_support_matrix_alone() -> None:
    assert list(published.draw_all(frame())) == ["support"]


def test_rows_without_numbers_give_the_support_matrix_alone() -> None:
    table = frame(lost("fp32", "crashed"), lost("checkpoint"), lost("no_grad", scenario="eval"))
    assert list(published.draw_all(table)) == ["support"]
