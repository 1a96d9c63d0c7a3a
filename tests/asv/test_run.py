"""What `asv run` is refused before it measures: other commits than HEAD, other Pythons, and a
machine without room for its processes. What runs out later ends it in a sentence, too.
"""

import errno
import os
import sys

import pytest
from asv.util import UserError

from framebench.asv import run
from framebench.engine.shortages import OUT_OF_THREADS
from framebench.records import provenance
from tests.processes import run_process, small_disk


@pytest.mark.parametrize(
    ("check", "commit"), [(run.check_commits, "NEW"), (run.check_stored_commit, "HEAD~")]
)
def test_a_commit_other_than_head_is_refused(check, commit):
    """What runs is the working tree: nothing of another commit must be stored under its name."""
    with pytest.raises(UserError) as raised:
        check(commit)
    assert "check each commit out, type asv run there, then asv compare" in str(raised.value)


@pytest.mark.parametrize("requested", [None, "HEAD", "HEAD^!"])
def test_a_range_that_is_head_alone_is_taken(requested):
    run.check_commits(requested)
    run.check_stored_commit(provenance.find_commit())


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


# asv's plug-in where so few more threads can be started, and whether NumPy was loaded
LOAD_PLUGIN = """
import sys, threading
from asv.util import UserError
allowed, start = int(sys.argv[1]), threading.Thread.start
def start_few(thread):
    global allowed
    allowed -= 1
    if allowed < 0:
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = start_few
try:
    import framebench.asv.plugin
except UserError as error:
    print(error)
print("numpy" in sys.modules)
"""


@pytest.mark.parametrize("allowed", [0, 1, 5])
def test_too_few_threads_and_processes_end_it_before_numpy_is_loaded(allowed):
    """NumPy's OpenBLAS would send asv SIGINT, as Ctrl-C does."""
    loaded = run_process([sys.executable, "-c", LOAD_PLUGIN, allowed])
    assert loaded.stdout.splitlines() == [OUT_OF_THREADS, "False"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x"), "No space left on device: /x"),
        (RuntimeError("Failed to start server thread"), OUT_OF_THREADS),
    ],
)
def test_what_runs_out_is_said_in_a_sentence(error, message):
    with pytest.raises(UserError) as raised, run.stop_children_at_end():
        raise error
    assert str(raised.value) == message


def test_a_fault_of_the_code_is_no_shortage():
    with pytest.raises(RuntimeError, match="wrong"), run.stop_children_at_end():
        raise RuntimeError("wrong")
