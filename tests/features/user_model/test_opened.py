"""A file of the user's own in commands that ask about one case, and one message in those that take the suite's cases alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framebench.cli.shared import parts
from framebench.suite.case import UnknownCase
from framebench.suite.hypothetical import named
from framebench.suite.selectors import parse, select
from tests.features.user_model.test_try import written
from tests.processes import framebench

MESSAGE = "mine.py is a file, and this takes the suite's cases alone"


@pytest.mark.parametrize("asked", [select, parse, named, parts])
def test_where_a_file_is_not_taken_it_is_told_what_takes_it(asked: object) -> None:
    with pytest.raises(UnknownCase, match=MESSAGE):
        asked("folder/mine.py")  # type: ignore[operator]


@pytest.mark.slow
def test_a_file_is_explained(tmp_path: Path) -> None:
    file = written(tmp_path)
    done = framebench("explain", str(file), "--batch", "16", "--json", "--results", str(tmp_path / "results"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["case"] == "own/torch/train/fp32/b16/mine"
    weights = 4 * (6 * 8 + 8 + 8 * 3 + 3)
    held = {kind: sum(h["bytes"] for h in found["holders"] if h["kind"] == kind) for kind in ("parameter", "optimizer state")}
    assert held == {"parameter": weights, "optimizer state": weights}


@pytest.mark.slow
def test_the_largest_batch_of_a_file_is_found(tmp_path: Path) -> None:
    file = written(tmp_path)
    arguments = ["--budget", "1GiB", "--max-batch", "16", "--json", "--results", str(tmp_path / "results")]
    done = framebench("max-batch", str(file), *arguments)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    assert (found["case"], found["largest"]) == ("own/torch/train/fp32/b1/mine", 16)
    assert "how much memory? framebench max-batch" in framebench("max-batch", str(file)).stderr


def test_a_strategy_that_does_not_apply_is_told(tmp_path: Path) -> None:
    file = written(tmp_path)
    done = framebench("explain", str(file), "--strategy", "no_such", "--results", str(tmp_path / "results"))
    assert done.returncode == 2
    assert "no strategy 'no_such' for a model of one's own" in " ".join(done.stderr.split())
