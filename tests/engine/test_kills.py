"""However a run ends, the next one loses no record, and writes none of them again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from framebench.engine.blocks import measure
from framebench.engine.environments import Environment
from framebench.records import store
from framebench.records.record import Record
from tests.engine.fake_blocks import CASES, make_group, open_run
from tests.processes import ROOT
from tests.record_files import list_files

BLOCKS = 2
# Measures two cases in two blocks, and ends by SIGKILL within the call of this number among those
# that change a file of the results or put it on the disk. Of a write half is written.
KILLED = """
import os, signal, sys
from pathlib import Path
from framebench.engine.blocks import measure
from framebench.engine.environments import Environment
from tests.engine.fake_blocks import CASES, make_group, open_run

results, fatal, calls = sys.argv[1], int(sys.argv[3]), 0

def is_ours(target):
    if isinstance(target, int):
        target = os.readlink(f"/proc/self/fd/{target}")
    return str(target).startswith(results)

def watch(name):
    call = getattr(os, name)
    def watched(target, *arguments, **options):
        global calls
        calls += is_ours(target)
        if calls == fatal and is_ours(target):
            if name == "write":
                call(target, arguments[0][:len(arguments[0]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return call(target, *arguments, **options)
    setattr(os, name, watched)

for name in ("write", "fsync", "ftruncate", "replace", "unlink", "mkdir", "rmdir"):
    watch(name)
environment = Environment("torch", "0", Path(sys.argv[2]))
with open_run(Path(results)) as opened:
    measure([make_group(environment, CASES[:2])], opened, blocks=2)
print(calls)
"""
# How a worker of the fake framework may end: `failing_worker.py`
ENDINGS = ("refusal", "kill", "silent exit", "kill in turn", "kill in memory", "wrong in the end")


def measure_all(results: Path, environment: Environment, blocks: int = BLOCKS) -> None:
    """Measure two cases in the session of the other runs."""
    with open_run(results) as opened:
        measure([make_group(environment, CASES[:2])], opened, blocks=blocks)


def read_records(results: Path) -> list[Record]:
    return list(store.read_all(results))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::framebench.records.lines.RecordWarning")
def test_a_kill_between_any_two_writes_costs_no_record(fake_worker, tmp_path):
    """A variant whose times were lost is measured again, next to a baseline, in another block."""
    baseline, variant = CASES[:2]
    for fatal in range(1, 200):
        results = tmp_path / f"results-{fatal}"
        command = [sys.executable, "-c", KILLED, str(results), str(fake_worker.python), str(fatal)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        written_before_the_kill = read_records(results)
        measure_all(results, fake_worker)
        found = read_records(results)

        for record in written_before_the_kill:
            assert record in found
        blocks_by_case = defaultdict(list)
        for record in found:
            assert record.status == "ok"
            blocks_by_case[record.case].append(record.turns_taken.block)
        assert len(set(blocks_by_case[variant.id])) == BLOCKS
        for case in (baseline.id, variant.id):
            blocks = blocks_by_case[case]
            assert len(blocks) == len(set(blocks)), "one record of a case in each block"
            assert set(blocks) == set(blocks_by_case[variant.id])
        assert {record.case for record in found if record.peaks} == {baseline.id, variant.id}
        assert not (results / ".unfinished").exists()
        (file,) = list_files(results)
        assert file.read_bytes().count(b"\n") == len(found)

        if done.returncode == 0:
            # the program made fewer calls than `fatal`, so a kill was tried at each of them
            calls = int(done.stdout)
            assert calls < fatal
            assert calls > 20, "it has seen the writes of each record"
            return
        assert done.returncode == -signal.SIGKILL, done.stderr
    pytest.fail("it never came to an end")


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_ending_of_a_worker_leaves_one_record(ending, fake_worker, results, monkeypatch):
    monkeypatch.setenv("FAKE_FAILURE", f"fp32: work, checkpoint: {ending}")
    measure_all(results, fake_worker, blocks=1)
    first = read_records(results)
    assert Counter(record.parsed.strategy for record in first) == {"fp32": 1, "checkpoint": 1}
    measure_all(results, fake_worker, blocks=1)
    assert read_records(results) == first
