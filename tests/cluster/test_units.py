"""A run in units: nothing is lost or measured twice, and a unit's command says all that the whole
run's says.
"""

from __future__ import annotations

import shlex

import pytest

from framebench.cli import run
from framebench.cluster.units import NODES, RunRequest, make_units
from framebench.engine import environments
from framebench.engine.groups import make_groups
from framebench.engine.runner import Options, explain_unsupported
from framebench.records import store
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.suite.profiles import list_profile_cases
from framebench.suite.selectors import select
from tests.callbacks import refuse_work
from tests.processes import COMMAND, framebench, run_process
from tests.record_files import load_fields

EVERYTHING = RunRequest(
    ("transformer/*/eval/{grad,no_grad}/b4/tiny", "transformer/torch/train/fsdp/b4x2/tiny"),
    None,
    Options(threads=2, rounds=3, time_limit_s=7.0, memory_limit=2**30),
    "/some/python",
    blocks=2,
)


def select_supported(cases: list[Case]) -> list[Case]:
    """Return the cases that can be measured here."""
    return [case for case in cases if not explain_unsupported(case)]


def test_units_have_the_cases_and_variants_of_the_whole():
    cases = [case for case in list_profile_cases("tiny") if case.workload == "transformer"]
    environment = {name: environments.describe(name) for name in FRAMEWORKS}
    cases_of_units = []
    groups_of_units = []

    for unit in make_units(RunRequest((), "tiny", blocks=2), cases):
        if unit.block == 0:
            continue  # the same as the second block
        own_cases = select(unit.selectors[0])
        supported = select_supported(own_cases)
        frameworks = {case.framework for case in supported}
        if unit.beside_torch:
            frameworks.add("torch")
        own_environments = {name: environment[name] for name in frameworks}
        cases_of_units += own_cases
        groups_of_units += make_groups(supported, own_environments)

    groups = make_groups(select_supported(cases), environment)
    assert sorted(cases_of_units) == sorted(cases)
    assert len(groups_of_units) == len(groups)
    for group in groups:
        assert group in groups_of_units


def test_a_unit_command_keeps_all_options(monkeypatch, results):
    measured = []

    def measure_here(request: RunRequest, results: object) -> list[str]:
        measured.append(request)
        return []

    monkeypatch.setattr(run, "measure_here", measure_here)
    cases = []
    for selector in EVERYTHING.selectors:
        cases += select(selector, ranks=True)
    units = make_units(EVERYTHING, cases)

    for unit in units:
        framebench(*unit.make_arguments(), results=results, code=0)

    assert measured == units
    assert len({unit.session_name for unit in units}) == len(units)
    over_ranks = [unit for unit in units if unit.selectors[0].endswith("/b4x2/tiny")]
    assert len(over_ranks) == 1


def test_a_printed_plan_can_be_run_by_a_shell(fake_worker, results):
    cases = "transformer/torch/train/{fp32,checkpoint}/b4/tiny"
    where = ("--env", fake_worker.python, "--results", results)
    options = (*where, "--rounds", "2", "--shell")
    (line,) = framebench("plan", cases, *options).stdout.splitlines()
    program = shlex.split(line)[0]
    command = line.replace(program, shlex.join(COMMAND), 1)
    run_process(["bash", "-c", command], FRAMEBENCH_MACHINE="here")
    assert framebench("plan", cases, *options).stdout == ""
    (machine,) = (results / NODES).iterdir()
    assert len(load_fields(store.find_file(machine, "here", "torch-0"))) == 2


@pytest.mark.parametrize(
    "options",
    [("--slurm", "time=5"), ("--on", "slurm", "--block", "1"), ("--on", "slurm", "--beside-torch")],
    ids=" ".join,
)
def test_an_option_without_effect_is_refused(options, monkeypatch):
    for name in ("framebench.cli.run.measure_here", "framebench.cluster.command.run_on_slurm"):
        monkeypatch.setattr(name, refuse_work)
    done = framebench("run", "transformer/torch/train/fp32/b4/tiny", *options, code=2)
    assert "leave" in done.stderr


def test_a_failed_unit_counts_as_done(results):
    options = ("--time-limit", "0.01", "--results", results)
    unit = ("transformer/torch/train/fp32/b4/tiny", *options)
    framebench("run", *unit, "--block", "0", code=1)
    assert len(list(store.read_all(results))) == 1
    assert "to run: 0 units, done: 1" in framebench("plan", *unit).stderr
