"""Plant real faults one at a time. No record is lost, and none says `ok` that should not.

Faults of a worker process (exception, kill, segmentation fault, hang, out of memory, babble) are in
test_runner.py, bad files in test_records.py, a full disk in test_cli.py; here are planted bugs.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from framebench.analysis import frames, tables
from framebench.engine.environments import Environment
from framebench.records import store
from tests.processes import COMMAND
from tests.repositories import copy_project

SWITCHES = "framebench/adapters/jittor/checkpoint.py"
MODEL = "models/transformer/torch_model.py"
SPEC = "models/transformer/spec.py"
ATTENTION = "x + self.attention(self.ln1(x))"
ATTACH = "model.block_runner = recompute_block"
PLANTED = {  # file, right text, wrong text, case, expected status
    "wrong gradient": (MODEL, ATTENTION, ATTENTION + ".detach()", "torch/train/fp32", "wrong"),
    "NaN loss": (SPEC, "lr=3e-4", "lr=1e30", "torch/train/fp32", "wrong"),
    "strategy did nothing": (SWITCHES, ATTACH, "pass", "jittor/train/checkpoint", "ok"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_project(tmp_path_factory.mktemp("faults") / "project")


def run_command(project: Path, results: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "run", *arguments, "--results", str(results), "--rounds", "3"]
    # A bug that is as long as the right text, and taken out within the same second, would stay in
    # Python's byte code
    variables = {**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("fault", PLANTED)
def test_planted_bugs_never_become_numbers(
    fault: str, project: Path, results: Path, environment: dict[str, Environment]
) -> None:
    file, right, wrong, strategy, status = PLANTED[fault]
    text = (project / file).read_text()
    assert text.count(right) >= 1, "the planted place has moved"
    (project / file).write_text(text.replace(right, wrong))
    try:
        done = run_command(project, results, f"transformer/{strategy}/b4/tiny")
    finally:
        (project / file).write_text(text)
    records = list(store.read_all(results))  # of the case, and of its baseline
    (found,) = [record for record in records if f"/{strategy}/" in record.case]
    assert found.status == status, done.stderr
    if status == "wrong":
        assert done.returncode == 1
        assert (found.peaks, found.step_s, found.first_step_s) == ({}, [], None)
    else:
        assert not found.effect.proven
        (table,) = tables.make_strategy_tables(frames.make_frame(records))
        (row,) = [row for row in table.rows if row[1] == found.parsed.strategy]
        assert "NO" in row, "the strategy's effect was not confirmed"
