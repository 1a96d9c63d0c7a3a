"""What a file may take: a budget and a share of what is free hold from its import on, and what does
not end is named.
"""

from unittest.mock import Mock

import pytest

from framebench.user_file import trial
from tests.marks import rarely
from tests.user_model.small_file import TORCH, try_file

LARGE = "[torch.empty(64 * 2**20) for _ in range(8)]"  # 2 GiB, of which not a page is touched
BUDGET = ("--budget", "2MiB")


@pytest.mark.parametrize(
    ("code", "options", "message"),
    [
        (f"KEPT = {LARGE}", BUDGET, "the budget of 2.0 MiB: memory ran out during import"),
        rarely(f"def model():\n    nn.kept = {LARGE}", BUDGET, "memory ran out during model()"),
        (f"def batch(n):\n    return {LARGE}", BUDGET, "memory ran out during batch()"),
        (
            "def model():\n    return nn.Linear(1024, 1024)",
            BUDGET,
            "the weights alone take 4.0 MiB, and exceed the budget of 2.0 MiB",
        ),
        (
            "def batch(n):\n    import time\n    time.sleep(1e9)",
            ("--time-limit", "20"),
            "did not end within 20 s, during batch()",
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


DEEP = """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.product = nn.Linear(6, 6)

    def forward(self, x):
        x = self.product(x)
        return x + x.tanh() * x.sigmoid()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Group(), Group()])
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return self.head(x)

class Group(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(4)])

    def forward(self, x):
        room = torch.empty(2**28)  # 1 GiB, of which not a page is touched
        for layer in self.layers:
            x = layer(x)
        return x

model = Net
"""


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_a_pass_beyond_the_budget_is_made_all_the_same(tmp_path):
    """Strategies that may fit are compared with it. Only a pass tells which level saves more."""
    file = tmp_path / "mine.py"
    file.write_text(f"{TORCH}\n{DEEP}\n")
    options = ("--strategies", "fp32", "--budget", "300MiB")
    done = try_file(file, tmp_path / "results", *options)
    assert done.returncode == 0, done.stderr
    assert "8 blocks (Layer, which save most" in done.stderr
