"""Plant real faults one at a time. No record is lost, and none says `ok` that should not.

Faults of a worker process (exception, kill, segmentation fault, hang, out of memory, babble) are in
test_runner.py, bad files in test_records.py, a full disk in test_cli.py; here are planted bugs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.analysis import frames, tables
from framebench.records import store
from framebench.records.record import Record
from tests.processes import COMMAND, run_process
from tests.repositories import copy_project


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    return copy_project(tmp_path_factory.mktemp("faults") / "project")


def run_with_bug(
    project: Path, results: Path, edit: tuple[str, str, str], case: str
) -> tuple[int, list[Record]]:
    """Run a case where a file has a wrong text for a right one; return exit code and records."""
    name, right, wrong = edit
    file = project / name
    text = file.read_text()
    assert text.count(right) == 1, "the planted place has moved"
    # a bug that is as long as the right text, and taken out within the same second, would stay in
    # Python's byte code
    variables = {"PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*COMMAND, "run", case, "--results", results, "--rounds", "3"]
    file.write_text(text.replace(right, wrong))
    try:
        done = run_process(command, project, code=None, **variables)
    finally:
        file.write_text(text)
    return done.returncode, list(store.read_all(results))


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_a_wrong_gradient_never_becomes_a_number(project, results):
    attention = "x + self.attention(self.ln1(x))"
    detached = ("models/transformer/torch_model.py", attention, f"{attention}.detach()")
    exit_code, (record,) = run_with_bug(
        project, results, detached, "transformer/torch/train/fp32/b4/tiny"
    )
    assert (exit_code, record.status) == (1, "wrong")
    assert (record.peaks, record.step_s, record.first_step_s) == ({}, [], None)


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_a_strategy_that_does_nothing_is_not_confirmed(project, results):
    file = "framebench/adapters/jittor/checkpoint.py"
    idle = (file, "model.block_runner = recompute_block", "pass")
    _, records = run_with_bug(project, results, idle, "transformer/jittor/train/checkpoint/b4/tiny")
    (record,) = [record for record in records if record.parsed.strategy == "checkpoint"]
    assert record.status == "ok"
    assert not record.effect.proven
    (table,) = tables.make_strategy_tables(frames.make_frame(records))
    (row,) = [row for row in table.rows if row[1] == "checkpoint"]
    assert "NO" in row, "the strategy's effect was not confirmed"
