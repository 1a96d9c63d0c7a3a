"""A run in units: nothing is lost or measured twice, and a unit's command says all that the whole
run's says.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from framebench.cli import run
from framebench.cluster.units import NODES, RunRequest, make_units
from framebench.engine import environments
from framebench.engine.groups import make_groups
from framebench.engine.runner import Options, explain_unsupported
from framebench.records import store
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.profiles import list_profile_cases
from framebench.suite.selectors import select
from tests.processes import COMMAND, fake_environment, framebench
from tests.record_files import load_fields

EVERYTHING = RunRequest(
    ("transformer/*/eval/{grad,no_grad}/b4/tiny", "transformer/torch/train/fsdp/b4x2/tiny"),
    None,
    Options(threads=2, rounds=3, time_limit_s=7.0, memory_limit=2**30),
    "/some/python",
    blocks=2,
)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return fake_environment("engine/failing_worker.py", tmp_path).python


def test_the_units_of_a_block_have_each_case_once_and_the_same_variants_as_the_whole() -> None:
    cases, ready = (
        [c for c in list_profile_cases("tiny") if c.workload == "transformer"],
        {name: environments.describe(name) for name in FRAMEWORKS},
    )
    found = make_units(RunRequest((), "tiny", blocks=2), cases)
    named = [case for unit in found if unit.block == 1 for case in select(unit.selectors[0])]
    assert sorted(named) == sorted(cases)
    whole = {
        group.name: group
        for group in make_groups([c for c in cases if not explain_unsupported(c)], ready)
    }
    for unit in (unit for unit in found if unit.block == 1):
        own = [c for c in select(unit.selectors[0]) if not explain_unsupported(c)]
        there = {c.framework for c in own} | ({"torch"} if unit.beside_torch else set())
        for group in make_groups(own, {name: ready[name] for name in there}):
            assert group == whole.pop(group.name)
    assert not whole


def test_a_unit_command_keeps_all_options(monkeypatch: pytest.MonkeyPatch, results: Path) -> None:
    taken: list[RunRequest] = []
    monkeypatch.setattr(run, "measure_here", lambda wanted, _: taken.append(wanted) or [])
    found = make_units(EVERYTHING, [c for s in EVERYTHING.selectors for c in select(s, ranks=True)])
    for unit in found:
        assert framebench(*unit.arguments(), "--results", str(results)).returncode == 0
    assert taken == found
    assert len({unit.named for unit in found}) == len(found)
    assert sum(unit.selectors[0].endswith("/b4x2/tiny") for unit in found) == 1


def test_a_printed_plan_is_measured_by_a_shell_and_then_has_nothing_left(
    python: Path, results: Path
) -> None:
    plan = [
        "plan",
        "transformer/torch/train/{fp32,checkpoint}/b4/tiny",
        "--rounds",
        "2",
        "--env",
        str(python),
    ]
    plan += ["--results", str(results), "--shell"]
    (line,) = framebench(*plan).stdout.splitlines()
    words = shlex.join(COMMAND) + line[len(shlex.split(line)[0]) :]
    done = subprocess.run(
        ["bash", "-c", words],
        env={**os.environ, "FRAMEBENCH_MACHINE": "here"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert framebench(*plan).stdout == ""
    (machine,) = (results / NODES).iterdir()
    assert len(load_fields(store.find_file(machine, "here", "torch-0"))) == 2
    assert shlex.split(line)[-1] == f"{results}/{NODES}/$(hostname)"


@pytest.mark.parametrize(
    "options",
    [("--slurm", "time=5"), ("--on", "slurm", "--block", "1"), ("--on", "slurm", "--beside-torch")],
    ids=" ".join,
)
def test_an_option_without_effect_is_refused(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("framebench.cli.run.measure_here", "framebench.cluster.command.run_on_slurm"):
        monkeypatch.setattr(name, lambda *_: pytest.fail("work was begun"))
    done = framebench("run", "transformer/torch/train/fp32/b4/tiny", *options)
    assert done.returncode == 2
    assert "leave" in done.stderr


def test_a_failed_unit_counts_as_done(tmp_path: Path) -> None:
    unit = (
        "transformer/torch/train/fp32/b4/tiny",
        "--time-limit",
        "0.01",
        "--results",
        str(tmp_path),
    )
    for records in (1, 2):
        assert framebench("run", *unit, "--block", "0").returncode == 1
        assert len(list(store.read_all(tmp_path))) == records
        assert "0 units, 1 more are done" in framebench("plan", *unit).stderr
