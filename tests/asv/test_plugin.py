"""What asv's plug-in builds: the environments whose benchmarks are asked for, and no other of the matrix."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framebench.asv import plugin
from framebench.asv.outcome import Outcome
from framebench.engine import environments


def environment(framework: str, version: str) -> plugin.FrameworkEnvironment:
    """As asv has made it, without asv's configuration."""
    made = object.__new__(plugin.FrameworkEnvironment)
    made.framework, made.version, made.failure = framework, version, ""
    made._python, made._requirements, made._tagged_env_vars = "3.11", {framework: version}, {}
    return made


class Benchmarks(list[str]):
    """Those that `--bench` has left."""


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is built; nothing is, and torch cannot be. `--bench` asks for JAX and torch."""
    names: list[str] = []

    def ensure(framework: str, version: str, say: Any) -> None:
        names.append(f"{framework}=={version}")
        if framework == "torch":
            raise environments.SetupError("no network")

    monkeypatch.setattr(plugin.environments, "ensure", ensure)
    monkeypatch.setattr(plugin.cases, "own", lambda all_benchmarks, framework: [b for b in all_benchmarks if b == framework])
    monkeypatch.setattr(plugin._Run, "session", object())
    monkeypatch.setattr(plugin._Run, "building", None)
    monkeypatch.setattr(plugin, "skip_benchmarks", lambda benchmarks, *_, results: f"skipped {benchmarks}")
    monkeypatch.setattr(plugin.cases, "planned", lambda benchmarks, framework: [])
    monkeypatch.setattr(plugin._Run, "outcome", Outcome(Path("nowhere"), "session"))
    monkeypatch.setattr(plugin.log, "step", lambda: None)
    return names


def test_only_environments_with_a_benchmark_are_built(built: list[str]) -> None:
    matrix = [("torch", "2.12.1"), ("jax", "0.9.2"), ("jax", "0.10.2"), ("jittor", "1.3.10.0")]
    every = [environment(*one) for one in matrix]
    for made in every:
        made._setup()
    assert built == [], "asv sets up the whole matrix before it knows what is asked for"
    ran: list[str] = []
    run = plugin._own_benchmarks(lambda benchmarks, env, **_: ran.append(env.version) or "ran")
    nothing = SimpleNamespace(stderr={})
    said = [run(Benchmarks(["jax", "torch"]), made, nothing) for made in every]
    assert built == ["torch==2.12.1", "jax==0.9.2", "jax==0.10.2"]
    assert ran == ["0.9.2", "0.10.2"]
    assert said == ["skipped ['torch']", "ran", "ran", nothing], "what cannot be installed fails its own benchmarks alone"
    assert plugin._Run.outcome.failed_setups == {"torch": "no network"}
