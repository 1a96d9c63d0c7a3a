"""Real asv on planted results: what it calls better, worse, and a regression.

Nothing is measured.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from asv.machine import Machine
from asv.results import Results
from asv.runner import BenchmarkResult
from asv.util import UserError

from framebench.asv import cases, run
from framebench.models import spec
from framebench.strategies.registry import SCENARIOS
from framebench.suite import profiles, protocol
from tests.discovery import discovered
from tests.processes import ROOT

MACHINE, FRAMEWORK, ENVIRONMENT = "planted", {"torch": "2.13.0"}, "framebench-py3.11-torch2.13.0"
PLACE = "'fp32', 4"
FAST = {"track_throughput": 200.0, "track_step_time": 0.01}
SLOW = {"track_throughput": 100.0, "track_step_time": 0.02}


class Project:
    """A git repository with asv's configuration and the results of many commits, but no project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "asv.conf.json").write_text((ROOT / "asv.conf.json").read_text())
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=root, check=True)
        self.asv("machine", "--yes", "--machine", MACHINE)
        self.listed = discovered(root)
        Machine.load(machine_name=MACHINE, _path=str(root / ".asv-machine.json")).save(
            str(root / "results/asv")
        )
        self.commits = [self.commit() for _ in range(12)]

    def commit(self) -> str:
        who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        subprocess.run(
            ["git", *who, "commit", "-q", "--allow-empty", "-m", "x"], cwd=self.root, check=True
        )
        return subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout.strip()

    def asv(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ,
            "HOME": str(self.root),
            "PYTHONPATH": str(ROOT),
            "FRAMEBENCH_PROFILE": "quick",
            **variables,
        }
        command = [sys.executable, "-m", "asv", *arguments]
        return subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True)

    def plant(self, date: int, commit: str, metrics: dict[str, float]) -> None:
        """One commit's results of the Transformer in PyTorch: the same for each case of the
        profile.
        """
        results = Results(
            {"machine": MACHINE, **FRAMEWORK}, FRAMEWORK, commit, date, "3.11", ENVIRONMENT, {}
        )
        for metric, value in metrics.items():
            benchmark = self.listed[f"transformer.TransformerTorchTrain.{metric}"]
            values = [
                value if ", ".join(p) == PLACE else math.nan for p in product(*benchmark["params"])
            ]
            assert value in values
            none = [None] * len(values)
            results.add_result(benchmark, BenchmarkResult(values, none, none, 0, "", None))
        results.save(str(self.root / "results/asv"))

    def regressions(self) -> set[str]:
        published = self.asv("publish")
        assert published.returncode == 0, published.stdout + published.stderr
        found = json.loads((self.root / ".asv/html/regressions.json").read_text())["regressions"]
        return {name for name, *_ in found}

    def compared(self, before: str, after: str, *options: str) -> dict[str, str]:
        """The mark of each benchmark that changed: `-` better, `+` worse."""
        told = self.asv("compare", "--machine", MACHINE, *options, before, after)
        assert told.returncode == 0, told.stdout + told.stderr
        assert "n/a" not in told.stdout, "what is no case has no row"
        rows = [
            [cell.strip() for cell in line.split("|")]
            for line in told.stdout.splitlines()
            if "track_" in line
        ]
        return {row[5].split(".")[-1]: row[1] for row in rows if row[1]}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize(
    ("first", "then", "regressions", "marks"),
    [
        (SLOW, FAST, set(), {"-"}),
        (FAST, SLOW, {f"transformer.TransformerTorchTrain.track_step_time({PLACE})"}, {"+"}),
    ],
    ids=["gain", "loss"],
)
def test_more_throughput_is_better(
    project: Project,
    first: dict[str, float],
    then: dict[str, float],
    regressions: set[str],
    marks: set[str],
) -> None:
    """A gain is no regression and compares as better, a loss as worse; what is published flags a
    loss once, as step time.
    """
    for i, commit in enumerate(project.commits):
        project.plant(1_700_000_000_000 + i, commit, first if i < 6 else then)
    assert project.regressions() == regressions
    compared = project.compared(project.commits[0], project.commits[-1])
    assert set(compared) == {f"track_throughput({PLACE})", f"track_step_time({PLACE})"}
    assert set(compared.values()) == marks


def test_asv_marks_only_what_changed_by_its_factor(project: Project) -> None:
    """docs/asv.md says so:

    7 % more memory is a regression to us, and has no mark there unless it is asked for.
    """
    before, after = project.commits[:2]
    project.plant(1_700_000_000_000, before, {"track_peak_memory": 100.0})
    project.plant(1_700_000_000_001, after, {"track_peak_memory": 107.0})
    assert project.compared(before, after) == {}
    assert project.compared(before, after, "--factor", "1.01") == {
        f"track_peak_memory({PLACE})": "+"
    }


