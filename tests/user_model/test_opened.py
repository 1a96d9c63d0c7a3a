"""A file of the user's own in commands that ask about one case, and one message in those that take
the suite's cases alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framebench.cli.shared import parse_selector
from framebench.engine import releases
from framebench.records.pins import find_pinned_versions
from framebench.suite.case import UnknownCase
from framebench.suite.hypothetical import parse_any_batch
from framebench.suite.selectors import parse, select
from framebench.versions import bisect
from framebench.versions.bisection_record import ReleaseResult
from tests.processes import framebench
from tests.user_model.small_file import written

FLOAT = 4  # bytes
TEMPORARY_BYTES = 2**14  # at most what a step takes and gives back in between
MESSAGE = "mine.py is a file, and this takes the suite's cases alone"


@pytest.mark.parametrize("asked", [select, parse, parse_any_batch, parse_selector])
def test_a_file_is_refused_where_only_cases_are_taken(asked: object) -> None:
    with pytest.raises(UnknownCase, match=MESSAGE):
        asked("folder/mine.py")  # type: ignore[operator]


@pytest.mark.all_cases
@pytest.mark.slow
def test_a_file_is_explained(tmp_path: Path) -> None:
    file = written(tmp_path)
    done = framebench(
        "explain", str(file), "--batch", "16", "--json", "--results", str(tmp_path / "results")
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["case"] == "own/torch/train/fp32/b16/mine"
    weights = 4 * (6 * 8 + 8 + 8 * 3 + 3)
    held = {
        kind: sum(h["bytes"] for h in found["holders"] if h["kind"] == kind)
        for kind in ("parameter", "optimizer state")
    }
    assert held == {"parameter": weights, "optimizer state": weights}


TEACHER = (
    (
        "def model",
        "TEACHER = nn.Linear(1024, 1024).requires_grad_(False)\n\ndef model",
    ),
    ("** 2).mean()", "** 2).mean() + TEACHER(torch.ones(1, 1024)).mean() * 0"),
)


@pytest.mark.slow
def test_a_file_is_predicted_without_being_run_and_tried_within_a_budget(tmp_path: Path) -> None:
    """The prediction is exact for what lasts: weights, gradients, momentum, batch and teacher."""
    file = written(tmp_path, *TEACHER)
    asked = ["predict", str(file), "--batch", "16", "--strategies", "fp32,checkpoint", "--json"]
    done = framebench(*asked, "--budget", "8MiB")
    assert done.returncode == 0, done.stderr
    assert "left out: checkpoint: there is no class" in done.stderr
    (fp32,) = json.loads(done.stdout)
    assert fp32["case"] == "own/torch/train/fp32/b16/mine"
    weights = (6 * 8 + 8) + (8 * 3 + 3)  # two layers with biases
    batch = 16 * (6 + 3)  # inputs and targets
    teacher = 1024 * 1024 + 1024
    lasting_bytes = FLOAT * (3 * weights + batch + teacher)  # with gradients and momentum
    predicted, enforced = fp32["predictions"]
    assert (predicted["method"], enforced["method"]) == ("fake tensors", "enforced")
    assert lasting_bytes <= predicted["bytes"] < lasting_bytes + TEMPORARY_BYTES
    assert "b16 fits within 8.0 MiB" in enforced["note"]


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        (
            [("import torch\nfrom torch import nn", "import jittor")],
            [],
            "is in jittor, and only PyTorch has tensors without",
        ),
        ([("torch.randn(n, 6)", "object()")], [], "mine.py:9: batch(n) must give tensors"),
        # a target may be anything that the file's loss takes
        ([("torch.randn(n, 3)", "object()")], [], "mine.py:13: TypeError: unsupported operand"),
    ],
)
def test_unpredictable_files_are_refused_with_a_reason(
    changes: list[tuple[str, str]], options: list[str], message: str, tmp_path: Path
) -> None:
    done = framebench("predict", str(written(tmp_path, *changes)), *options)
    assert (done.returncode, message in " ".join(done.stderr.split())) == (2, True), done.stderr


@pytest.mark.slow
@pytest.mark.all_cases
def test_a_file_is_compared_between_releases(tmp_path: Path) -> None:
    """Of one and the same release nothing is said; of two there is a verdict on the peak."""
    file, results = written(tmp_path), str(tmp_path / "results")
    versions = [f"torch=={version}" for version in find_pinned_versions("torch")]
    arguments = [str(file), "--rounds", "0", "--blocks", "1", "--results", results, "--json"]
    done = framebench("versions", "compare", *versions[:2], *arguments)
    assert done.returncode in (0, 1, 3), done.stderr
    rows = {row["quantity"]: row for row in json.loads(done.stdout)}
    assert rows["peak memory"]["case"] == "own/torch/train/fp32/b8/mine"
    assert rows["peak memory"]["base_value"] > 0


def test_a_file_is_searched_for_the_release_that_changed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its baseline is measured in each release, by records of its own."""
    measured = []

    def tried(bench: bisect.ReleaseBench, release: str) -> ReleaseResult:
        measured.append((bench.case.id, bench.results.name))
        return ReleaseResult(
            release=release,
            values=(100.0 if release < "2.13.0" else 150.0,) * 2,
            instrument="host.rss",
            versions={},
        )

    monkeypatch.setattr(bisect.ReleaseBench, "measure", tried)
    monkeypatch.setattr(releases, "list_releases", lambda framework: ["2.12.0", "2.12.1", "2.13.0"])
    arguments = [
        "2.12.0",
        "2.13.0",
        str(written(tmp_path)),
        "--framework",
        "torch",
        "--results",
        str(tmp_path / "results"),
    ]
    done = framebench("versions", "bisect", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["first"] == "2.13.0"
    assert set(measured) == {("own/torch/train/fp32/b8/mine", "bisect")}


@pytest.mark.slow
@pytest.mark.all_cases
def test_the_largest_batch_of_a_file_is_found(tmp_path: Path) -> None:
    file = written(tmp_path)
    arguments = [
        "--budget",
        "1GiB",
        "--max-batch",
        "16",
        "--json",
        "--results",
        str(tmp_path / "results"),
    ]
    done = framebench("max-batch", str(file), *arguments)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    assert (found["case"], found["largest"]) == ("own/torch/train/fp32/b1/mine", 16)
    assert "how much memory? framebench max-batch" in framebench("max-batch", str(file)).stderr
