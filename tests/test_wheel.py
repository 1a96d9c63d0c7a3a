"""An installed copy has one importable name, and works outside of a checkout."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from framebench.records.pins import read_pins
from tests.marks import rarely
from tests.processes import ROOT, run_process
from tests.record_files import list_files, load_fields
from tests.repositories import run_git

CASE = "transformer/jittor/train/fp32/b4/tiny"
MODULE = ("-m", "framebench.cli")
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
def installed(tmp_path_factory) -> Path:
    """Return a folder with what `pip install` of the wheel puts into an environment.

    What the wheel depends on is not in it.
    """
    folder = tmp_path_factory.mktemp("wheel")
    source, target = folder / "source", folder / "installed"
    for name in list_sources():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source]
    run_process([*pip, *build])
    (wheel,) = folder.glob("framebench-*.whl")
    run_process([*pip, "install", "--no-deps", "--target", target, wheel])
    return target


def list_sources() -> list[str]:
    """Return the files that the wheel may be made of: also new ones, but for new results.

    These are of whoever has measured in this checkout.
    """
    left_out = [":!results/asv", ":!results/tables", ":!docs", ":!tests"]
    names = run_git(ROOT, "ls-files", "--cached", "--", *left_out).splitlines()
    new = ["--others", "--exclude-standard", "--", ":!results", *left_out]
    names += run_git(ROOT, "ls-files", *new).splitlines()
    return [name for name in names if (ROOT / name).exists()]


@pytest.mark.parametrize("has_git", [True, False])
def test_of_a_clone_the_wheel_has_the_results_that_git_tracks(has_git, tmp_path):
    """Whoever measures in a clone has records beside the published ones."""
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    records = tmp_path / "results/records"
    (tmp_path / "framebench").mkdir()
    (tmp_path / "framebench/__init__.py").touch()
    (tmp_path / "framebench/results").symlink_to("../results")
    (records / "published").mkdir(parents=True)
    (records / "published/jax-1.jsonl").touch()
    if has_git:
        run_git(tmp_path, "init", "-q")
        run_git(tmp_path, "add", ".")
    (records / "own").mkdir()
    (records / "own/jax-1.jsonl").touch()
    command = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", "built"]
    run_process(command, tmp_path)
    built = tmp_path / "built/framebench/results/records"
    machines = {path.parent.name for path in built.rglob("*.jsonl")}
    assert machines == ({"published"} if has_git else {"published", "own"})


def run_installed(
    installed: Path, folder: Path, *arguments: str, code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder with the installed copy."""
    command = [sys.executable, "-P", *arguments]
    return run_process(command, folder, code, PYTHONPATH=str(installed))


@pytest.mark.slow
def test_the_wheel_has_one_package_with_its_data(installed):
    names = {path.name for path in installed.iterdir() if path.suffix != ".dist-info"}
    assert names - {"bin"} == {"framebench"}
    data_files = []
    for folder in ("requirements", "models", "framebench"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and is_data(path.relative_to(ROOT)):
                data_files.append(str(path.relative_to(ROOT)))
    assert len(data_files) > 30
    for name in data_files:
        assert (installed / "framebench" / name.removeprefix("framebench/")).is_file(), name


def is_data(path: Path) -> bool:
    """Return whether a file is data of the package; hidden ones are left by linters and tests."""
    is_hidden = any(part.startswith(".") for part in path.parts)
    return path.suffix not in (".py", ".pyc") and not is_hidden


@pytest.mark.slow
def test_the_published_records_count_until_cases_were_measured(installed, tmp_path):
    """Predictions and models of one's own lie in the same folder."""
    (tmp_path / "results/own/planned").mkdir(parents=True)
    code = "import framebench; print(len(framebench.load(machine='zen4-2core')))"
    loaded = run_installed(installed, tmp_path, "-c", code)
    assert int(loaded.stdout) > 100


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_an_installed_copy_measures_into_the_current_folder(installed, tmp_path):
    """The folder lies in a repository of the user's, whose commit is not the project's."""
    run_git(tmp_path, "init", "-q")
    run_installed(installed, tmp_path, *MODULE, "run", CASE, "--rounds", "0")
    (file,) = list_files(tmp_path / "results")
    (record,) = load_fields(file)
    assert (record["case"], record["status"]) == (CASE, "ok")
    assert record["provenance"]["commit"].startswith("files-"), "no commit, but the files' own hash"
    code = "import framebench; print(framebench.__file__, len(framebench.load()))"
    loaded = run_installed(installed, tmp_path, "-c", code)
    assert loaded.stdout.split() == [str(installed / "framebench/__init__.py"), "1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (("claims", "checkpoint"), "confirmed"),
        rarely(("advise", "transformer/torch/train/*/b4", "--budget", "300MiB"), "is fastest of"),
        rarely(("answer",), "PyTorch"),
        rarely(("devices",), "Cached predictions"),
        (("versions", "compare", "jax==0.9.2", "jax==0.10.2"), "regression"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_an_installed_copy_answers_from_the_published_results(command, answer, installed, tmp_path):
    done = run_installed(installed, tmp_path, *MODULE, *command, code=None)
    assert answer in done.stdout, done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def read_declared() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {normalize_name(one.name): one for one in map(Requirement, project["dependencies"])}


def normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def list_imported() -> set[str]:
    """Return the libraries that the package imports, without the frameworks."""
    modules = []
    for folder in ("framebench", "models"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    modules += [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module:
                    modules.append(node.module)
    libraries = {module.partition(".")[0] for module in modules}
    return libraries - sys.stdlib_module_names - FRAMEWORKS - {"framebench"}


def test_the_dependencies_are_the_imported_packages():
    distributions_of = packages_distributions()
    needed = set()
    for module in list_imported():
        for name in distributions_of.get(module, [module]):
            needed.add(normalize_name(name))
    # only where notebooks are executed, which says what is missing
    notebooks = {"nbclient", "nbformat", "jupytext"}
    # the fixture is loaded by pytest itself
    loaded_by_its_user = {"pytest"}
    # pydantic brings its core in the only version that it takes
    brought_along = {"pydantic-core"}
    optional = {"sphinx", "vl-convert", "vl-convert-python"}  # of the extra `site`
    beside = notebooks | loaded_by_its_user | brought_along | optional
    assert needed - beside == read_declared().keys()


def test_the_pinned_versions_are_in_the_ranges():
    pinned = {}
    for name, version in read_pins(ROOT / "requirements/control.txt").items():
        pinned[normalize_name(name)] = version
    declared = read_declared()
    assert declared
    for name, requirement in declared.items():
        assert pinned[name] in requirement.specifier
