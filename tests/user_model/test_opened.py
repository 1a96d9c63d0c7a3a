"""A file of the user's own in commands that ask about one case, and one message in those that take
the suite's cases alone.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

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
from tests.user_model.small_file import write_variant

FLOAT = 4  # bytes
TEMPORARY_BYTES = 2**14  # at most what a step takes and gives back in between
WEIGHTS = (6 * 8 + 8) + (8 * 3 + 3)  # of two layers with biases
CASE = "own/torch/train/fp32/b8/mine"


def run_json(tmp_path: Path, *command: str) -> Any:
    """Return what a command prints as JSON."""
    done = framebench(*command, "--json", results=tmp_path / "results")
    assert done.returncode in (0, 1, 3), done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("read", [select, parse, parse_any_batch, parse_selector])
def test_a_file_is_refused_where_only_cases_are_taken(read):
    message = "mine.py is a file, and this takes the suite's cases alone"
    with pytest.raises(UnknownCase, match=message):
        read("folder/mine.py")


@pytest.mark.all_cases
@pytest.mark.slow
def test_a_file_is_explained(tmp_path):
    explanation = run_json(tmp_path, "explain", str(write_variant(tmp_path)))
    assert explanation["case"] == CASE
    sizes = Counter()
    for holder in explanation["holders"]:
        sizes[holder["kind"]] += holder["bytes"]
    assert sizes["parameter"] == sizes["optimizer state"] == FLOAT * WEIGHTS


TEACHER = (
    (
        "def model",
        "TEACHER = nn.Linear(1024, 1024).requires_grad_(False)\n\ndef model",
    ),
    ("** 2).mean()", "** 2).mean() + TEACHER(torch.ones(1, 1024)).mean() * 0"),
)


@pytest.mark.slow
def test_a_file_is_predicted_and_tried_within_a_budget(tmp_path):
    """The prediction is exact for what lasts: weights, gradients, momentum, batch and teacher."""
    file = str(write_variant(tmp_path, *TEACHER))
    options = ("--strategies", "fp32,checkpoint", "--budget", "8MiB", "--json")
    done = framebench("predict", file, "--batch", "16", *options, code=0)
    assert "left out: checkpoint: there is no class" in done.stderr
    (fp32,) = json.loads(done.stdout)
    predicted, enforced = fp32["predictions"]
    assert (predicted["method"], enforced["method"]) == ("fake tensors", "enforced")
    batch = 16 * (6 + 3)  # inputs and targets
    teacher = 1024 * 1024 + 1024
    lasting_bytes = FLOAT * (3 * WEIGHTS + batch + teacher)  # with gradients and momentum
    assert lasting_bytes <= predicted["bytes"] < lasting_bytes + TEMPORARY_BYTES
    assert "b16 fits within 8.0 MiB" in enforced["note"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("import torch\nfrom torch import nn", "import jittor"),
            "is in jittor, and only PyTorch has tensors without",
        ),
        (("torch.randn(n, 6)", "object()"), "mine.py:9: batch(n) must give tensors"),
        # a target may be anything that the file's loss takes
        (("torch.randn(n, 3)", "object()"), "mine.py:13: TypeError: unsupported operand"),
    ],
)
def test_unpredictable_files_are_refused_with_a_reason(change, message, tmp_path):
    done = framebench("predict", str(write_variant(tmp_path, change)), code=2)
    assert message in " ".join(done.stderr.split())


@pytest.mark.slow
@pytest.mark.all_cases
def test_a_file_is_compared_between_releases(tmp_path):
    """Two releases are compared by the peak of the file's baseline."""
    versions = [f"torch=={version}" for version in find_pinned_versions("torch")[:2]]
    options = ("--rounds", "0", "--blocks", "1")
    rows = run_json(
        tmp_path, "versions", "compare", *versions, str(write_variant(tmp_path)), *options
    )
    (peak,) = [row for row in rows if row["quantity"] == "peak memory"]
    assert peak["case"] == CASE
    assert peak["base_value"] > 0


def test_a_file_is_searched_for_the_release_that_changed_it(tmp_path, monkeypatch):
    """The baseline of the file is measured in each release, by records of its own."""
    measured = set()

    def measure(bench, release):
        measured.add((bench.case.id, bench.results.name))
        peak = 100.0 if release < "2.13.0" else 150.0
        return ReleaseResult(
            release=release, values=(peak, peak), instrument="host.rss", versions={}
        )

    monkeypatch.setattr(bisect.ReleaseBench, "measure", measure)
    monkeypatch.setattr(
        releases, "list_releases", Mock(return_value=["2.12.0", "2.12.1", "2.13.0"])
    )
    file = str(write_variant(tmp_path))
    command = ("versions", "bisect", "2.12.0", "2.13.0", file, "--framework", "torch")
    assert run_json(tmp_path, *command)["first"] == "2.13.0"
    assert measured == {(CASE, "bisect")}


@pytest.mark.slow
@pytest.mark.all_cases
def test_the_largest_batch_of_a_file_is_found(tmp_path):
    options = ("--budget", "1GiB", "--max-batch", "16")
    (fit,) = run_json(tmp_path, "max-batch", str(write_variant(tmp_path)), *options)
    assert fit["case"] == "own/torch/train/fp32/b1/mine"
    assert fit["largest"] == 16
