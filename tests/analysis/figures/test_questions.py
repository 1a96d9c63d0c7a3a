"""Figures of a machine's rows: crosses for lost memory, numbers in titles, a number or a reason in
every cell.
"""

from __future__ import annotations

import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from framebench.analysis import figures, frames
from framebench.analysis.figures.batches import draw_curves
from framebench.analysis.figures.peaks import draw_parts, draw_train_eval
from framebench.analysis.figures.strategies import draw_heat_map, draw_support
from framebench.publish import figures as published
from framebench.suite.result import StrategyEffect
from tests.fake_records import in_blocks
from tests.figure_records import MIB, frame, lost, made, panels, places, texts


def crosses(axes: Axes) -> list[tuple[float, float]]:
    return [
        (float(x), float(y))
        for line in axes.lines
        if line.get_marker() == "x"
        for x, y in zip(*line.get_data())
    ]


def test_lost_memory_is_a_cross_at_the_limit() -> None:
    table = frame(made("fp32", 256, batch=4), made("fp32", 512, batch=8), lost("fp32", batch=16))
    memory, speed = panels(draw_curves(table, limit=600 * MIB))
    assert crosses(memory) == [(16.0, 600)]
    assert [x for x, _ in crosses(speed)] == [16.0]
    assert [*memory.lines[0].get_ydata()] == [256, 512]
    assert memory.get_xscale() == "log"


def test_peaks_of_two_instruments_have_two_panels() -> None:
    jax = [made("fp32", framework="jax", batch=b, peaks={"compiler.plan": b * MIB}) for b in (4, 8)]
    torch = [made("fp32", 100 * b, batch=b) for b in (4, 8)]
    titles = [axes.get_title(loc="left") for axes in panels(draw_curves(frame(*jax, *torch)))]
    assert titles == [
        "peak memory by host.rss, MiB",
        "peak memory by compiler.plan, MiB",
        "throughput, tokens / s",
    ]


def test_parts_sum_to_the_peak_and_the_tick_is_there() -> None:
    table = frame(made("fp32", 400), lost("checkpoint"), made("checkpoint", 300, framework="jax"))
    axes = panels(draw_parts(table))[0]
    assert sum(bar.get_width() for bar in axes.patches if bar.get_y() < 0.5) == pytest.approx(400)
    assert float(axes.lines[0].get_xdata()[0]) == 400
    assert [t.get_text() for t in axes.texts] == ["oom"]


def test_evaluation_is_compared_with_training_by_one_instrument() -> None:
    table = frame(
        made("fp32", 400),
        made("grad", 300, scenario="eval"),
        made("no_grad", 100, scenario="eval"),
        made("fp32", 200, framework="jax"),
        made("no_grad", 80, scenario="eval", framework="jax"),
    )
    figure = draw_train_eval(table)
    heights = [round(bar.get_height()) for bars in panels(figure)[0].containers for bar in bars]
    assert heights == [400, 300, 100, 200, 80]
    assert [t.get_text() for t in panels(figure)[0].texts] == [
        "1.00",
        "0.75",
        "0.25",
        "1.00",
        "0.40",
    ]
    assert texts(figure)[0].startswith(
        "Evaluation takes 0.25x in PyTorch and 0.40x in JAX the peak of training"
    )
    assert "0.75x in PyTorch" in texts(figure)[0]


def test_two_instruments_give_no_such_figure() -> None:
    table = frame(
        made("fp32", 400),
        made("no_grad", 100, scenario="eval"),
        made("fp32", framework="jax", peaks={"compiler.plan": MIB}),
        made("no_grad", framework="jax", scenario="eval", peaks={"compiler.plan": MIB}),
    )
    assert draw_train_eval(table) is None


