"""Figures show what the rows say: the front, crosses for lost memory, numbers in titles, and the same bytes every time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from framebench.analysis import figures, frames
from framebench.analysis.figures import fronts
from framebench.analysis.results import Results
from framebench.records.record import Proof, Record, Verification
from framebench.records.search import Fit
from framebench.suite import registry
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION
from tests.handmade import in_blocks, provenance, record
from tests.material import MACHINE, RESULTS
from tests.processes import ROOT

MIB = 2**20
RIGHT = Verification(passed=True, relative_error={"loss": 1e-8})


def made(
    strategy: str,
    peak: int = 0,
    step: float = 1.0,
    framework: str = "torch",
    scenario: str = "train",
    batch: int = 4,
    **more: Any,
) -> Record:
    """`peak` in MiB by host.rss, `step` in seconds."""
    case = Case("transformer", framework, scenario, strategy, batch, "cpu")
    fields: dict[str, Any] = {
        "peaks": {"host.rss": peak * MIB}, "step_s": [step], "first_step_s": 2.0, "verification": RIGHT,
        "effect": Proof(proven=True, evidence={}), "provenance": origin(framework),
    }  # fmt: skip
    return record(case, **(fields | more))


def origin(framework: str, **more: Any) -> Any:
    return provenance(**({"versions": {framework: "1.0"}, "protocol": VERSION, "dirty": False} | more))


def lost(strategy: str, status: str = "oom", **where: Any) -> Record:
    return made(
        strategy, peaks={}, step_s=[], first_step_s=None, verification=None, effect=None, status=status, reason="why", **where
    )


def frame(*found: Record) -> pd.DataFrame:
    return frames.frame(in_blocks(found))


def panels(figure: Figure | None) -> list[Axes]:
    assert figure is not None
    return figure.axes


def texts(figure: Figure | None) -> tuple[str, str]:
    """Title and footer, on one line each."""
    assert figure is not None
    return figures.said(figure)


def places(axes: Axes) -> set[tuple[float, float]]:
    """Where the panel has markers."""
    return {(float(x), float(y)) for x, y in np.asarray(axes.collections[0].get_offsets()).round(6)}


def named(axes: Axes) -> set[str]:
    return {text.get_text() for text in axes.texts} - {""}


@pytest.fixture(scope="module")
def real() -> pd.DataFrame:
    return Results(RESULTS).table(MACHINE)


@pytest.fixture(scope="module")
def drawn(real: pd.DataFrame) -> dict[str, Figure]:
    return figures.draw_all(real[real["workload"] == "transformer"], Results(RESULTS))


def dominated(point: tuple[float, float], others: list[tuple[float, float]]) -> bool:
    x, y = point
    return any(a <= x and b >= y and (a, b) != point for a, b in others)


@given(st.lists(st.tuples(*[st.integers(1, 6).map(float)] * 2), max_size=12))
def test_the_front_is_what_no_other_point_beats(points: list[tuple[float, float]]) -> None:
    best = fronts.front(pd.DataFrame(points, columns=["peak_ratio", "speed"], dtype=float))
    assert [*best.itertuples(index=False, name=None)] == sorted({p for p in points if not dominated(p, points)})


def test_pareto_draws_ratios_and_names_the_front() -> None:
    table = frame(made("fp32", 200), made("checkpoint", 100, 1.25), made("amp_bf16", 160, 0.5), made("keep_grads", 300, 2.0))
    figure = figures.pareto(table)
    (axes,) = panels(figure)
    assert places(axes) == {(0.5, 0.8), (0.8, 2.0), (1.5, 0.5)}, "the baseline is where the lines cross"
    assert named(axes) == {"checkpoint", "amp_bf16"}
    assert "checkpoint (0.50x the peak at 0.80x the throughput)" in texts(figure)[0]


def test_a_framework_with_its_baseline_alone_has_a_panel_too() -> None:
    table = frame(made("fp32", 200), made("checkpoint", 100), made("fp32", 300, framework="jax"))
    assert [axes.get_title(loc="left") for axes in panels(figures.pareto(table))] == [
        "PyTorch 1.0 (host.rss)",
        "JAX 1.0 (host.rss)",
    ]


def test_another_model_is_not_on_the_front() -> None:
    found = [
        made(s, p, t, scenario="finetune") for s, p, t in (("half", 200, 1.0), ("checkpoint", 100, 1.25), ("head", 20, 0.1))
    ]
    figure = figures.pareto(frame(*found))
    assert named(panels(figure)[0]) == {"checkpoint"}
    assert "decided ratio: PyTorch head" in texts(figure)[1]


def test_what_only_tests_an_articles_sentence_is_in_no_figure() -> None:
    table = frame(made("fp32", 200), made("checkpoint", 100, 1.25), made("gc_off", 20, 0.1), made("gc_every_1", 30, 0.2))
    for question in (figures.pareto, figures.heat, figures.parts, figures.support):
        drawn = figures.svg(question(table))  # type: ignore[arg-type]
        assert "checkpoint" in drawn
        assert "gc_" not in drawn


def test_what_is_far_beyond_the_panel_is_named_below() -> None:
    table = frame(made("fp32", 10), made("checkpoint", 5), made("keep_grads", 1000, 2.0))
    figure = figures.pareto(table)
    assert panels(figure)[0].get_xlim()[1] < 2
    assert "Beyond the right edge (peak at throughput): PyTorch keep_grads 100x at 0.50x." in texts(figure)[1]


def test_labels_do_not_cover_each_other() -> None:
    names = ("checkpoint", "checkpoint_every_2", "amp_bf16", "accumulate", "accumulate_2", "foreach")
    front = [made(name, 100 + 3 * i, 1.3 - 0.02 * i) for i, name in enumerate(names)]
    figure = figures.pareto(frame(made("fp32", 200), *front))
    labels = [text for text in panels(figure)[0].texts if text.get_text()]
    boxes = [Text.get_window_extent(label) for label in labels]
    assert len(boxes) == len(names)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])


def crosses(axes: Axes) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for line in axes.lines if line.get_marker() == "x" for x, y in zip(*line.get_data())]


def test_lost_memory_is_a_cross_at_the_limit() -> None:
    table = frame(made("fp32", 256, batch=4), made("fp32", 512, batch=8), lost("fp32", batch=16))
    memory, speed = panels(figures.curves(table, limit=600 * MIB))
    assert crosses(memory) == [(16.0, 600)]
    assert [x for x, _ in crosses(speed)] == [16.0]
    assert [*memory.lines[0].get_ydata()] == [256, 512]
    assert memory.get_xscale() == "log"


def test_without_a_limit_the_cross_is_at_the_edge_and_the_footer_says_so() -> None:
    figure = figures.curves(frame(made("fp32", 256, batch=4), lost("fp32", batch=8)))
    assert [x for x, _ in crosses(panels(figure)[0])] == [8.0]
    assert "at the panel's edge" in texts(figure)[1]
    assert "oom: PyTorch fp32" in texts(figure)[1]


def test_curves_say_how_much_memory_grows() -> None:
    figure = figures.curves(frame(made("fp32", 100, 1.0, batch=4), made("fp32", 150, 1.6, batch=8)))
    assert "from batch 4 to 8: 1.50x the peak in PyTorch" in texts(figure)[0]


def test_peaks_of_two_instruments_have_two_panels() -> None:
    jax = [made("fp32", framework="jax", batch=b, peaks={"compiler.plan": b * MIB}) for b in (4, 8)]
    torch = [made("fp32", 100 * b, batch=b) for b in (4, 8)]
    titles = [axes.get_title(loc="left") for axes in panels(figures.curves(frame(*jax, *torch)))]
    assert titles == ["peak memory by host.rss, MiB", "peak memory by compiler.plan, MiB", "throughput, tokens / s"]


def test_parts_sum_to_the_peak_and_the_tick_is_there() -> None:
    table = frame(made("fp32", 400), lost("checkpoint"), made("checkpoint", 300, framework="jax"))
    axes = panels(figures.parts(table))[0]
    assert sum(bar.get_width() for bar in axes.patches if bar.get_y() < 0.5) == pytest.approx(400)
    assert float(axes.lines[0].get_xdata()[0]) == 400
    assert [t.get_text() for t in axes.texts] == ["oom"]


def test_a_peak_far_above_the_baselines_ends_at_the_edge_with_its_number() -> None:
    axes = panels(figures.parts(frame(made("fp32", 400), made("keep_grads", 9000))))[0]
    assert axes.get_xlim()[1] == 1600
    assert [t.get_text() for t in axes.texts] == ["9,000"]


def test_evaluation_is_compared_with_training_by_one_instrument() -> None:
    table = frame(
        made("fp32", 400), made("grad", 300, scenario="eval"), made("no_grad", 100, scenario="eval"),
        made("fp32", 200, framework="jax"), made("no_grad", 80, scenario="eval", framework="jax"),
    )  # fmt: skip
    figure = figures.train_eval(table)
    heights = [round(bar.get_height()) for bars in panels(figure)[0].containers for bar in bars]
    assert heights == [400, 300, 100, 200, 80]
    assert [t.get_text() for t in panels(figure)[0].texts] == ["1.00", "0.75", "0.25", "1.00", "0.40"]
    assert texts(figure)[0].startswith("Evaluation takes 0.25x in PyTorch and 0.40x in JAX the peak of training")
    assert "0.75x in PyTorch" in texts(figure)[0]


def test_two_instruments_give_no_such_figure() -> None:
    table = frame(
        made("fp32", 400), made("no_grad", 100, scenario="eval"),
        made("fp32", framework="jax", peaks={"compiler.plan": MIB}),
        made("no_grad", framework="jax", scenario="eval", peaks={"compiler.plan": MIB}),
    )  # fmt: skip
    assert figures.train_eval(table) is None


def test_the_map_has_a_number_or_a_reason_in_every_cell() -> None:
    unproven = made("accumulate", 10, effect=Proof(proven=False, evidence={}))
    table = frame(made("fp32", 200), made("checkpoint", 100, 1.5), unproven, lost("amp_bf16", "wrong"),
                  *(made(s, 50, framework="jax") for s in ("fp32", "accumulate", "amp_bf16")))  # fmt: skip
    figure = figures.heat(table)
    found = [t.get_text() for t in panels(figure)[0].texts]  # strategies in the catalog's order, PyTorch and JAX
    assert found[:5] == ["1.00", "1.00", "1.00", "0.50", "1.00"], "the numbers"
    assert found[5:] == ["wrong", "-", "not proven"], "the reasons"
    assert "1 of 1 in PyTorch" in texts(figure)[0]
    assert "with steps certainly less than 5 % longer: 0 and" in texts(figure)[0]
    assert "not proven: PyTorch accumulate" in texts(figure)[1]


def test_the_support_figure_counts_the_table() -> None:
    title = texts(figures.support(frame()))[0]
    every = [registry.find(s, n) for s in registry.SCENARIOS for n in registry.in_use(s)]
    assert title.startswith(f"Of {len(every)} strategies")
    assert f"JAX can do {sum(s.cells['jax'].supported for s in every)}" in title


def test_what_is_undecided_has_neither_colour_nor_place() -> None:
    """A ratio whose interval is wide says so; one without blocks is none at all."""
    calm = [made("fp32", 200), made("accumulate", 100, 0.9), made("amp_bf16", 250, 0.8)]
    timed = list(in_blocks([*calm, made("keep_grads", 250, 0.8), made("checkpoint", 90)]))
    shaky = timed[-1].model_copy(update={"step_s": [2.0] * 3})
    table = frames.frame([*timed[:-1], shaky, made("no_donate", 100)])
    figure = figures.heat(table)
    peaks, times = ([t.get_text() for t in axes.texts] for axes in panels(figure))
    assert times == ["1.00", "0.80", "0.90", "0.80", "undecided", "-"]
    assert "undecided" not in peaks
    (axes,) = panels(figures.pareto(table))
    assert places(axes) == {(0.5, round(1 / 0.9, 6)), (1.25, 1.25)}
    assert "times without a decided ratio: PyTorch checkpoint, PyTorch no_donate." in texts(figures.pareto(table))[1]
    drawn = figures.pareto(table, undecided=True)
    (axes,) = panels(drawn)
    (low, high) = next(bar.get_segments()[0][:, 1] for bar in axes.collections if isinstance(bar, LineCollection))
    (found,) = (y for x, y in places(axes) if (x, y) not in {(0.5, round(1 / 0.9, 6)), (1.25, 1.25)})
    assert low < found < high
    assert "Bars: the interval of what is undecided." in texts(drawn)[1]
    assert f"checkpoint (0.45x the peak at {low:.2f}x to {high:.2f}x the throughput)" in texts(drawn)[0]


def test_a_ratio_of_few_blocks_is_no_undecided_one() -> None:
    table = frames.frame(in_blocks([made("fp32", 200), made("checkpoint", 100, 1.5)], 2))
    assert [t.get_text() for t in panels(figures.heat(table))[1].texts] == ["1.00", "~1.50"]


def test_what_was_measured_without_times_is_drawn_without_them() -> None:
    untimed = {"step_s": [], "first_step_s": None}
    table = frame(*(made(s, peak * b, batch=b, **untimed) for s, peak in (("fp32", 50), ("checkpoint", 20)) for b in (4, 8)))
    (memory,) = panels(figures.curves(table))
    assert "MiB" in memory.get_title(loc="left")
    assert [t.get_text() for t in panels(figures.heat(table))[1].texts] == ["-", "-"]
    assert "2 of 2 rows were measured without times" in texts(figures.heat(table))[1]


def test_first_steps_are_told_in_later_ones() -> None:
    table = frame(
        made("fp32", 1, 1.0, first_step_s=5.0), made("checkpoint", 1, 2.0, first_step_s=9.0),
        made("amp_bf16", 1, 0.5, first_step_s=15.0), made("accumulate", 1, 1.0, first_step_s=3.0),
    )  # fmt: skip
    figure = figures.first_steps(table)
    (axes,) = panels(figure)
    assert {x for x, _ in places(axes)} == {5.0, 9.0, 15.0, 3.0}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fp32", "amp_bf16", "checkpoint", "accumulate"]
    assert "step takes as long as later ones times 5.0 in PyTorch" in texts(figure)[0]


def test_shares_are_percent_of_the_step() -> None:
    table = frame(made("no_jit", 1, shares={"collector": 0.25}, framework="jax"), made("fp32", 1, shares={"collector": 0.001}))
    figure = figures.shares(table)
    waiting, collector = ([bar.get_width() for bars in axes.containers for bar in bars] for axes in panels(figure))
    assert (waiting, collector) == ([0.0], [25.0])
    assert "collector takes up to 25 % of a step (JAX, transformer train no_jit)" in texts(figure)[0]


def test_the_largest_batches_come_from_the_searches(tmp_path: Path) -> None:
    for strategy, largest, status in (("fp32", 8, "found"), ("checkpoint", 32, "open"), ("accumulate", None, "none")):
        found = Fit(case=f"transformer/torch/train/{strategy}/b1/cpu", budget_bytes=256 * MIB, status=status,
                        answer="", largest=largest, provenance=origin("torch"))  # fmt: skip
        target = tmp_path / "fits" / found.provenance.machine / f"{strategy}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(found.model_dump_json())
    (tmp_path / "fits" / found.provenance.machine / "broken.json").write_text("{")
    with pytest.warns(UserWarning, match="broken"):
        figure = figures.largest(figures.searches(tmp_path, found.provenance.machine))
    assert [t.get_text() for t in panels(figure)[0].texts] == ["32 or more", "8", "not even the smallest"]
    assert "PyTorch checkpoint fits the largest batch, 32 or more" in texts(figure)[0]


def test_old_and_uncommitted_records_are_named_in_the_footer() -> None:
    old = made("fp32", 200, provenance=origin("torch", protocol=VERSION - 1))
    dirty = made("amp_bf16", 100, provenance=origin("torch", protocol=VERSION - 1, dirty=True))
    foot = texts(figures.pareto(frame(old, dirty)))[1]
    assert "All records measured under an older protocol than" in foot
    assert "uncommitted changes: transformer/torch/train/amp_bf16/b4/cpu" in foot


def test_two_machines_are_refused() -> None:
    both = frame(made("fp32", 1), made("fp32", 1, provenance=origin("torch", machine="other")))
    with pytest.raises(ValueError, match="other"):
        figures.draw_all(both)


def test_no_rows_give_the_support_matrix_alone() -> None:
    assert list(figures.draw_all(frame())) == ["support"]


def test_rows_without_numbers_give_the_support_matrix_alone() -> None:
    assert list(figures.draw_all(frame(lost("fp32", "crashed"), lost("checkpoint"), lost("no_grad", scenario="eval")))) == [
        "support"
    ]


def test_a_single_case_breaks_no_figure() -> None:
    assert set(figures.draw_all(frame(made("fp32", 200)))) == {"parts-transformer-train", "support"}


def test_text_from_records_is_no_mathematics(tmp_path: Path) -> None:
    odd = [
        made(s, 100, provenance=origin("torch", hardware={"device": "cpu", "cpu": "$x^{ <b> & \x07"}))
        for s in ("fp32", "checkpoint")
    ]
    assert "&lt;b&gt;" in figures.svg(figures.pareto(frame(*odd)))


def test_real_records_fill_the_questions(real: pd.DataFrame, drawn: dict[str, Figure]) -> None:
    kinds = {re.match("train-eval|first-step|[a-z]+", name)[0] for name in drawn}  # type: ignore[index]
    assert {"strategies", "batches", "parts", "train-eval", "first-step", "support", "largest"} <= kinds
    for name, figure in drawn.items():
        title, foot = texts(figure)
        assert len(title) > 20, name
        assert real["machine"].iloc[0] in foot, name


def test_numbers_in_titles_are_those_of_the_rows(real: pd.DataFrame) -> None:
    for _, table in real[real["scenario"] == "train"].groupby("workload"):
        if (figure := figures.pareto(table)) is None:
            assert not frames.decided(table[~table["baseline"]]).any(), "without a decided ratio of times there is no front"
            continue
        title = texts(figure)[0]
        said = re.findall(r"(\S+) \((\d\.\d\d)x the peak at (\d+\.\d\d)x the throughput\)", title)
        assert said, title
        for strategy, peak, speed in said:
            own = table[table["strategy"] == strategy]
            assert (peak, speed) in {(f"{r.peak_ratio:.2f}", f"{1 / r.time_ratio:.2f}") for r in own.itertuples()}


def test_the_same_rows_give_the_same_bytes(real: pd.DataFrame, tmp_path: Path) -> None:
    some = real[real["workload"] == "unet3d"]
    first, second = (figures.save_all(some, tmp_path / name) for name in "ab")
    assert [p.name for p in first] == [p.name for p in second]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(first, second))
    assert not any("<dc:date>" in p.read_text() for p in first)


def test_drawing_imports_no_framework_and_leaves_no_figure_open() -> None:
    program = Path(__file__).parent / "programs" / "figures_drawn.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, program, RESULTS], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_the_command_writes_files_and_asks_for_a_machine(tmp_path: Path) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        called = [sys.executable, "-m", "framebench.cli", "report", "--figures", "--to", str(tmp_path / "to"), *arguments]
        return subprocess.run(called, cwd=ROOT, capture_output=True, text=True, timeout=600)

    wrong = command("--machine", "nowhere")
    assert wrong.returncode == 2
    assert "machines: " in wrong.stderr
    empty = command("--results", str(tmp_path))
    assert empty.returncode == 1
    assert "measure first" in empty.stderr
