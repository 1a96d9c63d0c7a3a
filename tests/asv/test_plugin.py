"""What asv's plug-in builds: the environments whose benchmarks are asked for, and no other of the
matrix.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from asv.benchmarks import Benchmarks

from framebench.asv import cases, plugin, run
from framebench.asv.outcome import RunOutcome
from framebench.engine import environments
from tests.callbacks import ignore
from tests.discovery import discover_benchmarks


def make_environment(framework: str, version: str) -> plugin.FrameworkEnvironment:
    """Return an environment as asv makes it, without asv's configuration."""
    environment = object.__new__(plugin.FrameworkEnvironment)
    environment.framework = framework
    environment.version = version
    environment.failure = ""
    environment._python = "3.11"
    environment._requirements = {framework: version}
    environment._tagged_env_vars = {}
    return environment


@pytest.fixture
def built_except_torch(monkeypatch) -> list[str]:
    """Return the list of the builds that are asked for; that of torch fails: no network."""
    names = []

    def ensure(framework: str, version: str, say: Any) -> None:
        names.append(f"{framework}=={version}")
        if framework == "torch":
            raise environments.SetupError("no network")

    monkeypatch.setattr(plugin.environments, "ensure", ensure)
    return names


def test_only_environments_with_a_benchmark_are_built(built_except_torch, monkeypatch, tmp_path):
    """`--bench` asks for JAX and torch; what cannot be installed fails its own benchmarks alone."""
    listed = discover_benchmarks(tmp_path, "tiny")
    conf = SimpleNamespace(benchmark_dir="")
    benchmarks = Benchmarks(conf, listed.values(), r"(Jax|Torch)TrainTiny\.")
    outcome = RunOutcome(Path("nowhere"), "session")
    state = run.AsvRun(selection={"benchmarks": benchmarks}, outcome=outcome)
    state.session = SimpleNamespace()
    ran = []
    skipped = []

    def run_benchmarks(benchmarks, env, **options):
        ran.append(env.version)

    def skip_benchmarks(benchmarks, env, results):
        skipped.append(env.version)

    monkeypatch.setenv("FRAMEBENCH_PROFILE", "tiny")
    monkeypatch.setattr(run, "current", state)
    monkeypatch.setattr(run.log, "step", ignore)
    monkeypatch.setattr(run, "skip_benchmarks", skip_benchmarks)
    monkeypatch.setattr(cases, "explain_unsupported", Mock(return_value="not measured here"))
    matrix = [
        make_environment("torch", "2.12.1"),
        make_environment("jax", "0.9.2"),
        make_environment("jax", "0.10.2"),
        make_environment("jittor", "1.3.10.0"),
    ]
    for environment in matrix:
        environment._setup()
    assert built_except_torch == [], (
        "asv sets up the whole matrix before it knows what is asked for"
    )

    run_selected = run.wrap_benchmarks(run_benchmarks)
    for environment in matrix:
        run_selected(benchmarks, environment, SimpleNamespace(stderr={}))

    assert built_except_torch == ["torch==2.12.1", "jax==0.9.2", "jax==0.10.2"]
    assert ran == ["0.9.2", "0.10.2"]
    assert skipped == ["2.12.1"]
    assert state.outcome.failed_setups == {"torch": "no network"}
