"""What asv's plug-in builds: the environments whose benchmarks are asked for, and no other of the
matrix.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asv.benchmarks import Benchmarks

from framebench.asv import cases, plugin, run
from framebench.asv.outcome import Outcome
from framebench.engine import environments
from tests.discovery import discovered


def environment(framework: str, version: str) -> plugin.FrameworkEnvironment:
    """As asv has made it, without asv's configuration."""
    made = object.__new__(plugin.FrameworkEnvironment)
    made.framework, made.version, made.failure = framework, version, ""
    made._python, made._requirements, made._tagged_env_vars = "3.11", {framework: version}, {}
    return made


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is built; nothing is, and torch cannot be."""
    names: list[str] = []

    def ensure(framework: str, version: str, say: Any) -> None:
        names.append(f"{framework}=={version}")
        if framework == "torch":
            raise environments.SetupError("no network")

    monkeypatch.setattr(plugin.environments, "ensure", ensure)
    return names


def test_only_environments_with_a_benchmark_are_built(
    built: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`--bench` asks for JAX and torch; what cannot be installed fails its own benchmarks alone."""
    benchmarks = Benchmarks(
        SimpleNamespace(benchmark_dir=""),
        discovered(tmp_path, "tiny").values(),
        r"(Jax|Torch)TrainTiny\.",
    )
    state = run.AsvRun(
        selection={"benchmarks": benchmarks}, outcome=Outcome(Path("nowhere"), "session")
    )
    state.session = SimpleNamespace()  # type: ignore[assignment]
    monkeypatch.setenv("FRAMEBENCH_PROFILE", "tiny")
    monkeypatch.setattr(run, "current", state)
    monkeypatch.setattr(run.log, "step", lambda: None)
    skipped: list[str] = []
    monkeypatch.setattr(
        run, "skip_benchmarks", lambda benchmarks, env, results: skipped.append(env.version)
    )
    monkeypatch.setattr(cases, "explain_unsupported", lambda case: "not measured here")
    matrix = [("torch", "2.12.1"), ("jax", "0.9.2"), ("jax", "0.10.2"), ("jittor", "1.3.10.0")]
    every = [environment(*one) for one in matrix]
    for one in every:
        one._setup()
    assert built == [], "asv sets up the whole matrix before it knows what is asked for"

    ran: list[str] = []
    run_own = run.in_own_environments(lambda benchmarks, env, **_: ran.append(env.version))
    for one in every:
        run_own(benchmarks, one, SimpleNamespace(stderr={}))

    assert built == ["torch==2.12.1", "jax==0.9.2", "jax==0.10.2"]
    assert ran == ["0.9.2", "0.10.2"]
    assert skipped == ["2.12.1"]
    assert state.outcome.failed_setups == {"torch": "no network"}
