"""Real asv on planted results: what it calls better, worse, and a regression. Nothing is measured."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.machine import Machine
from asv.results import Results
from asv.runner import BenchmarkResult

from framebench.asv import cases
from framebench.suite import profiles
from tests.processes import ROOT

MACHINE, FRAMEWORK, ENVIRONMENT = "planted", {"torch": "2.13.0"}, "framebench-py3.11-torch2.13.0"
PLACE = "'train', 'fp32', 4"
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
        Machine.load(machine_name=MACHINE, _path=str(root / ".asv-machine.json")).save(str(root / "results/asv"))
        self.commits = [self.commit() for _ in range(12)]

    def commit(self) -> str:
        who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "x"], cwd=self.root, check=True)
        return subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout.strip()

    def asv(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "HOME": str(self.root), "PYTHONPATH": str(ROOT), "FRAMEBENCH_PROFILE": "quick", **variables}
        command = [sys.executable, "-m", "asv", *arguments]
        return subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True)

    def plant(self, date: int, commit: str, metrics: dict[str, float]) -> None:
        """One commit's results of the Transformer in PyTorch: the same for each case of the profile."""
        results = Results({"machine": MACHINE, **FRAMEWORK}, FRAMEWORK, commit, date, "3.11", ENVIRONMENT, {})
        for metric, value in metrics.items():
            benchmark = self.listed[f"transformer.TransformerTorch.{metric}"]
            values = [value if ", ".join(p) == PLACE else math.nan for p in product(*benchmark["params"])]
            assert value in values
            none = [None] * len(values)
            results.add_result(benchmark, BenchmarkResult(values, none, none, 0, "", None))
        results.save(str(self.root / "results/asv"))

    def regressions(self) -> set[str]:
        published = self.asv("publish")
        assert published.returncode == 0, published.stdout + published.stderr
        found = json.loads((self.root / ".asv/html/regressions.json").read_text())["regressions"]
        return {name for name, *_ in found}

    def compared(self, before: str, after: str) -> dict[str, str]:
        """The mark of each benchmark that changed: `-` better, `+` worse."""
        told = self.asv("compare", "--machine", MACHINE, before, after)
        assert told.returncode == 0, told.stdout + told.stderr
        assert "n/a" not in told.stdout, "what is no case has no row"
        rows = [[cell.strip() for cell in line.split("|")] for line in told.stdout.splitlines() if "track_" in line]
        return {row[5].split(".")[-1]: row[1] for row in rows if row[1]}


def discovered(root: Path) -> dict[str, Any]:
    """What asv discovers, as it stores it."""
    (root / "results/asv").mkdir(parents=True, exist_ok=True)
    script = (
        "from asv_runner.discovery import list_benchmarks\n"
        f"list_benchmarks({str(ROOT / 'benchmarks')!r}, open({str(root / 'found.json')!r}, 'w'))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "FRAMEBENCH_PROFILE": "quick"}
    subprocess.run([sys.executable, "-c", script], cwd=root, env=env, check=True)
    config = Config()
    config.benchmark_dir, config.results_dir = str(ROOT / "benchmarks"), str(root / "results/asv")
    listed = Benchmarks(config, json.loads((root / "found.json").read_text()))
    listed.save()
    return listed


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize(
    ("first", "then", "regressions", "marks"),
    [
        (SLOW, FAST, set(), {"-"}),
        (FAST, SLOW, {f"transformer.TransformerTorch.track_step_time({PLACE})"}, {"+"}),
    ],
    ids=["gain", "loss"],
)
def test_more_throughput_is_better(
    project: Project, first: dict[str, float], then: dict[str, float], regressions: set[str], marks: set[str]
) -> None:
    """A gain is no regression and compares as better, a loss as worse; what is published flags a loss once, as step time."""
    for i, commit in enumerate(project.commits):
        project.plant(1_700_000_000_000 + i, commit, first if i < 6 else then)
    assert project.regressions() == regressions
    compared = project.compared(project.commits[0], project.commits[-1])
    assert set(compared) == {f"track_throughput({PLACE})", f"track_step_time({PLACE})"}
    assert set(compared.values()) == marks


def test_an_unknown_profile_is_a_line(project: Project) -> None:
    told = project.asv("run", FRAMEBENCH_PROFILE="enormous")
    assert told.returncode != 0
    said = told.stdout + told.stderr
    assert "FRAMEBENCH_PROFILE: no profile 'enormous'; profiles: first, tiny, quick, standard, full" in said
    assert len(said.strip().splitlines()) == 1


def test_what_is_no_case_of_the_profile_is_not_selected(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEBENCH_PROFILE", "quick")
    own = cases.own(project.listed, "jax")
    assert len(own) == len(project.listed) / 3
    found = [case for name in own for _, case in cases.selected(own, name)]
    assert {*found} == {case for case in profiles.profile() if case.framework == "jax"}
    assert len(found) == 4 * len({*found}), "each once for each metric"
    assert len(list(product(*project.listed["transformer.TransformerJax.track_step_time"]["params"]))) > len(found) / 12
