"""Environments: found, shared, rebuilt when pins change; what is missing is named before minutes
are spent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from framebench.engine import children, environments
from framebench.engine.environments import Environment, SetupError
from framebench.engine.runner import Options
from framebench.records import pins, store
from framebench.suite.case import Case
from tests.callbacks import ignore
from tests.processes import ROOT, make_fake_environment, small_disk
from tests.single_case import measure_alone


@pytest.fixture
def own_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("FRAMEBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def own_pins(tmp_path, monkeypatch) -> Path:
    """Return a requirements folder of the test's own, whose torch needs nothing."""
    folder = tmp_path / "requirements"
    folder.mkdir()
    (folder / "torch.txt").write_text("# torch==1.0\n")
    monkeypatch.setattr(pins, "REQUIREMENTS", folder)
    monkeypatch.setattr(pins, "read_pins", Mock(return_value={"torch": "1.0"}))
    return folder


def test_changed_pins_are_another_environment_and_changed_hashes_are_not(own_cache, own_pins):
    before = environments.find_location("torch", "1.0")
    assert before.is_relative_to(own_cache)
    (own_pins / "torch.txt").write_text("# torch==1.0 \\\n    --hash=sha256:00\n")
    assert environments.find_location("torch", "1.0") == before
    (own_pins / "torch.txt").write_text("# another\n")
    assert environments.find_location("torch", "1.0") != before


def test_a_missing_compiler_is_named_with_its_package(own_cache, monkeypatch):
    monkeypatch.setattr(environments.shutil, "which", ignore)
    monkeypatch.setattr(
        environments.sysconfig, "get_paths", Mock(return_value={"include": "/nowhere"})
    )
    with pytest.raises(SetupError, match=r"apt-get install g\+\+.*apt-get install python3-dev"):
        environments.ensure("jittor")
    assert not own_cache.exists(), "before anything is installed"


@pytest.mark.usefixtures("own_cache", "own_pins")
def test_an_environment_is_built_once():
    messages = []
    first = environments.ensure("torch", say=messages.append)
    assert environments.is_built(first)
    assert messages
    messages.clear()
    assert environments.ensure("torch", say=messages.append) == first
    assert messages == []


@pytest.mark.usefixtures("own_cache")
def test_a_failed_build_says_why_and_is_begun_again(own_pins, monkeypatch):
    (own_pins / "torch.txt").write_text("./no-such-package\n")
    with pytest.raises(SetupError, match="no-such-package"):
        environments.ensure("torch")
    assert not environments.is_built(environments.describe("torch"))
    begun = []

    def begin(environment, where, say):
        begun.append(environment)

    monkeypatch.setattr(environments, "build", begin)
    again = environments.ensure("torch")
    assert begun == [again], "it is built from the start"


def make_installed(folder: Path) -> Environment:
    """Make an environment of ours with one package, as pip leaves it: with a list of its files."""
    where = folder / "envs" / "torch-2.13.0-abc"
    package = where / "lib" / "python3.11" / "site-packages" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("x = 1\n")
    (package / "linear.py").write_text("y = 2\n")
    listing = package.parent / "torch-2.13.0.dist-info" / "RECORD"
    listing.parent.mkdir()
    listing.write_text(
        "torch/__init__.py,sha256=a,6\ntorch/linear.py,sha256=b,6\n"
        'torch/__pycache__/linear.pyc,,\n"torch-2.13.0.dist-info/RECORD",,\n'
    )
    (where / "bin").mkdir()
    return Environment("torch", "2.13.0", where / "bin" / "python")


