"""Figures show what the rows say: the front, numbers in titles, and the same bytes every time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from framebench.analysis import figures
from framebench.analysis.figures import fronts
from framebench.analysis.results import Results
from framebench.publish import figures as published
from tests.figure_records import frame, made, named, origin, panels, places, texts
from tests.processes import ROOT
from tests.sample_records import MACHINE, RESULTS


@pytest.fixture(scope="module")
def real() -> pd.DataFrame:
    return Results(RESULTS).table(MACHINE)


def dominated(point: tuple[float, float], others: list[tuple[float, float]]) -> bool:
    x, y = point
    return any(a <= x and b >= y and (a, b) != point for a, b in others)


@given(st.lists(st.tuples(*[st.integers(1, 6).map(float)] * 2), max_size=12))
def test_the_front_is_what_no_other_point_beats(points: list[tuple[float, float]]) -> None:
    best = fronts.find_front(pd.DataFrame(points, columns=["relative_peak", "speed"], dtype=float))
    assert [*best.itertuples(index=False, name=None)] == sorted(
        {p for p in points if not dominated(p, points)}
    )


def test_pareto_draws_ratios_and_names_the_front() -> None:
    table = frame(
        made("fp32", 200),
        made("checkpoint", 100, 1.25),
        made("amp_bf16", 160, 0.5),
        made("keep_grads", 300, 2.0),
    )
    figure = figures.draw_pareto(table)
    (axes,) = panels(figure)
    assert places(axes) == {(0.5, 0.8), (0.8, 2.0), (1.5, 0.5)}, (
        "the baseline is where the lines cross"
    )
    assert named(axes) == {"checkpoint", "amp_bf16"}
    assert "checkpoint (0.50x the peak, 1.25 x the time)" in texts(figure)[0]


def test_a_framework_with_its_baseline_alone_has_no_panel() -> None:
    table = frame(made("fp32", 200), made("checkpoint", 100), made("fp32", 300, framework="jax"))
    figure = figures.draw_pareto(table)
    assert [axes.get_title(loc="left") for axes in panels(figure)] == ["PyTorch 1.0"]
    assert "JAX" not in texts(figure)[0]


def test_another_model_is_not_on_the_front() -> None:
    found = [
        made(s, p, t, scenario="finetune")
        for s, p, t in (("half", 200, 1.0), ("checkpoint", 100, 1.25), ("head", 20, 0.1))
    ]
    figure = figures.draw_pareto(frame(*found))
    assert named(panels(figure)[0]) == {"checkpoint"}
    assert "without an interval: PyTorch head" in texts(figure)[1]


def test_labels_do_not_cover_each_other() -> None:
    names = (
        "checkpoint",
        "checkpoint_every_2",
        "amp_bf16",
        "accumulate",
        "accumulate_2",
        "foreach",
    )
    front = [made(name, 100 + 3 * i, 1.3 - 0.02 * i) for i, name in enumerate(names)]
    figure = figures.draw_pareto(frame(made("fp32", 200), *front))
    labels = [text for text in panels(figure)[0].texts if text.get_text()]
    boxes = [Text.get_window_extent(label) for label in labels]
    assert len(boxes) == len(names)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])


def test_two_machines_are_refused() -> None:
    both = frame(made("fp32", 1), made("fp32", 1, provenance=origin("torch", machine="other")))
    with pytest.raises(ValueError, match="other"):
        published.draw_all(both)


def test_text_from_records_is_no_mathematics(tmp_path: Path) -> None:
    odd = [
        made(
            s, 100, provenance=origin("torch", hardware={"device": "cpu", "cpu": "$x^{ <b> & \x07"})
        )
        for s in ("fp32", "checkpoint")
    ]
    assert "&lt;b&gt;" in figures.render_svg(figures.draw_pareto(frame(*odd)))


def test_the_same_rows_give_the_same_bytes(real: pd.DataFrame, tmp_path: Path) -> None:
    some = real[real["workload"] == "unet3d"]
    first, second = (published.save(some, tmp_path / name) for name in "ab")
    assert [p.name for p in first] == [p.name for p in second]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(first, second))
    assert not any("<dc:date>" in p.read_text() for p in first)


def test_drawing_imports_no_framework_and_leaves_no_figure_open() -> None:
    program = Path(__file__).parent / "programs" / "figures_drawn.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, program, RESULTS], env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


def test_the_command_writes_files_and_asks_for_a_machine(tmp_path: Path) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        called = [
            sys.executable,
            "-m",
            "framebench.cli",
            "report",
            "--figures=all",
            "--to",
            str(tmp_path / "to"),
            *arguments,
        ]
        return subprocess.run(called, cwd=ROOT, capture_output=True, text=True, timeout=600)

    wrong = command("--machine", "nowhere")
    assert wrong.returncode == 2
    assert "machines: " in wrong.stderr
    empty = command("--results", str(tmp_path))
    assert empty.returncode == 1
    assert "measure first" in empty.stderr
