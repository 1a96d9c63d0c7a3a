"""Real asv on planted results: what it calls better, worse, and a regression.

Nothing is measured.
"""

from __future__ import annotations

import json
import math
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from asv.machine import Machine
from asv.results import Results
from asv.runner import BenchmarkResult
from asv.util import UserError

from framebench.asv import cases, run
from framebench.models import spec
from framebench.strategies.registry import SCENARIOS
from framebench.suite import profiles, protocol
from tests.discovery import discover_benchmarks
from tests.processes import ROOT, run_process
from tests.repositories import run_git

MACHINE, FRAMEWORK, ENVIRONMENT = "planted", {"torch": "2.13.0"}, "framebench-py3.11-torch2.13.0"
PLACE = "'fp32', 4"  # the parameters that have values
FAST = {"track_throughput": 200.0, "track_step_time": 0.01}
SLOW = {"track_throughput": 100.0, "track_step_time": 0.02}
START = 1_700_000_000_000  # the date of the first commit
COMMITS = 12


class Project:
    """A git repository with asv's configuration and the results of many commits, but no project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "asv.conf.json").write_text((ROOT / "asv.conf.json").read_text())
        run_git(root, "init", "-q", "-b", "main")
        self.run_asv("machine", "--yes", "--machine", MACHINE)
        self.listed = discover_benchmarks(root)
        machine = Machine.load(machine_name=MACHINE, _path=str(root / ".asv-machine.json"))
        machine.save(str(root / "results/asv"))
        self.commits = [self.commit() for _ in range(COMMITS)]

    def commit(self) -> str:
        """Make an empty commit, and return its hash."""
        run_git(self.root, "commit", "-q", "--allow-empty", "-m", "x")
        return run_git(self.root, "rev-parse", "HEAD")

    def run_asv(self, *arguments: str) -> str:
        """Run asv, and return what it prints."""
        command = [sys.executable, "-m", "asv", *arguments]
        variables = {"HOME": str(self.root), "PYTHONPATH": str(ROOT)}
        done = run_process(command, self.root, FRAMEBENCH_PROFILE="quick", **variables)
        return done.stdout

    def plant(self, number: int, metrics: dict[str, float], size: str = "") -> None:
        """Save the results of a commit: PyTorch's Transformer, of which only PLACE has values."""
        results = Results(
            params={"machine": MACHINE, **FRAMEWORK},
            requirements=FRAMEWORK,
            commit_hash=self.commits[number],
            date=START + number,
            python="3.11",
            env_name=ENVIRONMENT,
            env_vars={},
        )
        for metric, value in metrics.items():
            benchmark = self.listed[f"transformer.TransformerTorchTrain{size}.{metric}"]
            values = []
            for parameters in product(*benchmark["params"]):
                values.append(value if ", ".join(parameters) == PLACE else math.nan)
            assert value in values
            nothing = [None] * len(values)
            result = BenchmarkResult(
                values, samples=nothing, number=nothing, errcode=0, stderr="", profile=None
            )
            results.add_result(benchmark, result)
        results.save(str(self.root / "results/asv"))

    def plant_all(self, before: dict[str, float], after: dict[str, float], size: str = "") -> None:
        """Save results that change in the middle of the history."""
        for number in range(COMMITS):
            self.plant(number, before if number < COMMITS // 2 else after, size)

    def list_regressions(self) -> set[str]:
        """Publish, and return the benchmarks that are called regressions."""
        self.run_asv("publish")
        page = json.loads((self.root / ".asv/html/regressions.json").read_text())
        return {regression[0] for regression in page["regressions"]}

    def compare(self, before: int, after: int) -> dict[str, str]:
        """Return asv's mark of each benchmark that changed: `-` better, `+` worse."""
        commits = self.commits[before], self.commits[after]
        printed = self.run_asv("compare", "--machine", MACHINE, *commits)
        assert "n/a" not in printed, "parameters without values have no row"
        marks = {}
        for line in printed.splitlines():
            if "track_" in line:
                cells = [cell.strip() for cell in line.split("|")]
                mark, name = cells[1], cells[5].split(".")[-1]
                if mark:
                    marks[name] = mark
        return marks


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="module")
def listed(tmp_path_factory) -> Any:
    """Return the benchmarks that asv finds."""
    return discover_benchmarks(tmp_path_factory.mktemp("listed"))


@pytest.mark.parametrize(
    ("before", "after", "regressions", "mark"),
    [
        (SLOW, FAST, set(), "-"),
        (FAST, SLOW, {f"transformer.TransformerTorchTrain.track_step_time({PLACE})"}, "+"),
    ],
    ids=["gain", "loss"],
)
def test_more_throughput_is_better_and_a_loss_is_published_once(
    project, before, after, regressions, mark
):
    """Throughput and step time say the same, so only the step time is a published regression."""
    project.plant_all(before, after)
    assert project.list_regressions() == regressions
    assert project.compare(0, -1) == {
        f"track_throughput({PLACE})": mark,
        f"track_step_time({PLACE})": mark,
    }


def test_a_rise_of_a_peak_by_two_per_cent_is_a_regression(project):
    """asv's own threshold is 5 %, and peaks repeat to a fraction of a per cent."""
    project.plant_all({"track_peak_memory": 100.0}, {"track_peak_memory": 102.0})
    benchmark = f"transformer.TransformerTorchTrain.track_peak_memory({PLACE})"
    assert project.list_regressions() == {benchmark}


