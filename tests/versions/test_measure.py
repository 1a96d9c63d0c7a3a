"""Which versions and cases are measured: every release with pinned requirements, and a selection
that stands.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from asv.config import Config
from typer.testing import CliRunner

from framebench.cli.shared import app
from framebench.engine import environments
from framebench.engine.environments import SetupError
from framebench.records import pins
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import UnknownCase
from framebench.versions import command
from framebench.versions import measure as measuring
from tests.processes import ROOT


def test_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        measuring.releases, "list_releases", lambda framework: ["0.9.1", "0.9.2", "0.10.2"]
    )
    assert measuring.choose_versions("jax") == ["0.9.2", "0.10.2"], (
        "oldest first, by version and not by letter"
    )
    assert measuring.choose_versions("jax", ["0.10.2", "0.9.2"]) == ["0.9.2", "0.10.2"]
    with pytest.raises(
        SetupError, match=r"one version to measure, 2.13.0.*framebench versions add torch==VERSION"
    ):
        measuring.choose_versions("torch", ["2.13.0"])
    with pytest.raises(SetupError, match=r"no release '0\.1' of jax; the nearest: 0\.9\.1"):
        measuring.choose_versions("jax", ["0.1", "0.9.2"])


def test_asv_and_the_pins_have_the_same_versions() -> None:
    said = [e["req"] for e in Config.load(str(ROOT / "asv.versions.json")).include]
    pinned = [{f: v} for f in FRAMEWORKS for v in pins.find_pinned_versions(f)]
    assert sorted(map(str, said)) == sorted(map(str, pinned))
    for file in (pins.REQUIREMENTS / "versions").glob("*.txt"):
        lines = [
            line
            for line in file.read_text().splitlines()
            if line and not line.startswith(("#", "    --hash="))
        ]
        assert all(
            "==" in line and "://" not in line and not line.startswith("-") for line in lines
        ), file
        assert file.stem in {f"{f}-{v}" for f in FRAMEWORKS for v in pins.find_pinned_versions(f)}
    plain, matrix = (
        Config.load(str(ROOT / name)).__dict__ for name in ("asv.conf.json", "asv.versions.json")
    )
    assert {k: v for k, v in plain.items() if k != "include"} == {
        k: v for k, v in matrix.items() if k != "include"
    }


def test_a_version_has_an_environment_of_its_own() -> None:
    one, other = (environments.describe("jax", v) for v in ("0.9.2", "0.10.2"))
    assert one.python != other.python
    assert (one.name, other.name) == ("jax-0.9.2", "jax-0.10.2")
    assert environments.describe("jax") == environments.describe(
        "jax", pins.find_pinned_version("jax")
    )


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_standing_selection_has_the_canary(framework: str) -> None:
    found = [c.id for c in measuring.select_cases(framework)]
    assert f"unet3d/{framework}/train/amp_bf16/b4/cpu" in found
    assert {c.workload for c in measuring.select_cases(framework)} == {
        "resnet50",
        "unet3d",
        "transformer",
    }
    assert len(found) == len(measuring.STANDING), "one batch each"
    assert len(measuring.select_cases(framework, profile="quick")) > 3 * len(found)
    with pytest.raises(UnknownCase, match=f"none of the .* cases named is one of {framework}"):
        measuring.select_cases(
            framework, ["resnet50/" + next(f for f in FRAMEWORKS if f != framework)]
        )


@pytest.mark.parametrize(
    ("statuses", "code"),
    [(["ok", "unsupported", "oom"], 0), (["ok", "timeout"], 1), (["crashed", "wrong"], 1)],
)
def test_what_broke_fails_the_command(
    statuses: list[str], code: int, monkeypatch: pytest.MonkeyPatch, results: Path
) -> None:
    """As in `framebench run`; the session is finished all the same."""
    monkeypatch.setattr(command.environments, "ensure", lambda *_: None)
    monkeypatch.setattr(command.environments, "warm", lambda *_: None)
    monkeypatch.setattr(command.versions, "measure", lambda *_: statuses)
    done = CliRunner().invoke(
        app, ["versions", "run", "--framework", "jax", "--results", str(results)]
    )
    assert done.exit_code == code, done.output
    assert ("of 2 measurements failed" in done.stderr) == bool(code)
    assert not list(results.glob(".session*"))
