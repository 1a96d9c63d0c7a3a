"""Which versions and cases are measured, and how a release is pinned by one command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
from asv.config import Config

from framebench.engine import releases
from framebench.engine.environments import SetupError
from framebench.records import pins
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite import profiles
from framebench.suite.case import UnknownCase
from framebench.versions import command, measure, pin
from tests.callbacks import ignore
from tests.processes import ROOT, framebench


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """Copy the pinned files and asv's matrix; the index lists 0.9.1 next to the pinned releases."""
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shutil.copy(ROOT / "asv.versions.json", tmp_path)
    monkeypatch.setattr(pins, "REQUIREMENTS", tmp_path / "requirements")
    monkeypatch.setattr(pin, "REQUIREMENTS", tmp_path / "requirements")
    monkeypatch.setattr(pin, "MATRIX", tmp_path / "asv.versions.json")
    listed = ["0.9.0", "0.9.1", "0.9.2", "0.10.2"]
    monkeypatch.setattr(releases, "list_releases", Mock(return_value=listed))
    return tmp_path


@pytest.mark.parametrize(
    ("named", "chosen"),
    [
        (None, ["0.9.2", "0.10.2"]),  # oldest first, by version and not by letter
        (["0.10.2", "0.9.0"], ["0.9.0", "0.10.2"]),  # any release that the index lists
    ],
)
@pytest.mark.usefixtures("project")
def test_versions_are_chosen_oldest_first(named, chosen):
    assert measure.choose_versions("jax", named) == chosen


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        (["0.9.2"], r"one version to measure, 0.9.2.*framebench versions add jax==VERSION"),
        (["0.1", "0.9.2"], r"no release '0\.1' of jax for Python 3\.\d+; the nearest: 0\.9\.0"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_matrix_that_cannot_be_measured_is_refused(named, reason):
    with pytest.raises(SetupError, match=reason):
        measure.choose_versions("jax", named)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_releases_are_compared_by_each_workload_at_its_base_batch(framework):
    assert [case.id for case in measure.select_cases(framework)] == [
        f"unet3d/{framework}/train/amp_bf16/b4/cpu",
        f"transformer/{framework}/train/fp32/b4/cpu",
        f"transformer/{framework}/train/checkpoint/b4/cpu",
        f"resnet50/{framework}/eval/no_grad/b8/cpu",
    ]


def test_releases_may_be_compared_by_a_profile():
    quick = measure.select_cases("torch", profile="quick")
    of_quick = [case for case in profiles.list_profile_cases("quick") if case.framework == "torch"]
    assert quick == of_quick


def test_cases_of_another_framework_are_refused():
    message = r"cases named is one of jax; those of JAX: resnet50/jax unet3d/jax/train$"
    with pytest.raises(UnknownCase, match=message):
        measure.select_cases("jax", ["resnet50/torch", "unet3d/jittor/train"])


@pytest.mark.parametrize(
    ("statuses", "code"),
    [(["ok", "unsupported", "oom"], 0), (["ok", "timeout"], 1), (["crashed", "wrong"], 1)],
)
def test_the_command_fails_if_a_measurement_broke(statuses, code, monkeypatch, results):
    """This is as in `framebench run`. The session is closed nevertheless."""
    monkeypatch.setattr(command.environments, "ensure", ignore)
    monkeypatch.setattr(command.environments, "warm", ignore)
    monkeypatch.setattr(command.versions, "measure", Mock(return_value=statuses))
    done = framebench("versions", "run", "--framework", "jax", results=results, code=code)
    assert ("of 2 measurements failed" in done.stderr) == bool(code)
    assert re.search(rf"versions compare jax==\S+ jax==\S+ --results {results}\n", done.stderr)
    assert not list(results.glob(".session*"))


def test_adding_a_release_writes_its_pins_and_matrix(project, monkeypatch):
    packages = {"jax": "0.9.1", "jaxlib": "0.9.1", "Flax": "0.12.6", "numpy": "2.4.6"}
    monkeypatch.setattr(pin, "ask_pip", Mock(return_value=packages))
    framebench("versions", "add", "jax==0.9.1", code=0)
    written = (project / "requirements/versions/jax-0.9.1.txt").read_text()
    assert written == "Flax==0.12.6\njax==0.9.1\njaxlib==0.9.1\nnumpy==2.4.6\n"
    assert list(pins.find_pinned_versions("jax")) == ["0.9.1", "0.9.2", "0.10.2"]
    included = Config.load(str(project / "asv.versions.json")).include
    assert [environment["req"] for environment in included][2:5] == [
        {"jax": "0.9.1"},
        {"jax": "0.9.2"},
        {"jax": "0.10.2"},
    ]


@pytest.mark.parametrize("is_known", [True, False])
def test_adding_a_release_names_the_table_that_lacks_its_day(is_known, project, monkeypatch):
    days = project / "requirements/releases.csv"
    lines = days.read_text().splitlines()
    lines = [line for line in lines if is_known or not line.startswith("jax,0.9.1,")]
    days.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(pin, "ask_pip", Mock(return_value={"jax": "0.9.1"}))
    done = framebench("versions", "add", "jax==0.9.1", code=0)
    assert ("add the line jax,0.9.1,YYYY-MM-DD" in done.stderr) is not is_known


def test_the_committed_matrix_is_up_to_date(project):
    pin.write_matrix()
    assert (project / "asv.versions.json").read_text() == (ROOT / "asv.versions.json").read_text()


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        ("jax==0.9.2", "jax==0.9.2 is pinned already, in jax-0.9.2.txt"),
        ("jax", "'jax' is no version; write framework==version"),
        ("jax==0.9.3", "pip finds no release '0.9.3' of jax"),
    ],
)
def test_an_invalid_release_is_refused(project, release, reason):
    done = framebench("versions", "add", release, code=2)
    assert reason in " ".join(done.stderr.split())
    assert not (project / "requirements/versions/jax-0.9.3.txt").exists()


def test_a_release_that_conflicts_with_pins_keeps_numpy(monkeypatch):
    """Jittor's arrays are silently wrong with NumPy 2."""

    def ask_pip(requested, constraints):
        if "pillow" in constraints:
            raise SetupError("ResolutionImpossible")
        assert requested[0] == "jittor==1.3.9.0"
        assert {"numpy", "onednn-cpu-gomp", "psutil"} <= {*requested}
        return constraints

    monkeypatch.setattr(pin, "ask_pip", ask_pip)
    assert pin.resolve("jittor", "1.3.9.0") == {"numpy": "1.26.4"}


def test_pip_resolves_without_installing(monkeypatch):
    report = {"install": [{"metadata": {"name": "jax", "version": "0.9.1"}}]}

    def run(arguments, input, **_):
        assert {"--dry-run", "--ignore-installed"} <= {*arguments}
        assert input == "numpy==2.4.6\n"
        return subprocess.CompletedProcess(arguments, 0, json.dumps(report), "")

    monkeypatch.setattr(pin.subprocess, "run", run)
    assert pin.ask_pip(["jax[cpu]==0.9.1"], {"numpy": "2.4.6"}) == {"jax": "0.9.1"}
