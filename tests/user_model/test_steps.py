"""Steps as people have them: several inputs, keywords, sparse and complex weights, closures,
schedules, dropout left on. Each kind of file is surveyed and verified under strategies, and a fault
that is planted in it is still found.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from framebench.engine.environments import Environment
from tests.conftest import asked
from tests.processes import run_inside
from tests.user_model.forms import FORMS
from tests.user_model.steps import BEGINNING, FILES, RANDOM

ALL = FILES | FORMS
PROGRAM = Path(__file__).parent / "programs" / "try_steps.py"
# with dropout, what a strategy gets wrong: the change to the file above -> the strategy that is
# found out, or left out
PLANTED = {
    "a second run that draws anew": (
        """
        def forgetful(self, x, plain=Block.forward):
            torch.rand(1) if torch._C._current_graph_task_id() >= 0 else None  # in a backward pass
            return plain(self, x)
        Block.forward = forgetful
        """,
        "checkpoint",
    ),
    "layer norms that PyTorch adds up in bfloat16": (
        """
        class Normed(nn.Module):
            def __init__(self):
                super().__init__()
                self.mix = nn.Linear(16, 16)
                self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 16)
            def forward(self, x):
                return self.head(self.norm(self.mix(x))).tanh()
        def model():
            return Normed()
        def batch(n):
            return torch.randn(n, 4096, 16), torch.randn(n, 4096, 16)
        def loss(output, target):
            return (output - target).square().mean()
        """,
        "amp_bf16",
    ),
    "a function beside layer norms that has the wrong sign in bfloat16": (
        """
        class Turned(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()
            @staticmethod
            def backward(ctx, gradient):
                return -gradient if gradient.dtype == torch.bfloat16 else gradient
        class Normed(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.LayerNorm(16)
                self.mix, self.head = nn.Linear(16, 16), nn.Linear(16, 16)
            def forward(self, x):
                return self.head(Turned.apply(self.mix(self.norm(x))))
        def model():
            return nn.Sequential(Normed(), Normed())
        def batch(n):
            return torch.randn(n, 4096, 16), torch.randn(n, 4096, 16)
        def loss(output, target):
            return (output - target).square().mean()
        """,
        "amp_bf16",
    ),
    "a layer that is off by a quarter in bfloat16 alone": (
        """
        class Odd(nn.Linear):
            def forward(self, x):
                return super().forward(x) * (1.25 if torch.is_autocast_enabled("cpu") else 1.0)
        def model():
            net = Net(off=0.2)
            net.head = Odd(16, 5)
            return net
        """,
        "amp_bf16",
    ),
    "micro-batches of which each is scaled": (
        """
        def loss(output, target):
            return F.cross_entropy(output, target, reduction="sum")
        """,
        "accumulate",
    ),
}


OFTEN = (
    "two inputs, and a description beside the weights",
    "keywords, with the loss in what comes out",
    "sparse gradients",
    "complex weights",
    "a rate that begins at 0",
    "two optimizers, each with its weights by their place",
    "a closure",
    "blocks with a state that each pass changes",
    "dropout",
    "keywords, evaluated",
    "a list of targets, one for each image",
    "graphs in one axis, cut by the file",
    "a graph as an object of its own",
    "clipping in a hook of the optimizer",
    "SAM as it is published",
    "Lookahead around Adam",
    "a generator and its critic, one after the other",
)
NAMES = [pytest.param(name, marks=() if name in OFTEN else pytest.mark.all_cases) for name in ALL]


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    environment: dict[str, Environment],
) -> dict[str, Any]:
    folder, files, names = tmp_path_factory.mktemp("steps"), list[list[Any]](), asked(request)

    def write(name: str, more: str, scenario: str, strategies: tuple[str, ...]) -> None:
        (folder / name).mkdir()
        (folder / name / "mine.py").write_text(BEGINNING + "\n" + more)
        files.append([str(folder / name / "mine.py"), scenario, strategies])

    for name in names & ALL.keys():
        file = ALL[name]
        write(name, textwrap.dedent(file.more), file.scenario, file.strategies)
    for name in names & PLANTED.keys():
        more, strategy = PLANTED[name]
        write(name, textwrap.dedent(RANDOM) + textwrap.dedent(more), "train", (strategy,))
    result = run_inside(environment["torch"], PROGRAM, json.dumps(files))
    assert isinstance(result, dict)
    return {Path(file).parent.name: of_file for file, of_file in result.items()}


@pytest.mark.parametrize("name", NAMES)
def test_common_training_steps_are_verified(name: str, found: dict[str, Any]) -> None:
    file, rows = ALL[name], found[name]
    assert "fault" not in rows, rows["fault"]
    for strategy, row in rows.items():
        assert ("left_out" in row) == (strategy in file.left_out), row
        if "left_out" not in row:
            assert row["passed"], (strategy, row["reason"])
            assert row["proven"] == (strategy not in file.unproven), (strategy, row["products"])
            assert row["key"].endswith("/still") == (strategy in file.still)
            moved = len(set(row["losses"])) == len(row["losses"])
            assert file.scenario == "eval" or moved == file.moves, "the weights move"


@pytest.mark.parametrize("name", PLANTED)
def test_planted_errors_are_found_with_dropout_on(name: str, found: dict[str, Any]) -> None:
    rows = found[name]
    assert "fault" not in rows, rows["fault"]
    row = rows[PLANTED[name][1]]
    assert (
        not row["passed"]
        if "passed" in row
        else "the loss is a sum over the batch" in row["left_out"]
    )
    if "beside layer norms" in name:
        assert "adds up" not in row["reason"], "a fault of PyTorch's that does not explain it"
    elif "norms" in name:
        assert "adds up the gradients of a layer norm's weights, such as norm." in row["reason"]
    assert rows["fp32"]["passed"], rows["fp32"]["reason"]
