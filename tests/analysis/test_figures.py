"""Figures show what the rows say: the front, numbers in titles, and the same bytes every time."""

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
from matplotlib.text import Text

from framebench.analysis import figures
from framebench.analysis.figures import fronts
from framebench.analysis.results import Results
from framebench.publish import figures as published
from tests.figure_records import frame, made, named, origin, panels, places, texts
from tests.processes import ROOT
from tests.sample_records import MACHINE, RESULTS

Point = tuple[float, float]


def is_beaten(point: Point, points: list[Point]) -> bool:
    """Return whether another point has no more memory and no less speed."""
    memory, speed = point
    others = [other for other in points if other != point]
    return any(other[0] <= memory and other[1] >= speed for other in others)


coordinates = st.integers(1, 6).map(float)


@given(st.lists(st.tuples(coordinates, coordinates), max_size=12))
def test_the_front_is_what_no_other_point_beats(points: list[Point]) -> None:
    table = pd.DataFrame(points, columns=["relative_peak", "speed"], dtype=float)
    front = fronts.find_front(table)
    expected = {point for point in points if not is_beaten(point, points)}
    assert list(front.itertuples(index=False, name=None)) == sorted(expected)


def test_pareto_draws_ratios_and_names_the_front() -> None:
    table = frame(
        made("fp32", 200),
        made("checkpoint", 100, 1.25),
        made("amp_bf16", 160, 0.5),
        made("keep_grads", 300, 2.0),
    )
    figure = figures.draw_pareto(table)
    (axes,) = panels(figure)
    # the baseline is where the lines cross
    assert places(axes) == {(0.5, 0.8), (0.8, 2.0), (1.5, 0.5)}
    assert named(axes) == {"checkpoint", "amp_bf16"}
    assert "checkpoint (0.50x the peak, 1.25 x the time)" in texts(figure)[0]


def test_a_framework_with_its_baseline_alone_has_no_panel() -> None:
    table = frame(made("fp32", 200), made("checkpoint", 100), made("fp32", 300, framework="jax"))
    figure = figures.draw_pareto(table)
    (axes,) = panels(figure)
    assert axes.get_title(loc="left") == "PyTorch 1.0"
    assert "JAX" not in texts(figure)[0]


def test_another_model_is_not_on_the_front() -> None:
    table = frame(
        made("half", 200, 1.0, scenario="finetune"),
        made("checkpoint", 100, 1.25, scenario="finetune"),
        made("head", 20, 0.1, scenario="finetune"),
    )
    figure = figures.draw_pareto(table)
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
    for box, other in combinations(boxes, 2):
        assert not box.overlaps(other)


def test_two_machines_are_refused() -> None:
    both = frame(made("fp32", 1), made("fp32", 1, provenance=origin("torch", machine="other")))
    with pytest.raises(ValueError, match="other"):
        published.draw_all(both)


def test_text_from_records_is_no_markup() -> None:
    odd = origin("torch", hardware={"device": "cpu", "cpu": "$x^{ <b> & \x07"})
    table = frame(made("fp32", 100, provenance=odd), made("checkpoint", 100, provenance=odd))
    assert "&lt;b&gt;" in figures.render_svg(figures.draw_pareto(table))


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    table = Results(RESULTS).table(MACHINE)
    unet = table[table["workload"] == "unet3d"]
    first = published.save(unet, tmp_path / "first")
    second = published.save(unet, tmp_path / "second")
    assert [file.name for file in first] == [file.name for file in second]
    for file, again in zip(first, second):
        assert file.read_bytes() == again.read_bytes()
        assert "<dc:date>" not in file.read_text()


def test_drawing_imports_no_framework_and_leaves_no_figure_open() -> None:
    program = Path(__file__).parent / "programs" / "figures_drawn.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, program, RESULTS], env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("option", "value", "status", "message"),
    [
        ("--machine", "nowhere", 2, "machines: "),
        ("--results", "EMPTY", 1, "measure first"),
    ],
)
def test_the_command_says_what_it_lacks(
    option: str, value: str, status: int, message: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "framebench.cli", "report", "--figures=all"]
    command += ["--to", str(tmp_path / "to"), option, value.replace("EMPTY", str(tmp_path))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == status
    assert message in done.stderr
