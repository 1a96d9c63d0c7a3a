"""Pictures are drawn once, and anew when a record or the code changes."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import pytest

from framebench.analysis import figures
from framebench.analysis.figures import kept
from framebench.analysis.results import Results
from tests.drawing import frame, made
from tests.material import RESULTS


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was drawn, in a cache of the test's own."""
    monkeypatch.setenv("FRAMEBENCH_CACHE", str(tmp_path))
    names: list[str] = []
    draw = figures._drawn
    monkeypatch.setattr(figures, "_drawn", lambda name, *more: (names.append(name), draw(name, *more))[1])
    return names


def rows(peak: int = 100) -> object:
    return frame(made("fp32", 200), made("checkpoint", peak, 1.25))


def test_the_same_rows_are_drawn_once_and_other_rows_anew(drawn: list[str]) -> None:
    first, again = (figures.written("pareto", figures.pareto, rows()) for _ in range(2))  # type: ignore[arg-type]
    assert first == again
    assert first
    assert first.svg.startswith("<?xml")
    assert drawn == ["pareto"]
    other = figures.written("pareto", figures.pareto, rows(90))  # type: ignore[arg-type]
    assert drawn == ["pareto"] * 2
    assert other != first


def test_what_cannot_be_drawn_is_remembered_too(drawn: list[str]) -> None:
    alone = frame(made("fp32", 200))
    assert [figures.written("pareto", figures.pareto, alone) for _ in range(2)] == [None, None]
    assert drawn == ["pareto"]


def test_other_code_draws_anew_and_a_broken_file_is_no_picture(
    drawn: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = figures.written("pareto", figures.pareto, rows())  # type: ignore[arg-type]
    (file,) = (tmp_path / "pictures").iterdir()
    file.write_text("{")
    assert figures.written("pareto", figures.pareto, rows()) == picture  # type: ignore[arg-type]
    monkeypatch.setattr(kept, "_code", lambda: b"other")
    os.utime(file, (0, 0))
    figures.written("pareto", figures.pareto, rows())  # type: ignore[arg-type]
    assert drawn == ["pareto"] * 3
    assert not file.exists(), "long unused"


def test_the_code_is_all_that_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What figures are made by is fingerprinted, the models too, and a change is noticed."""
    every = {path.relative_to(kept.PACKAGE).as_posix() for path in kept._source()}
    assert {"analysis/figures/page.py", "features/explain/figure.py", "models/transformer/spec.py"} <= every
    assert not [name for name in every if name.startswith("features/site/")], "pages draw nothing"
    (tmp_path / "analysis").mkdir()
    module = tmp_path / "analysis" / "one.py"
    monkeypatch.setattr(kept, "PACKAGE", tmp_path)
    prints = [module.write_text(text) and kept._code.__wrapped__() for text in ("a = 1\n", "a = 2\n", "a = 1\n")]
    assert prints[0] == prints[2] != prints[1]


def test_every_function_that_draws_is_in_the_code() -> None:
    results = Results(RESULTS)
    asked = {
        inspect.getsourcefile(inspect.unwrap(draw))
        for _, draw, _ in figures.questions(results.table(results.machines[0]), results)
    }
    assert len(asked) > 3
    assert asked <= {str(path) for path in kept._source()}
