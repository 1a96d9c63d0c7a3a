"""An installed copy has one importable name, and works outside of a checkout."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from framebench.engine.environments import Environment
from framebench.records.pins import read_pins
from tests.processes import ROOT
from tests.record_files import list_files, load_fields

CASE = "transformer/jittor/train/fp32/b4/tiny"
# and what is beside them in environments of their own
FRAMEWORKS = {
    "torch",
    "torchao",
    "bitsandbytes",
    "deepspeed",
    "torchvision",
    "transformers",
    "jax",
    "flax",
    "optax",
    "jittor",
    "jittor_utils",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `pip install` of the wheel puts into an environment, beside what the wheel
    depends on.
    """
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "--",
            ":!results/asv",
            ":!results/tables",
            ":!docs",
            ":!tests",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name, follow_symlinks=False)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [
            *pip,
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            folder,
            folder / "source",
        ],
        check=True,
    )
    (wheel,) = folder.glob("framebench-*.whl")
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", folder / "installed", wheel], check=True
    )
    return folder / "installed"


def run(installed: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line of the installed copy."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "framebench.cli", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_it_has_one_name_and_its_data(installed: Path) -> None:
    names = {path.name for path in installed.iterdir() if path.suffix != ".dist-info"}
    assert names - {"bin"} == {"framebench"}
    data = [
        path.relative_to(ROOT)
        for folder in ("requirements", "models", "framebench")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    ]
    # what a linter or a test leaves beside the sources is no part of the package
    packaged = [path for path in data if not any(part.startswith(".") for part in path.parts)]
    assert len(packaged) > 30
    inside = installed / "framebench"
    missing = [
        str(path)
        for path in packaged
        if not (inside / str(path).removeprefix("framebench/")).is_file()
    ]
    assert missing == []


@pytest.mark.slow
def test_it_offers_pytest_its_fixture_and_pip_its_extra(installed: Path) -> None:
    (described,) = distributions(name="framebench", path=[str(installed)])
    fixtures = described.entry_points.select(group="pytest11")
    assert [entry.value for entry in fixtures] == ["framebench.devices.pytest_plugin"]
    assert described.metadata.get_all("Provides-Extra") == ["devices", "site"]


@pytest.mark.slow
def test_it_measures_in_the_folder_where_one_stands(
    installed: Path, tmp_path: Path, environment: dict[str, Environment]
) -> None:
    """In a repository of the user's own, whose commit is not ours."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    done = run(installed, tmp_path, "run", CASE, "--rounds", "0")
    assert done.returncode == 0, done.stderr
    (file,) = list_files(tmp_path / "results")
    (told,) = load_fields(file)
    assert (told["case"], told["status"]) == (CASE, "ok")
    assert told["provenance"]["commit"].startswith("files-"), "no commit, but the files' own hash"
    code = "import framebench; print(framebench.__file__, len(framebench.load()))"
    env = os.environ | {"PYTHONPATH": str(installed)}
    said = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == [str(installed / "framebench/__init__.py"), "1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("claims", "checkpoint"), "confirmed"),
        (("advise", "transformer/torch/train/*/b4", "--budget", "300MiB"), "checkpoint"),
        (("answer",), "PyTorch"),
        (("devices",), "Cached predictions"),
        (("versions", "compare", "jax==0.9.2", "jax==0.10.2"), "regression"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_in_a_folder_without_results_it_answers_from_the_published_ones(
    command: tuple[str, ...], said: str, installed: Path, tmp_path: Path
) -> None:
    done = run(installed, tmp_path, *command)
    assert said in done.stdout, done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def declared() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {canonical(one.name): one for one in map(Requirement, project["dependencies"])}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported() -> set[str]:
    """The libraries that the package imports anywhere, beside the standard one and the
    frameworks.
    """
    found = set()
    for file in [*(ROOT / "framebench").rglob("*.py"), *(ROOT / "models").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - FRAMEWORKS - {"framebench"}


def test_it_depends_on_what_it_imports() -> None:
    of_module = packages_distributions()
    needed = {canonical(name) for module in imported() for name in of_module.get(module, [module])}
    # only where notebooks are executed, which says what is missing
    notebooks = {"nbclient", "nbformat", "jupytext"}
    # the fixture is loaded by pytest itself
    loaded_by_its_user = {"pytest"}
    # pydantic brings its core in the only version that it takes
    brought_along = {"pydantic-core"}
    optional = {"sphinx", "vl-convert", "vl-convert-python"}  # of the extra `site`
    beside = notebooks | loaded_by_its_user | brought_along | optional
    assert needed - beside == declared().keys()


def test_the_pinned_versions_are_in_the_ranges() -> None:
    pinned = {
        canonical(name): version
        for name, version in read_pins(ROOT / "requirements/control.txt").items()
    }
    assert {
        name: pinned.get(name)
        for name, one in declared().items()
        if pinned.get(name, "0") not in one.specifier
    } == {}
