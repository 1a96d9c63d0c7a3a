"""What is wrong with a user's file is told in a line, which names the place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from framebench.suite.user_file import Fault
from framebench.user_file import trial as own
from tests.processes import framebench, run_inside
from tests.user_model.small_file import written

SURVEYS = Path(__file__).parent / "programs" / "try_surveys.py"
CHANGES = (
    r"mine\.py:7: two runs .* by \S+ %.*: something changes from one step to the next, as a counter"
)
# what is wrong -> the change to the file, and what is said
BROKEN = {
    "wrong shapes": (
        ("nn.Linear(6, 8)", "nn.Linear(5, 8)"),
        r"mine\.py:6: in a step of .*: RuntimeError: mat1 and mat2",
    ),
    "third step": (
        (
            "return ((output",
            "steps.append(1)\n    if len(steps) > 2:\n        raise "
            "ValueError('enough')\n    return ((output",
        ),
        r"mine\.py:16: ValueError: enough",
    ),
    "sys.exit": (
        ("def model", "sys.exit(3)\ndef model"),
        r"mine\.py:6: sys\.exit\(3\) would end the process",
    ),
    "no number": (("mean()", "mean() * float('nan')"), r"mine\.py:12: the loss of step 1 is nan"),
    "infinite": (
        ("nn.ReLU()", "nn.Threshold(0, float('inf'))"),
        r"mine\.py:12: the loss .* output of 1 \(Threshold\)",
    ),
    "many losses": (
        ("mean()", "mean(0)"),
        r"mine\.py:12: loss.* one number as a tensor, .* shape \(3,\)",
    ),
    "a triple": (
        ("torch.randn(n, 3)", "0, 1"),
        r"mine\.py:9: batch\(n\) must return \(inputs, target\).* of 3; .*a dict",
    ),
    "no tensor": (
        ("torch.randn(n, 3)", "object()"),
        r"mine\.py:13: TypeError: unsupported operand",
    ),
    "an array": (
        ("torch.randn(n, 6), torch.randn(n, 3)", "torch.randn(n, 6).numpy(), torch.randn(n, 3)"),
        r"mine\.py:9: batch\(n\) must give tensors, and an input has numpy\.ndarray",
    ),
    "numbers in a list": (
        ("torch.randn(n, 6)", "[[0.0] * 6] * n"),
        r"batch\(n\) must give tensors, and an input has none: it is list",
    ),
    "optimizers that share weights": (
        (
            "def loss",
            "def optimizer(p):\n    return [torch.optim.SGD(p, lr=0.1), "
            "torch.optim.Adam(p)]\n\ndef loss",
        ),
        r"mine\.py:12: several optimizers must share no weight",
    ),
    "a batch of another size": (
        ("torch.randn(n, 6), torch.randn(n, 3)", "torch.randn(5, 6), torch.randn(5, 3)"),
        r"^nothing: .*no input of batch\(4\) has 4 samples .*write split\(batch, k\)",
    ),
    "a split that returns too few": (
        ("def loss", "def split(batch, k):\n    return [batch]\n\ndef loss"),
        r"mine\.py:12: split\(batch, 2\) must return 2 batches, and it returned 1",
    ),
    "a split that returns no batches": (
        ("def loss", "def split(batch, k):\n    return list('ab')\n\ndef loss"),
        r"mine\.py:12: split\(batch, 2\) must return batches as batch\(n\) returns them",
    ),
    "no module": (
        ("return nn.Sequential", "return print"),
        r"mine\.py:6: model\(\) must return .* NoneType",
    ),
    "too large": (
        ("return nn.Seq", "torch.ones(2**50)\n    return nn.Seq"),
        r"^OOM .*mine\.py:7: RuntimeError",
    ),
    "dropout": (("nn.ReLU()", "nn.Dropout(0.5)"), r"^nothing:  \|"),
    "own randomness": (
        ("mean()", "mean() * (1 + int.from_bytes(__import__('os').urandom(1), 'big') / 256)"),
        r"mine\.py:6: two runs .* by \S+ %",
    ),
    "every second step": (
        ("mean()", "mean() * (0.9 if steps.append(0) or len(steps) % 2 else 0.1)"),
        CHANGES,
    ),
    "every third step": (
        ("mean()", "mean() * (0.9 if steps.append(0) or len(steps) % 3 else 0.1)"),
        CHANGES,
    ),
    "a schedule": (
        ("mean()", "mean() * min(1.0, 0.1 + 1e-3 * (steps.append(0) or len(steps)))"),
        CHANGES,
    ),
    "a weight that is one number": (
        (
            "nn.Linear(8, 3))",
            "nn.Linear(8, 3), Scale())\n\nclass Scale(nn.Module):\n    def __init__(self):\n"
            "        super().__init__()\n        self.scale = nn.Parameter(torch.tensor(0.5))\n"
            "    def forward(self, x):\n        return x * self.scale",
        ),
        r"^nothing:  \|  \| 0 without a gradient",
    ),
    "targets that number the samples": (
        (
            "torch.randn(n, 3)\n\ndef loss(output, target):\n    return ((output - target) ** "
            "2).mean()",
            "torch.arange(n)\n\ndef loss(output, target):\n    return "
            "nn.functional.cross_entropy(output @ output.T, target)",
        ),
        r"^nothing: .*\| half of the batch ends in an error "
        r"\(IndexError: Target . is out of bounds.*\); targets that number",
    ),
    "a module in place of a function": (
        ("def model():\n    return nn", "model = nn"),
        r"mine\.py:6: `model` is .*Sequential: it must be a function",
    ),
    "weights without a shape": (
        ("nn.Linear(6, 8)", "nn.LazyLinear(8)"),
        r"mine\.py:6: 0\.weight has no shape yet",
    ),
    "float64": (
        ("nn.Linear(8, 3))", "nn.Linear(8, 3)).double()"),
        r"mine\.py:6: 0\.weight is float64, and the",
    ),
    "a buffer in float64": (
        (
            "nn.Linear(8, 3))",
            "nn.Linear(8, 3), Wide())\n\nclass Wide(nn.Module):\n    def __init__(self):\n"
            "        super().__init__()\n        self.register_buffer('scale', torch.ones(3, "
            "dtype=torch.float64))\n"
            "    def forward(self, x):\n        return x * self.scale.float()",
        ),
        r"^nothing:  \|",
    ),
    "a sparse buffer": (
        (
            "nn.Linear(8, 3))",
            "nn.Linear(8, 3), Sparse())\n\nclass Sparse(nn.Module):\n    def __init__(self):\n"
            "        super().__init__()\n        self.register_buffer('mix', "
            "torch.eye(3).to_sparse())\n"
            "    def forward(self, x):\n        return x @ self.mix",
        ),
        r"mine\.py:6: 3\.mix is sparse",
    ),
    "a buffer that follows the batch": (
        (
            "nn.Linear(8, 3))",
            "nn.Linear(8, 3), Keeps())\n\nclass Keeps(nn.Module):\n    def __init__(self):\n"
            "        super().__init__()\n        self.register_buffer('last', torch.zeros(4, 3))\n"
            "    def forward(self, x):\n        self.last = x.detach()\n        return x",
        ),
        r"^nothing: .*\| half of the batch ends in an error "
        r"\(RuntimeError: .*size mismatch for 3\.last",
    ),
    "Python's random numbers": (
        ("mean()", "mean() * (1 + __import__('random').random())"),
        r"^nothing:  . random numbers",
    ),
    "bias before a norm": (
        ("nn.Linear(6, 8), nn.ReLU()", "nn.Linear(6, 8), nn.BatchNorm1d(8)"),
        r"^nothing: 0\.bias \| ",
    ),
    "dropout before a zero": (
        (
            "nn.ReLU(), nn.Linear(8, 3))",
            "nn.Dropout(0.1), *zero())\n\ndef zero():\n    layer = nn.Linear(8, 3)\n"
            "    nn.init.zeros_(layer.weight)\n    return [layer]",
        ),
        r"^nothing: .*\| 2 without a gradient",
    ),
    "a head of zeros": (
        (
            "nn.Linear(8, 3))",
            "*zero())\n\ndef zero():\n    layer = nn.Linear(8, 3)\n    "
            "nn.init.zeros_(layer.weight)\n    return [layer]",
        ),
        r"\|  \| 2 without a gradient",
    ),
    "tied weights": (
        ("nn.ReLU()", "nn.ReLU(), *[nn.Linear(8, 8)] * 2"),
        r"\|  \| 0 without a gradient",
    ),
    "a sum": (("mean()", "sum()"), r"the loss is a sum over the batch, and accumulation divides"),
    "unequal": (
        ("((output - target) ** 2).mean()", "((output - target) ** 2)[target > 0.2].mean()"),
        r"tokens are unequal",
    ),
    "negatives": (
        ("((output - target) ** 2).mean()", "torch.logsumexp(output @ target.T, 1).mean()"),
        r"samples look at each",
    ),
    "a sequence": (
        ("nn.Linear(6, 8), nn.ReLU()", "nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 2, 3), nn.Flatten()"),
        r"^nothing:  \|",
    ),
    "a largest": (
        ("nn.ReLU()", "nn.Unflatten(1, (2, 4)), nn.AdaptiveMaxPool1d(4), nn.Flatten()"),
        r"^nothing:  \|",
    ),
    "random loss": (("mean()", "mean() * (1 + torch.rand(()))"), r"^nothing:  \|"),
}


@pytest.fixture(scope="module")
def message(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, Environment]
) -> dict[str, str]:
    files = {}
    for name, (change, _) in BROKEN.items():
        steps = (
            ("import sys\n", "import sys\nsteps = []\n")
            if "steps" in change[1]
            else ("import sys", "import sys")
        )
        files[name] = str(written(tmp_path_factory.mktemp("own"), change, steps))
    found = run_inside(environment["torch"], SURVEYS, json.dumps(files))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", BROKEN)
def test_errors_in_a_file_are_reported_with_their_line(name: str, message: dict[str, str]) -> None:
    assert re.search(BROKEN[name][1], message[name]), message[name]
    assert "\n" not in message[name].strip()


@pytest.mark.parametrize(
    ("change", "result"),
    [
        (("def batch", "def batches"), "has no `batch`; it needs model, batch, loss"),
        (("def model():", "def model(:"), "mine.py:6: SyntaxError"),
        (
            ("import torch\nfrom torch import nn", "import math"),
            "imports none of torch, jax, jittor",
        ),
        (("import sys", "import jax"), "imports torch and jax: say with --framework"),
    ],
)
def test_errors_are_found_without_running_the_file(
    change: tuple[str, str], result: str, tmp_path: Path
) -> None:
    with pytest.raises(Fault, match=re.escape(result)):
        own.inspect_file(written(tmp_path, change), 4)


def test_an_error_in_the_file_ends_the_command_without_traceback(
    tmp_path: Path, environment: dict[str, Environment]
) -> None:
    """A file that has a module's name replaces no module."""
    file = written(
        tmp_path,
        ("def loss(output, target):", "def loss(output, target):\n    sys.exit('done')"),
        name="numpy.py",
    )
    done = framebench("try", str(file), "--results", str(tmp_path / "results"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"framebench: {file}:13: sys.exit('done') would end the process here" in done.stderr


def test_a_missing_package_is_reported_with_a_hint(
    tmp_path: Path, environment: dict[str, Environment]
) -> None:
    file = written(tmp_path, ("import sys", "import sys, gone_for_good"))
    done = framebench("try", str(file), "--results", str(tmp_path / "results"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{file}:2: ModuleNotFoundError: No module named 'gone_for_good'; " in done.stderr
    assert "--env" in done.stderr