def test_a_rise_of_a_peak_within_its_noise_is_no_regression(project):
    """Equal processes of size tiny differ by up to a quarter of a MiB."""
    before = {"track_peak_memory": 0.25, "track_step_time": 0.01}  # MiB, seconds
    after = {"track_peak_memory": 0.5, "track_step_time": 0.02}
    project.plant_all(before, after, size="Tiny")
    slower = f"transformer.TransformerTorchTrainTiny.track_step_time({PLACE})"
    assert project.list_regressions() == {slower}


def test_the_title_of_a_peak_says_where_it_is_too_coarse_to_compare(listed):
    tiny = listed["transformer.TransformerTorchTrainTiny.track_peak_memory"]["pretty_name"]
    usual = listed["transformer.TransformerTorchTrain.track_peak_memory"]["pretty_name"]
    exact = listed["transformer.TransformerJaxTrainTiny.track_own_counter_peak"]["pretty_name"]
    assert "too coarse to compare" in tiny
    assert "too coarse" not in usual
    assert "too coarse" not in exact


def test_a_history_in_bytes_is_not_mixed_with_one_in_mib(project):
    """While the benchmark was in bytes, its version was the protocol's number and no more."""
    in_mib = project.listed["transformer.TransformerTorchTrain.track_peak_memory"]
    in_bytes = in_mib | {"version": str(protocol.VERSION)}
    project.listed[in_mib["name"]] = in_bytes
    project.plant(0, {"track_peak_memory": 100.0 * 2**20})
    project.listed[in_mib["name"]] = in_mib
    project.plant(1, {"track_peak_memory": 100.0})
    # asv's mark of what it cannot compare
    assert project.compare(0, 1) == {f"track_peak_memory({PLACE})": "x"}


def test_a_profile_selects_each_of_its_cases_once_for_each_metric(listed, monkeypatch):
    monkeypatch.setenv("FRAMEBENCH_PROFILE", "quick")
    chosen = cases.select_framework(listed, "jax")
    selected = []
    for name in chosen:
        selected += cases.select_by_parameters(chosen, name).values()
    expected = set()
    for case in profiles.list_profile_cases():
        is_confirmed = case.workload in spec.list_confirmed_workloads()
        if case.framework == "jax" and case.support.supported and is_confirmed:
            expected.add(case)
    assert set(selected) == expected
    metrics = {name.rpartition(".")[2] for name in chosen}
    assert len(selected) == len(metrics) * len(expected)


def test_a_selection_without_a_case_names_the_profile_that_has_one(listed, monkeypatch):
    name = "transformer.TransformerTorchTrainFull.track_peak_memory"
    selection = listed.filter_out(set(listed) - {name})
    monkeypatch.setenv("FRAMEBENCH_PROFILE", "tiny")
    with pytest.raises(UserError) as raised:
        run.check_selection(selection)
    assert "no case of the profile tiny, of size tiny" in str(raised.value)
    assert "FRAMEBENCH_PROFILE=full has what is selected" in str(raised.value)
    monkeypatch.setenv("FRAMEBENCH_PROFILE", "full")
    run.check_selection(selection)


def test_every_class_of_a_confirmed_workload_is_found_by_asv(listed):
    """A new scenario of a workload needs a class in benchmarks/."""
    classes = {name.rpartition(".")[0] for name in listed}
    confirmed = spec.list_confirmed_workloads()
    of_confirmed = set()
    for name, suite_class in cases.list_suite_classes().items():
        if suite_class.workload in confirmed:
            of_confirmed.add(name)
    assert of_confirmed
    assert of_confirmed <= classes


@pytest.mark.parametrize(
    "name",
    [
        "transformer.TransformerTorchTrain",
        "resnet50.ResNet50JaxEval",
        "unet3d.UNet3DJittorTrainTiny",
    ],
)
def test_parameters_begin_with_the_baseline_at_the_base_batch(name, listed):
    """asv's pages open with the first value of each parameter, which must have been measured."""
    of_suite = cases.list_suite_classes()[name]
    base = spec.load_workload(of_suite.workload).preset(of_suite.size).base
    strategies, batches = listed[f"{name}.track_peak_memory"]["params"]
    assert strategies[0] == repr(SCENARIOS[of_suite.scenario].baseline)
    assert batches[0] == repr(base)


def test_strategies_that_the_framework_cannot_have_are_no_parameters(listed):
    strategies, _ = listed["transformer.TransformerJittorTrain.track_peak_memory"]["params"]
    assert "'checkpoint'" in strategies
    assert "'rewrite'" not in strategies, "there is nothing to rewrite"


def test_no_profile_changes_the_benchmarks(tmp_path):
    """asv adds up a commit's results where the benchmarks have not changed."""
    tiny = discover_benchmarks(tmp_path / "tiny", "tiny")
    assert tiny == discover_benchmarks(tmp_path / "standard", "standard")


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("unet3d.UNet3DJaxEval.track_step_time", ("unet3d", "jax", "eval", "cpu")),
        (
            "resnet50.ResNet50TorchTrainTiny.track_step_time",
            ("resnet50", "torch", "train", "tiny"),
        ),
    ],
)
def test_workload_framework_scenario_and_size_are_read_from_a_benchmarks_name(name, parsed):
    assert cases.parse(name) == parsed


@pytest.mark.parametrize(
    "name",
    ["mine.time_sum", "mine.Suite.time_sum", "transformer.time_sum", "transformer.Mine.time_sum"],
)
def test_a_benchmark_that_is_not_of_this_suite_has_no_case(name):
    assert cases.parse(name) is None
