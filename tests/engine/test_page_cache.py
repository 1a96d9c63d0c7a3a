"""What processes mapped has other pages in the next block."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from framebench.engine import blocks
from framebench.engine import page_cache as pages
from framebench.engine.groups import Group
from framebench.engine.runner import Options
from framebench.engine.timed_process import Variant
from framebench.suite.case import Case


@pytest.fixture
def library(tmp_path) -> Path:
    """Return a file on disk that was read once."""
    path = tmp_path / "libmade up.so.1"
    with path.open("wb") as file:
        file.write(os.urandom(2**18))
        os.fsync(file.fileno())
    pages.drop([path])
    if is_cached(path):
        pytest.skip("this folder's file system is in memory")
    path.read_bytes()
    assert is_cached(path)
    return path


def is_cached(path: Path) -> bool:
    """Return whether a file's first page is in the page cache."""
    with path.open("rb", buffering=0) as file:
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False


def test_dropped_pages_are_read_from_disk_again(library, tmp_path):
    pages.drop([tmp_path / "gone", library])
    assert not is_cached(library)
    pages.renew([tmp_path / "gone", library])
    assert is_cached(library), "so the next process's first step does not wait for the disk"


def test_files_that_a_process_maps_are_listed_and_stay_cached(library):
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        assert held[:1]
        assert library in pages.list_mapped_files(os.getpid())
        pages.drop([library])
        assert is_cached(library), "a page in use stays"
    assert library not in pages.list_mapped_files(os.getpid())
    assert pages.list_mapped_files(2**30) == set(), "there is no such process"


@pytest.mark.parametrize(("rounds", "times"), [(3, 2), (0, 0)])
def test_after_each_block_with_times_the_libraries_are_renewed(
    rounds, times, fake_worker, tmp_path, monkeypatch
):
    """The libraries of a worker that acts are an interpreter's."""
    renewed = []
    monkeypatch.setattr(blocks.pages, "renew", renewed.append)
    case = Case.from_id("transformer/torch/train/fp32/b4/tiny")
    group = Group("group", (Variant(case, fake_worker),), ())

    with blocks.Run("session", Options(rounds=rounds), tmp_path) as run:
        blocks.measure([group], run, blocks=2)

    assert len(renewed) == times
    for files in renewed:
        assert "libc.so.6" in {path.name for path in files}
