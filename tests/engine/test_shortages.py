"""What the system lacks is said as that: a full disk is no fault of a case, nor of a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from framebench.engine import environments, shortages
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.records import store
from framebench.suite.case import Case
from tests.processes import small_disk, write_script
from tests.single_case import measure_alone
from tests.user_model.small_file import try_file, write_variant

CASE = Case.from_id("transformer/torch/train/fp32/b4/tiny")
COMPLAINT = "OSError: [Errno 28] No space left on device: '/data/x'"
COUNT_THREADS = """
import json, os
import numpy
from framebench.engine.shortages import count_blas_threads
print(json.dumps([count_blas_threads(), len(os.listdir("/proc/self/task"))]))
"""


@pytest.fixture
def full_disk(tmp_path, monkeypatch) -> Iterator[Path]:
    """Make a disk for temporary files that has less than a process needs."""
    with small_disk(tmp_path / "disk", "size=512k") as disk:
        monkeypatch.setenv("TMPDIR", str(disk))
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        yield disk


@pytest.mark.parametrize("failure", ["exception", "segfault", "silent exit", "kill in turn"])
def test_what_fails_on_a_full_disk_is_not_recorded_as_a_crash_of_its_case(
    failure, full_disk, fake_worker, results, monkeypatch
):
    monkeypatch.setenv("FAKE_FAILURE", failure)
    with pytest.raises(OSError, match=f"only [01] MiB are free in {full_disk}; .*TMPDIR"):
        measure_alone(CASE, "s", fake_worker, Options(), results)
    assert list(store.read_all(results)) == []


@pytest.mark.parametrize("printed", ["ValueError: Expecting value", COMPLAINT])
def test_a_module_that_fails_on_a_full_disk_is_not_to_blame(printed, full_disk, tmp_path):
    python = write_script(tmp_path / "python", f"echo {json.dumps(printed)} >&2; exit 1")
    with pytest.raises(OSError, match=r"only [01] MiB are free"):
        environments.run_module(Environment("torch", "0", python), "framebench.explain.worker")


def test_the_words_of_the_process_are_repeated(full_disk):
    with pytest.raises(OSError, match=r"The process said: OSError: \[Errno 28\]"):
        shortages.check_disks(f"Traceback:\n  {COMPLAINT}\nsecond")


def test_a_disk_that_has_room_again_was_filled_by_the_process_itself(tmp_path):
    shortages.check_disks(COMPLAINT, [tmp_path])


def test_a_used_up_quota_is_found_though_the_disk_has_room(tmp_path):
    complaint = "OSError: [Errno 122] Disk quota exceeded: '/data/x'"
    with pytest.raises(OSError, match="the user's quota is used up; make room there"):
        shortages.check_disks(complaint, [tmp_path])


def test_a_full_disk_beside_that_of_temporary_files_is_found_too(tmp_path):
    with small_disk(tmp_path / "disk", "size=512k") as disk:
        with pytest.raises(OSError, match=f"MiB are free in {disk}"):
            shortages.check_disks(COMPLAINT, [disk])
        shortages.check_disks("ValueError", [tmp_path])


def test_a_disk_that_is_only_read_is_not_full(tmp_path):
    """Such as the image of a container, in which an environment lies."""
    with small_disk(tmp_path / "disk", "ro,size=512k") as disk:
        shortages.check_disks(COMPLAINT, [disk])


@pytest.mark.slow
@pytest.mark.parametrize("pages", [1, 2])  # that are free, of 4 KiB
def test_a_users_file_is_not_blamed_for_a_full_disk(
    pages, full_disk, tmp_path, results, environment
):
    """The baseline's values do not fit beside what lies there already."""
    folder = tmp_path / "mine"
    folder.mkdir()
    file = write_variant(folder)
    (full_disk / "left").write_bytes(bytes(2**19 - pages * 2**12))
    done = try_file(file, results)
    assert done.returncode == 1
    assert "for want of room on a disk: only 0 MiB are free in" in done.stderr
    assert f"framebench: {file}" not in done.stderr
    assert "nothing was measured yet" in done.stderr


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OPENBLAS_NUM_THREADS": "1"},
        {"GOTO_NUM_THREADS": "1"},
        {"OMP_NUM_THREADS": "1"},
        {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "2"},
        {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "1"},
        {"OPENBLAS_NUM_THREADS": "0", "OMP_NUM_THREADS": "1"},
        {"OPENBLAS_NUM_THREADS": "1000"},
        {"OPENBLAS_NUM_THREADS": "many"},
        {"OPENBLAS_NUM_THREADS": "-1"},
    ],
    ids=str,
)
def test_openblas_starts_as_many_threads_as_are_checked(variables):
    others = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    command = [sys.executable, "-c", COUNT_THREADS]
    done = subprocess.run(
        command, env=others | variables, capture_output=True, text=True, check=True
    )
    expected, started = json.loads(done.stdout)
    assert expected == started
