"""A release is pinned by one command; a release that is not pinned can be measured too."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from asv.config import Config
from typer.testing import CliRunner

from framebench.cli.shared import app
from framebench.engine import releases
from framebench.engine.environments import SetupError
from framebench.records import pins
from framebench.versions import command, measure, pin
from tests.processes import ROOT

PACKAGES = {"jax": "0.9.1", "jaxlib": "0.9.1", "Flax": "0.12.6", "numpy": "2.4.6"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the pinned files and of asv's matrix; the index lists 0.9.1 beside the pinned
    releases.
    """
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shutil.copy(ROOT / "asv.versions.json", tmp_path)
    monkeypatch.setattr(pins, "REQUIREMENTS", tmp_path / "requirements")
    monkeypatch.setattr(pin, "REQUIREMENTS", tmp_path / "requirements")
    monkeypatch.setattr(pin, "DAYS", tmp_path / "requirements/releases.csv")
    monkeypatch.setattr(pin, "MATRIX", tmp_path / "asv.versions.json")
    monkeypatch.setattr(
        releases, "list_releases", lambda framework: ["0.9.0", "0.9.1", "0.9.2", "0.10.2"]
    )
    return tmp_path


def add(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["versions", "add", *arguments])


def test_adding_a_release_writes_its_pins_and_a_line_of_the_matrix(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pin, "ask_pip", lambda wanted, constraints: PACKAGES)
    done = add("jax==0.9.1", "--released", "2026-03-02")
    assert done.exit_code == 0, done.output
    written = (project / "requirements/versions/jax-0.9.1.txt").read_text()
    assert written == "Flax==0.12.6\njax==0.9.1\njaxlib==0.9.1\nnumpy==2.4.6\n"
    assert list(pins.find_pinned_versions("jax")) == ["0.9.1", "0.9.2", "0.10.2"]
    matrix = [
        environment["req"]
        for environment in Config.load(str(project / "asv.versions.json")).include
    ]
    assert matrix[2:5] == [{"jax": "0.9.1"}, {"jax": "0.9.2"}, {"jax": "0.10.2"}]
    assert "jax,0.9.1,2026-03-02\n" in (project / "requirements/releases.csv").read_text()


def test_the_committed_matrix_is_what_the_command_writes(project: Path) -> None:
    pin.write_matrix()
    assert (project / "asv.versions.json").read_text() == (ROOT / "asv.versions.json").read_text()


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        ("jax==0.9.2", "jax==0.9.2 is pinned already, in jax-0.9.2.txt"),
        ("jax", "'jax' is no version; write framework==version"),
    ],
)
def test_an_invalid_release_is_refused(project: Path, release: str, reason: str) -> None:
    done = add(release)
    assert done.exit_code == 2
    assert reason in " ".join(done.output.split())


def test_a_release_that_does_not_exist_is_refused_with_the_nearest(project: Path) -> None:
    with pytest.raises(
        SetupError, match=r"no release '0\.9\.3' of jax; the nearest: 0\.9\.2, 0\.10\.2"
    ):
        releases.check_listed("jax", "0.9.3")
    assert add("jax==0.9.3").exit_code != 0
    assert not (project / "requirements/versions/jax-0.9.3.txt").exists()


def test_a_release_that_does_not_go_with_the_pinned_packages_keeps_numpy(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jittor's arrays are silently wrong with NumPy 2."""
    tried = []

    def ask_pip(wanted: list[str], constraints: dict[str, str]) -> dict[str, str]:
        tried.append((wanted, constraints))
        if "pillow" in constraints:
            raise SetupError("ResolutionImpossible")
        return {"jittor": "1.3.9.0"}

    monkeypatch.setattr(pin, "ask_pip", ask_pip)
    assert pin.resolve("jittor", "1.3.9.0") == {"jittor": "1.3.9.0"}
    wanted, constraints = tried[-1]
    assert wanted[0] == "jittor==1.3.9.0"
    assert {"numpy", "onednn-cpu-gomp", "psutil"} <= {*wanted}
    assert constraints == {"numpy": "1.26.4"}


def test_pip_resolves_without_installing(monkeypatch: pytest.MonkeyPatch) -> None:
    report = {"install": [{"metadata": {"name": "jax", "version": "0.9.1"}}]}
    commands = []

    def run(command: list[str], input: str, **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append((command, input))
        return subprocess.CompletedProcess(command, 0, json.dumps(report), "")

    monkeypatch.setattr(pin.subprocess, "run", run)
    assert pin.ask_pip(["jax[cpu]==0.9.1"], {"numpy": "2.4.6"}) == {"jax": "0.9.1"}
    ((arguments, constraints),) = commands
    assert {"--dry-run", "--ignore-installed"} <= {*arguments}
    assert constraints == "numpy==2.4.6\n"


def test_any_release_can_be_measured_next_to_a_pinned_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []

    def build(framework: str, version: str, *_: Any) -> None:
        built.append(version)
        if version == "0.10.2":
            raise SetupError("far enough")

    monkeypatch.setattr(releases, "ensure_release", build)
    monkeypatch.setattr(command.runner, "explain_unsupported", lambda case: None)
    arguments = [
        "versions",
        "run",
        "--framework",
        "jax",
        "--version",
        "0.9.1",
        "--version",
        "0.10.2",
    ]
    done = CliRunner().invoke(app, [*arguments, "--results", str(project / "results")])
    assert built == ["0.9.1", "0.10.2"], done.output
    assert measure.choose_versions("jax", ["0.10.2", "0.9.0"]) == ["0.9.0", "0.10.2"]