def test_a_crash_in_a_damaged_environment_is_not_recorded(tmp_path, results, monkeypatch):
    monkeypatch.setenv("FRAMEBENCH_CACHE", str(tmp_path))
    environment = make_installed(tmp_path)
    fake = make_fake_environment("engine/failing_worker.py", tmp_path)
    fake.python.rename(environment.python)
    monkeypatch.setenv("FAKE_FAILURE", "exception")
    case = Case.from_id("transformer/torch/train/fp32/b4/tiny")
    assert environments.find_damage(environment) is None
    assert measure_alone(case, "s", environment, Options(), results).status == "crashed"
    (record,) = store.read_all(results)
    (environment.folder / "lib/python3.11/site-packages/torch/__init__.py").unlink()
    with pytest.raises(SetupError, match="No such file") as raised:
        measure_alone(case, "another", environment, Options(), results)
    assert f"rm -r {environment.folder} && framebench setup torch" in str(raised.value)
    assert list(store.read_all(results)) == [record], "nothing was recorded of it"
    assert environments.find_damage(replace(environment, installed=True)) is None


SET_UP = Path(__file__).parent / "programs" / "environments_set_up.py"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_processes_of_a_set_up_end_with_it(how, tmp_path):
    """Otherwise pip would write into a folder that the next set-up removes and fills."""
    started = tmp_path / "started"
    command = [sys.executable, str(SET_UP), str(tmp_path / "torch-2.13.0-abc"), str(started)]
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    setup = subprocess.Popen(command, env=variables, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 600
    while not (started.exists() and started.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    pid = int(started.read_text())
    setup.send_signal(how)
    _, printed = setup.communicate(timeout=600)
    assert setup.returncode == (-how if how == signal.SIGKILL else 130)
    assert b"Traceback" not in printed
    wait_until_gone(pid)


def wait_until_gone(pid: int) -> None:
    """Wait until a process has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(120)


@pytest.mark.usefixtures("own_cache", "own_pins")
def test_leftovers_of_a_killed_set_up_end_before_the_next_build(monkeypatch):
    """A leftover, such as a compiler, would go on to write into the new environment."""
    where = environments.describe("torch").folder
    leftover = start_process_of_build(where)
    of_another = start_process_of_build(where.with_name("another"))

    def install_nothing(where, *_):
        leftover.wait(120)  # it ends before anything is installed
        where.mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(environments, "run_setup", install_nothing)
    try:
        environments.ensure("torch")
        assert leftover.poll() is not None
        assert of_another.poll() is None, "that of another environment goes on"
    finally:
        for process in (leftover, of_another):
            process.kill()
            process.wait()


def start_process_of_build(where: Path) -> subprocess.Popen[bytes]:
    """Start a process with the mark of what builds the environment in this folder."""
    mark = f"{environments.name_builds(where)}0123"
    variables = {**os.environ, children.MARK: mark}
    return subprocess.Popen(["sleep", "600"], env=variables, start_new_session=True)


def test_kernels_are_compiled_of_the_selected_cases_alone_and_once(tmp_path, monkeypatch):
    environment = Environment("jittor", "1.3", tmp_path / "bin/python", tmp_path / "home")
    run_setup = Mock()
    monkeypatch.setattr(environments, "run_setup", run_setup)
    fp32 = Case.from_id("transformer/jittor/train/fp32/b4/tiny")
    checkpoint = replace(fp32, strategy="checkpoint")
    environments.warm(environment, [fp32, replace(fp32, framework="torch")])
    environments.warm(environment, [fp32, replace(checkpoint, batch=8), checkpoint])
    environments.warm(environment, [fp32, checkpoint])
    assert [call.args[1][-2:] for call in run_setup.call_args_list] == [
        ["jittor", "transformer/train/fp32"],
        ["jittor", "transformer/train/checkpoint"],
    ]


def test_a_build_on_a_full_disk_says_so(tmp_path):
    """The log lies on that disk, too, and lacks the reason."""
    with small_disk(tmp_path / "disk", "size=16k") as disk, pytest.raises(SetupError) as raised:
        environments.run_setup(disk / "torch", ["dd", "if=/dev/zero", f"of={disk}/x"], ignore)
    assert str(raised.value).startswith(
        f"dd ended with exit code 1; only 0 MiB are free in {disk}; the end of {disk}/torch.log:"
    )
