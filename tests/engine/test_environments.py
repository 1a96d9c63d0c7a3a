"""Environments: found, shared, rebuilt when pins change; what is missing is named before minutes
are spent.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from framebench.engine import environments
from framebench.engine.environments import SetupError
from framebench.models.spec import UnknownName
from framebench.records import pins
from framebench.strategies.strategy import FRAMEWORKS


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRAMEBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def own_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A requirements folder of the test's own, whose torch needs nothing."""
    folder = tmp_path / "requirements"
    folder.mkdir()
    (folder / "torch.txt").write_text("# torch==1.0\n")
    monkeypatch.setattr(pins, "REQUIREMENTS", folder)
    monkeypatch.setattr(pins, "read_pins", lambda file: {"torch": "1.0"})
    return folder


def test_pins_are_exact_and_name_no_address() -> None:
    for file in pins.REQUIREMENTS.glob("*.txt"):
        others = ("-r control.txt", "-r develop.txt")
        lines = [
            line
            for line in file.read_text().splitlines()
            if line and not line.startswith("#") and line not in others
        ]
        assert all(
            "==" in line and "://" not in line and not line.startswith("-") for line in lines
        ), file
    assert all(pins.find_pinned_version(f) for f in FRAMEWORKS)
    assert pins.read_pins(pins.REQUIREMENTS / "jittor.txt")["numpy"].startswith("1.")


def test_the_cache_folder_can_be_moved(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert environments.location("torch", pins.find_pinned_version("torch")).is_relative_to(
        own_cache
    )
    monkeypatch.delenv("FRAMEBENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert environments.cache() == Path("/elsewhere/framebench")


def test_changed_pins_are_another_environment(own_cache: Path, own_pins: Path) -> None:
    before = environments.location("torch", "1.0")
    (own_pins / "torch.txt").write_text("# another\n")
    assert environments.location("torch", "1.0") != before


def test_unknown_names_are_answered() -> None:
    with pytest.raises(UnknownName, match="torch, jax, jittor"):
        environments.describe("tensorflow")
    with pytest.raises(SetupError, match=pins.find_pinned_version("jax")):
        environments.describe("jax", "0.0.1")


def test_a_missing_compiler_is_named_with_its_package(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments.shutil, "which", lambda name: None)
    monkeypatch.setattr(environments.sysconfig, "get_paths", lambda: {"include": "/nowhere"})
    with pytest.raises(SetupError, match=r"apt-get install g\+\+.*apt-get install python3-dev"):
        environments.ensure("jittor")
    assert not own_cache.exists(), "before anything is installed"


def test_an_environment_is_built_once(own_cache: Path, own_pins: Path) -> None:
    said: list[str] = []
    first = environments.ensure("torch", say=said.append)
    assert environments.built(first)
    assert said
    said.clear()
    assert environments.ensure("torch", say=said.append) == first
    assert said == []


def test_a_failed_build_says_why_and_is_not_taken_for_a_whole_one(
    own_cache: Path, own_pins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_pins / "torch.txt").write_text("./no-such-package\n")
    with pytest.raises(SetupError, match="no-such-package"):
        environments.ensure("torch")
    assert not environments.built(environments.describe("torch"))
    begun: list[environments.Environment] = []
    monkeypatch.setattr(
        environments, "build", lambda environment, where, say: begun.append(environment)
    )
    again = environments.ensure("torch")
    assert begun == [again], "it is built from the start"


def test_a_module_that_fails_says_why(tmp_path: Path) -> None:
    here = environments.Environment("torch", "0", Path(sys.executable))
    with pytest.raises(SetupError, match="No module named"):
        environments.run_module(here, "framebench.nothing")


def test_threads_that_are_the_first_to_start_workers_share_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when two cases are predicted at once in a checkout that is new."""
    monkeypatch.setenv("FRAMEBENCH_CACHE", str(tmp_path))
    together = Barrier(8, timeout=60)
    link = Path.symlink_to

    def linked(new: Path, target: Path) -> None:
        link(new, target)
        together.wait()  # nobody has put it in its place yet

    monkeypatch.setattr(Path, "symlink_to", linked)
    with ThreadPoolExecutor(8) as pool:
        folders = {*pool.map(lambda _: environments._our_folder.__wrapped__(), range(8))}
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == [
        ["framebench"]
    ]
