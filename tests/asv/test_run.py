"""What `asv run` is refused before it measures: other commits than HEAD, other Pythons, and a
machine without room for its processes. What runs out later ends it in a sentence, too.
"""

import errno
import os
import sys

import pytest
from asv.util import UserError

from framebench.asv import run
from framebench.records import provenance
from tests.processes import run_process, small_disk


@pytest.mark.parametrize("commit", ["NEW", "HEAD~"])
def test_a_commit_other_than_head_is_refused(commit):
    """What runs is the working tree: nothing of another commit must be stored under its name."""
    with pytest.raises(UserError) as raised:
        run.check_commits(commit)
    assert "check each commit out, type asv run there, then asv compare" in str(raised.value)


@pytest.mark.parametrize("requested", [None, "HEAD", "HEAD^!"])
def test_a_range_that_is_head_alone_is_taken(requested):
    run.check_commits(requested)
    run.check_commits(provenance.find_commit())


@pytest.mark.parametrize("environment", ["existing:same", "virtualenv:same"])
def test_a_python_in_place_of_an_environment_is_refused(environment):
    with pytest.raises(UserError) as raised:
        run.check_environments([environment])
    assert "leave out --python and -E existing" in str(raised.value)


@pytest.mark.parametrize("command", [["run", "--bench", "just-discover"], ["run", "-b", "Resnet"]])
def test_a_full_folder_for_temporary_files_is_said_in_a_sentence(command, tmp_path, monkeypatch):
    with small_disk(tmp_path / "disk", "size=64k") as disk:
        monkeypatch.setenv("TMPDIR", str(disk))
        done = run_process([sys.executable, "-m", "asv", *command], code=1)
    assert f"only 0 MiB are free in {disk}; make room there" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_full_disk_is_said_in_a_sentence():
    with (
        pytest.raises(UserError, match=r"^No space left on device: /x$"),
        run.stop_children_at_end(),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x")
