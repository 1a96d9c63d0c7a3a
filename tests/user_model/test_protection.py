"""What a file may take: a budget and a share of what is free hold from its import on, and what does
not end is named.
"""

from pathlib import Path
from unittest.mock import Mock

import pytest

from framebench.user_file import trial
from framebench.user_file.trial import UserModel
from tests.user_model.small_file import TORCH, try_file

LARGE = "[torch.empty(64 * 2**20) for _ in range(8)]"  # 2 GiB, of which not a page is touched
BUDGET = ("--budget", "2MiB")


@pytest.mark.parametrize(
    ("code", "options", "message"),
    [
        (f"KEPT = {LARGE}", BUDGET, "the budget of 2.0 MiB: memory ran out during import"),
        (f"def model():\n    nn.kept = {LARGE}", BUDGET, "memory ran out during model()"),
        (f"def batch(n):\n    return {LARGE}", BUDGET, "memory ran out during batch()"),
        (
            "def model():\n    return nn.Linear(1024, 1024)",
            BUDGET,
            "the weights alone take 4.0 MiB, and exceed the budget of 2.0 MiB",
        ),
        (
            "def batch(n):\n    import time\n    time.sleep(1e9)",
            ("--time-limit", "20"),
            "no end after 20 s, during batch()",
        ),
    ],
)
@pytest.mark.usefixtures("environment")
def test_a_file_that_takes_too_much_is_stopped(code, options, message, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(f"{TORCH}\n{code}\n")
    done = try_file(file, tmp_path / "results", *options)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.usefixtures("environment")
def test_a_file_that_exceeds_free_memory_is_stopped(tmp_path, monkeypatch):
    """The limit is a share of the memory that is free, here said to be 1 GiB."""
    monkeypatch.setattr(trial, "read_free_memory", Mock(return_value=2**30))
    file = tmp_path / "mine.py"
    file.write_text(f"{TORCH}\ndef model():\n    nn.kept = {LARGE}\n")
    done = try_file(file, tmp_path / "results")
    assert done.returncode == 2
    assert "does not fit: memory ran out during model()" in done.stderr


def test_two_files_of_one_name_share_no_results():
    one = UserModel(Path("/a/mine.py"), "torch", 8, ())
    other = UserModel(Path("/b/mine.py"), "torch", 8, ())
    assert one.name == other.name == "mine"
    assert one.folder != other.folder
