"""Environments: found, shared, rebuilt when pins change; what is missing is named before minutes
are spent.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from framebench.engine import children, environments
from framebench.engine.environments import Environment, SetupError
from framebench.engine.runner import Options
from framebench.models.spec import UnknownName
from framebench.records import pins, store
from framebench.suite.case import Case
from tests.callbacks import ignore
from tests.processes import ROOT, framebench, make_fake_environment, small_disk
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


def test_a_user_without_a_home_is_asked_for_a_folder(monkeypatch):
    """A container may run as a user who is in no list of users."""
    for name in ("FRAMEBENCH_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("no home directory")))
    done = framebench("setup", "torch", code=2)
    assert "set HOME, or let FRAMEBENCH_CACHE name a folder" in done.stderr


def test_pins_have_hashes_or_the_file_says_why_not():
    hashed, plain = 0, 0
    for file in pins.REQUIREMENTS.rglob("*.txt"):
        text = file.read_text()
        if text.startswith("# No hashes: "):
            plain += 1
            assert "--hash" not in text
            continue
        hashed += 1
        for requirement in text.replace(" \\\n    ", " ").splitlines():
            if "==" in requirement:
                assert re.fullmatch(r"\S+==\S+( --hash=sha256:[0-9a-f]{64})+", requirement), file
    assert hashed > 3
    assert plain > 3


def test_changed_pins_are_another_environment_and_changed_hashes_are_not(own_cache, own_pins):
    before = environments.find_location("torch", "1.0")
    assert before.is_relative_to(own_cache)
    (own_pins / "torch.txt").write_text("# torch==1.0 \\\n    --hash=sha256:00\n")
    assert environments.find_location("torch", "1.0") == before
    (own_pins / "torch.txt").write_text("# another\n")
    assert environments.find_location("torch", "1.0") != before


def test_unknown_names_are_answered():
    with pytest.raises(UnknownName, match="torch, jax, jittor"):
        environments.describe("tensorflow")
    with pytest.raises(SetupError, match=pins.find_pinned_version("jax")):
        environments.describe("jax", "0.0.1")


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
    for name in pins.read_pins(pins.REQUIREMENTS / "torch.txt"):
        if name != "torch":
            other = package.parent / f"{name.replace('-', '_')}-1.0.dist-info" / "RECORD"
            other.parent.mkdir()
            other.write_text("")
    (where / "bin").mkdir()
    return Environment("torch", "2.13.0", where / "bin" / "python")


def cut_file_off(package: Path) -> None:
    (package / "linear.py").write_text("y =")


def remove_file(package: Path) -> None:
    (package / "__init__.py").unlink()


def remove_list(package: Path) -> None:
    """Remove pip's list of NumPy."""
    (folder,) = package.parent.glob("numpy-*.dist-info")
    shutil.rmtree(folder)


def spoil_list(package: Path) -> None:
    """Replace pip's list of PyTorch."""
    (package.parent / "torch-2.13.0.dist-info" / "RECORD").write_bytes(b"\xff\0\x80")


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (cut_file_off, "3 bytes instead of 6"),
        (remove_file, "No such file"),
        (remove_list, "the package numpy is gone"),
        (spoil_list, "is no list of pip's"),
    ],
)
def test_a_crash_in_a_damaged_environment_is_not_recorded(
    damage, named, tmp_path, results, monkeypatch
):
    monkeypatch.setenv("FRAMEBENCH_CACHE", str(tmp_path))
    environment = make_installed(tmp_path)
    fake = make_fake_environment("engine/failing_worker.py", tmp_path)
    fake.python.rename(environment.python)
    monkeypatch.setenv("FAKE_FAILURE", "exception")
    case = Case.from_id("transformer/torch/train/fp32/b4/tiny")
    assert environments.find_damage(environment) is None
    assert measure_alone(case, "s", environment, Options(), results).status == "crashed"
    (record,) = store.read_all(results)
    damage(environment.folder / "lib/python3.11/site-packages/torch")
    with pytest.raises(SetupError, match=named) as raised:
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


@pytest.mark.usefixtures("own_cache")
def test_pip_refuses_an_archive_with_another_hash(own_pins, tmp_path):
    wheel = tmp_path / "nothing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("nothing.py", "")
        archive.writestr("nothing-1.0.dist-info/METADATA", "Name: nothing\nVersion: 1.0\n")
        archive.writestr("nothing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("nothing-1.0.dist-info/RECORD", "")
    line = f"nothing @ {wheel.as_uri()} --hash=sha256:"
    (own_pins / "torch.txt").write_text(f"{line}{'0' * 64}\n")
    with pytest.raises(SetupError, match="DO NOT MATCH THE HASHES"):
        environments.ensure("torch")
    right = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (own_pins / "torch.txt").write_text(f"{line}{right}\n")
    assert environments.is_built(environments.ensure("torch"))


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


def test_a_long_set_up_command_says_ever_more_rarely_that_it_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FIRST_LINE_S", 0.2)
    lines: list[str] = []
    environments.run_setup(tmp_path / "torch", ["sleep", "2.2"], lines.append)
    assert 2 <= len(lines) <= 4  # after 0.2, 0.4, 0.8 and 1.6 s
    assert all("torch.log" in line for line in lines)


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


def test_each_environment_has_a_log_of_its_own(tmp_path):
    names = ("torch-2.13.0-abc", "torch-2.13.1-abc", "torch-2.13.0-judge-abc")
    for name in names:
        with pytest.raises(SetupError, match=name) as raised:
            environments.run_setup(tmp_path / name, ["sh", "-c", f"echo {name}; exit 1"], print)
        assert sum(other in str(raised.value).split("\n", 1)[1] for other in names) == 1


def test_a_build_on_a_full_disk_says_so(tmp_path):
    """The log lies on that disk, too, and lacks the reason."""
    with small_disk(tmp_path / "disk", "size=16k") as disk, pytest.raises(SetupError) as raised:
        environments.run_setup(disk / "torch", ["dd", "if=/dev/zero", f"of={disk}/x"], ignore)
    assert str(raised.value).startswith(
        f"dd ended with exit code 1; only 0 MiB are free in {disk}; the end of {disk}/torch.log:"
    )
