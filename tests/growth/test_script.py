"""`framebench grow train.py -- arguments`: a user's own script, whose steps end where its
optimizer's do.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from framebench.growth.measure import NoReadings, find_framework
from tests.processes import framebench

TRAIN = """
    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    model, losses = torch.nn.Linear(512, 64), []
    generator = torch.optim.Adam(model.parameters())
    critic = torch.optim.SGD(model.parameters(), lr=0.1)
    if __name__ == "__main__":
        for _ in range(arguments.steps):
            loss = torch.relu(model(torch.randn(16, 512))).mean()
            loss.backward()
            critic.step()
            generator.step()
            if arguments.keep:
                losses.append(loss)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(textwrap.dedent(TRAIN).lstrip())
    return file


@pytest.mark.slow
@pytest.mark.all_cases
@pytest.mark.parametrize("keep", [False, True])
def test_a_script_is_followed_with_its_arguments(keep: bool, script: Path, tmp_path: Path) -> None:
    options = ["--steps", "52", "--json", "--results", str(tmp_path / "results")]
    arguments = ["--", "--keep"] if keep else []
    done = framebench("grow", str(script), *options, *arguments)
    assert done.stdout, done.stderr
    printed = json.loads(done.stdout)
    expected = (1, "grows") if keep else (0, "does not grow")
    assert (done.returncode, printed["verdict"]) == expected
    assert any("held by `losses`" in row["note"] for row in printed["kept"]) == keep
    if keep:  # the nodes of its graph; what they saved was freed by the backward pass
        assert printed["bytes_per_step"]["host.malloc"]["low"] > 1024


@pytest.mark.slow
def test_a_script_with_too_few_steps_is_reported(script: Path, tmp_path: Path) -> None:
    done = framebench(
        "grow", str(script), "--results", str(tmp_path / "results"), "--", "--steps", "30"
    )
    assert done.returncode == 2
    assert "ended after 30 steps of its optimizer, and 244 are needed" in " ".join(
        done.stderr.split()
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [("import math", "imports none of torch"), ("def (", "SyntaxError"), (None, "does not exist")],
)
def test_scripts_that_cannot_be_followed_are_refused(
    code: str | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "train.py"
    if code:
        file.write_text(code)
    with pytest.raises(NoReadings, match=message):
        find_framework(file)


PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "note", "line", "bytes_per_step"),
    [
        ("running_sum", "hangs on `total`", "running_sum.py:13", 0),
        pytest.param("evaluation", "held by `outputs`", "", 2 * 2048, marks=pytest.mark.all_cases),
        ("jax_metrics", "", "jax_metrics.py:", 8192),
    ],
)
def test_what_grows_in_a_script_is_named(
    name: str, note: str, line: str, bytes_per_step: int, tmp_path: Path
) -> None:
    options = ["--steps", "52", "--json", "--results", str(tmp_path / "results")]
    done = framebench("grow", str(PROGRAMS / f"{name}.py"), *options)
    assert done.stdout, done.stderr
    printed = json.loads(done.stdout)
    assert (done.returncode, printed["verdict"]) == (1, "grows")
    rows = [row for row in printed["kept"] if note in row["note"] and line in row["made_at"]]
    assert rows, printed["kept"]
    assert not any("Backward" in row["what"] for row in printed["kept"]), "the watcher's own"
    largest = max(slope["value"] for slope in printed["bytes_per_step"].values())
    assert largest >= bytes_per_step