def test_what_is_no_case_of_the_profile_is_not_selected(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAMEBENCH_PROFILE", "quick")
    chosen = cases.choose_framework(project.listed, "jax")
    classes = {name.split(".")[1] for name in chosen}
    assert classes == {
        f"{name}Jax{scenario}"
        for name in ("ResNet50", "UNet3D", "Transformer")
        for scenario in ("Train", "Eval")
    }
    selected = [case for name in chosen for case in cases.selected(chosen, name).values()]
    quick = {
        case
        for case in profiles.list_profile_cases()
        if case.framework == "jax" and case.support.supported
    }
    assert {*selected} == {
        case for case in quick if case.workload in spec.list_confirmed_workloads()
    }
    assert len(selected) == 5 * len({*selected}), "each once for each metric"


def test_a_selection_without_a_case_names_the_profile_that_has_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAMEBENCH_PROFILE", "tiny")
    name = "transformer.TransformerTorchTrainFull.track_peak_memory"
    full = project.listed.filter_out(set(project.listed) - {name})
    with pytest.raises(UserError) as raised:
        run.check_selection(full)
    assert "no case of the profile tiny, of size tiny" in str(raised.value)
    assert "FRAMEBENCH_PROFILE=full has what is selected" in str(raised.value)
    monkeypatch.setenv("FRAMEBENCH_PROFILE", "full")
    run.check_selection(full)


def test_every_case_of_every_profile_has_a_class(project: Project) -> None:
    """A new scenario of a workload needs a class in benchmarks/."""
    classes = {name.rpartition(".")[0] for name in project.listed}
    confirmed = spec.list_confirmed_workloads()
    wanted = {
        name for name, of_suite in cases.suite_classes().items() if of_suite.workload in confirmed
    }
    assert wanted <= classes


def test_parameters_begin_with_the_baseline_at_the_base_batch(project: Project) -> None:
    """asv's pages open with the first value of each parameter, which then must have been
    measured.
    """
    for name in (
        "transformer.TransformerTorchTrain",
        "resnet50.ResNet50JaxEval",
        "unet3d.UNet3DJittorTrainTiny",
    ):
        of_suite = cases.suite_classes()[name]
        strategies, batches = project.listed[f"{name}.track_peak_memory"]["params"]
        assert strategies[0] == repr(SCENARIOS[of_suite.scenario].baseline)
        assert batches[0] == repr(spec.load_workload(of_suite.workload).preset(of_suite.size).base)


def test_no_parameter_is_a_strategy_that_the_framework_cannot_have(project: Project) -> None:
    strategies, _ = project.listed["transformer.TransformerJittorTrain.track_peak_memory"]["params"]
    assert "'checkpoint'" in strategies
    assert "'rewrite'" not in strategies, "there is nothing to rewrite"


def test_no_profile_changes_the_benchmarks(tmp_path: Path) -> None:
    """asv shows what fits the benchmarks that it found last, and adds up a commit's results where
    they have not changed.
    """
    assert discovered(tmp_path / "tiny", "tiny") == discovered(tmp_path / "standard", "standard")


def test_a_peak_that_rises_by_two_per_cent_is_published_as_a_regression(project: Project) -> None:
    """asv's own threshold is 5 %, and peaks repeat to a fraction of a per cent."""
    for i, commit in enumerate(project.commits):
        project.plant(
            1_700_000_000_000 + i, commit, {"track_peak_memory": 100.0 if i < 6 else 102.0}
        )
    assert project.regressions() == {
        f"transformer.TransformerTorchTrain.track_peak_memory({PLACE})"
    }


def test_a_history_in_bytes_is_not_mixed_with_one_in_mib(project: Project) -> None:
    """The benchmark was in bytes by each framework's own counter under the protocol's version
    alone.
    """
    before, after = project.commits[:2]
    peak = project.listed["transformer.TransformerTorchTrain.track_peak_memory"]
    project.listed[peak["name"]] = peak | {"version": str(protocol.VERSION)}
    project.plant(1_700_000_000_000, before, {"track_peak_memory": 100.0 * 2**20})
    project.listed[peak["name"]] = peak
    project.plant(1_700_000_000_001, after, {"track_peak_memory": 100.0})
    assert project.compared(before, after) == {f"track_peak_memory({PLACE})": "x"}, (
        "asv's mark of what it cannot compare"
    )


@pytest.mark.parametrize(
    "name",
    ["mine.time_sum", "mine.Suite.time_sum", "transformer.time_sum", "transformer.Mine.time_sum"],
)
def test_a_benchmark_of_somebody_elses_file_is_not_the_suites(name: str) -> None:
    assert cases.parse(name) is None


def test_a_benchmark_says_what_it_measures() -> None:
    assert cases.parse("unet3d.UNet3DJaxEval.track_step_time") == ("unet3d", "jax", "eval", "cpu")
    assert cases.parse("resnet50.ResNet50TorchTrainTiny.track_step_time") == (
        "resnet50",
        "torch",
        "train",
        "tiny",
    )