def test_the_map_has_a_number_or_a_reason_in_every_cell() -> None:
    unproven = made("accumulate", 10, effect=StrategyEffect(proven=False, evidence={}))
    table = frame(
        made("fp32", 200),
        made("checkpoint", 100, 1.5),
        unproven,
        lost("amp_bf16", "wrong"),
        *(made(s, 50, framework="jax") for s in ("fp32", "accumulate", "amp_bf16")),
    )
    figure = draw_heat_map(table)
    # strategies in the catalog's order, PyTorch and JAX
    found = [t.get_text() for t in panels(figure)[0].texts]
    assert found[:5] == ["1.00", "1.00", "1.00", "0.50", "1.00"], "the numbers"
    assert found[5:] == ["wrong", "-", "not proven"], "the reasons"
    assert "1 of 1 in PyTorch" in texts(figure)[0]
    assert "with steps certainly less than 5 % longer: 0 and" in texts(figure)[0]
    assert "not proven: PyTorch accumulate" in texts(figure)[1]


def test_a_ratio_of_few_blocks_is_no_undecided_one() -> None:
    table = frames.make_frame(in_blocks([made("fp32", 200), made("checkpoint", 100, 1.5)], 2))
    assert [t.get_text() for t in panels(draw_heat_map(table))[1].texts] == ["1.00", "~1.50"]


def test_what_was_measured_without_times_is_drawn_without_them() -> None:
    untimed = {"step_s": [], "first_step_s": None}
    table = frame(
        *(
            made(s, peak * b, batch=b, **untimed)
            for s, peak in (("fp32", 50), ("checkpoint", 20))
            for b in (4, 8)
        )
    )
    (memory,) = panels(draw_curves(table))
    assert "MiB" in memory.get_title(loc="left")
    assert [t.get_text() for t in panels(draw_heat_map(table))[1].texts] == ["-", "-"]
    assert "2 of 2 rows were measured without times" in texts(draw_heat_map(table))[1]


def test_what_only_tests_an_articles_sentence_is_in_no_figure() -> None:
    table = frame(
        made("fp32", 200),
        made("checkpoint", 100, 1.25),
        made("gc_off", 20, 0.1),
        made("gc_every_1", 30, 0.2),
    )
    for question in (figures.draw_pareto, draw_heat_map, draw_parts, draw_support):
        drawn = figures.render_svg(question(table))  # type: ignore[arg-type]
        assert "checkpoint" in drawn
        assert "gc_" not in drawn


def test_what_is_undecided_has_no_colour_and_is_drawn_with_its_interval() -> None:
    """A ratio whose interval holds both faster and slower says so; one without blocks is none at
    all.
    """
    calm = [made("fp32", 200), made("accumulate", 100, 0.9), made("amp_bf16", 250, 0.8)]
    timed = list(in_blocks([*calm, made("keep_grads", 250, 0.8), made("checkpoint", 90)]))
    shaky = timed[-1].model_copy(update={"step_s": [2.0] * 3})
    table = frames.make_frame([*timed[:-1], shaky, made("no_donate", 100)])
    figure = draw_heat_map(table)
    peaks, times = ([t.get_text() for t in axes.texts] for axes in panels(figure))
    assert times == ["1.00", "0.80", "0.90", "0.80", "undecided", "-"]
    assert "undecided" not in peaks
    (axes,) = panels(figures.draw_pareto(table))
    assert places(axes) > {(0.5, round(1 / 0.9, 6)), (1.25, 1.25)}
    assert "times without an interval: PyTorch no_donate." in texts(figures.draw_pareto(table))[1]
    (found,) = (
        place for place in places(axes) if place not in {(0.5, round(1 / 0.9, 6)), (1.25, 1.25)}
    )
    bars = next(bar.get_segments() for bar in axes.collections if isinstance(bar, LineCollection))
    (low, high) = next(sorted(bar[:, 1]) for bar in bars if round(float(bar[0, 0]), 6) == found[0])
    assert low < found[1] < high
    assert (
        f"checkpoint (0.45x the peak, {1 / high:.2f} to {1 / low:.2f} x the time)"
        in texts(figures.draw_pareto(table))[0]
    )


def test_no_rows_give_the_support_matrix_alone() -> None:
    assert list(published.draw_all(frame())) == ["support"]


def test_rows_without_numbers_give_the_support_matrix_alone() -> None:
    assert list(
        published.draw_all(
            frame(lost("fp32", "crashed"), lost("checkpoint"), lost("no_grad", scenario="eval"))
        )
    ) == ["support"]
