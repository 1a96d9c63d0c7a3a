"""What a file may take: a budget and a share of what is free hold from its import on, and what does
not end is named.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.analysis.needs import MARGIN
from framebench.engine.environments import Environment
from framebench.user_file import trial as own
from framebench.user_file.trial import UserModel
from framebench.user_model.table import find_contradiction, find_needs
from tests.processes import framebench

MIB = 2**20
BEGINNING = """
import torch
from torch import nn

def model():
    return nn.Linear(512, 512)

def batch(n):
    return torch.randn(n, 512), torch.randn(n, 512)

def loss(output, target):
    return ((output - target) ** 2).mean()
"""
LARGE = "[torch.empty(64 * 2**20) for _ in range(8)]"  # 2 GiB, of which not a page is touched
# what is added to the file -> what is said under a budget of 2 MiB
TOO_LARGE = {
    "when it is imported": (
        f"KEPT = {LARGE}",
        "what it makes when it is imported alone exceeds the budget of 2.0 MiB",
    ),
    "in the model": (
        f"def model():\n    nn.kept = {LARGE}",
        "the weights alone exceed the budget of 2.0 MiB",
    ),
    "in the batch": (
        f"def batch(n):\n    return {LARGE}",
        "the batch alone exceeds the budget of 2.0 MiB",
    ),
    "by a little": (
        "def model():\n    return nn.Linear(1024, 1024)",
        "the weights alone take 4.0 MiB, and exceed the budget of 2.0 MiB",
    ),
}


def tried(file: Path, *arguments: str) -> tuple[int, str]:
    done = framebench(
        "try",
        str(file),
        "--rounds",
        "0",
        "--blocks",
        "1",
        "--results",
        str(file.parent / "results"),
        *arguments,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("where", TOO_LARGE)
def test_a_file_that_exceeds_the_budget_is_stopped(
    where: str, tmp_path: Path, environment: dict[str, Environment]
) -> None:
    file, (more, result) = tmp_path / "mine.py", TOO_LARGE[where]
    file.write_text(f"{BEGINNING}\n{more}\n")
    code, message = tried(file, "--budget", "2MiB")
    assert (code, result in message) == (2, True), message


def test_a_file_that_exceeds_free_memory_is_stopped(
    tmp_path: Path, environment: dict[str, Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a share of the memory that is free, here said to be 1 GiB."""
    monkeypatch.setattr(own, "read_free_memory", lambda: 2**30)
    file = tmp_path / "mine.py"
    file.write_text(f"{BEGINNING}\n{TOO_LARGE['in the model'][0]}\n")
    code, message = tried(file)
    assert (code, "does not fit: memory ran out during model()" in message) == (2, True), message


def test_a_file_that_hangs_is_stopped_at_the_time_limit(
    tmp_path: Path, environment: dict[str, Environment]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"{BEGINNING}\ndef batch(n):\n    import time\n    time.sleep(1e9)\n")
    code, message = tried(file, "--time-limit", "20")
    assert (code, "no end after 20 s, during batch()" in message) == (2, True), message


def test_too_few_rounds_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(BEGINNING)
    for rounds in ("1", "2"):
        done = framebench("try", str(file), "--rounds", rounds)
        assert done.returncode == 2
        assert (
            f"--rounds {rounds}: times of fewer than 3 rounds do not count; choose 3 or more, or 0"
        ) in done.stderr


def test_two_files_of_one_name_share_no_results() -> None:
    one, other = (UserModel(Path(folder) / "mine.py", "torch", 8, ()) for folder in ("/a", "/b"))
    assert one.name == other.name == "mine"
    assert one.folder != other.folder
    assert one.folder == UserModel(Path("/a/mine.py"), "torch", 4, ()).folder


def test_a_peak_below_the_activations_stops_the_run() -> None:
    import pandas as pd

    table = pd.DataFrame(
        {"strategy": ["fp32"], "peak_bytes": [330.0 * 2**20], "activation_bytes": [364.0 * 2**20]}
    )
    assert "fp32: a forward pass saves 364.0 MiB, and the peak was read as only 330.0 MiB" in str(
        find_contradiction(table)
    )
    assert find_contradiction(table.assign(peak_bytes=416.0 * 2**20)) is None


def test_a_budget_includes_library_buffers() -> None:
    row = {"peak_bytes": 20.0 * MIB, "cold_peak_bytes": 21.0 * MIB}

    assert find_needs(row | {"library_bytes": 0.0}) == pytest.approx(21 * MIB * MARGIN)
    assert find_needs(row | {"library_bytes": 9.0 * MIB}) == pytest.approx(29 * MIB * MARGIN)


def test_needs_of_a_user_model_rest_on_the_larger_count_of_its_peak() -> None:
    row = {
        "peak_bytes": 30.0 * MIB,
        "step_bytes": 40.0 * MIB,
        "step_instrument": "host.rss",
        "cold_peak_bytes": None,
        "library_bytes": 0.0,
    }

    assert find_needs(row) == pytest.approx(40 * MIB * MARGIN)
    assert find_needs(row | {"step_bytes": 20.0 * MIB}) == pytest.approx(30 * MIB * MARGIN)
    assert find_needs(row | {"peak_bytes": None}) is None
