"""What a first run is made of: its profile, environments that are built meanwhile, lines as they
come, and the answer.
"""

import os
import sys
import time
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from unittest.mock import Mock

from framebench.analysis.reports import answer
from framebench.asv import building
from framebench.asv.progress import VARIABLE, Progress, send
from framebench.engine import environments
from framebench.engine.runner import explain_unsupported
from framebench.models import spec
from framebench.strategies.registry import SCENARIOS
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.suite.profiles import list_profile_cases
from tests.callbacks import ignore
from tests.fake_records import CASE, provenance, record
from tests.processes import write_script


def test_the_first_profile_is_a_small_part_of_the_quick_one():
    first, quick = list_profile_cases("first"), list_profile_cases("quick")
    assert {*first} < {*quick}

    confirmed = spec.list_confirmed_workloads()  # not one that somebody tries out, in PyTorch alone
    strategies = defaultdict(set)
    for case in first:
        if case.workload in confirmed and not explain_unsupported(case):
            strategies[case.workload, case.framework].add(case.strategy)
    assert strategies.keys() == set(product(confirmed, FRAMEWORKS))
    for names in strategies.values():
        assert names > {SCENARIOS["train"].baseline}, "a baseline, and something to compare with it"
    assert sum(map(len, strategies.values())) <= 24


# plays `framebench setup FRAMEWORK`: leaves a file with the cores that it may use
SETUP = """
import os, pathlib, sys, time
folder, framework = sys.argv[1], sys.argv[-1]
time.sleep(0.3)
pathlib.Path(folder, framework).write_text(str(sorted(os.sched_getaffinity(0))))
if framework == "jax":
    print("no compiler")
    sys.exit(1)
print("done")
"""


def test_frameworks_are_built_in_turn_off_the_timed_core(tmp_path, monkeypatch):
    """A framework that cannot be built says why, and the next is built nevertheless.

    The interpreter is a script that writes its cores into a file instead of building. On a machine
    with one core, there is no other core to build on.
    """
    script = tmp_path / "setup.py"
    script.write_text(SETUP)
    interpreter = write_script(
        tmp_path / "python", f'exec {sys.executable} {script} {tmp_path} "$@"'
    )
    monkeypatch.setattr(building.sys, "executable", str(interpreter))
    messages = []
    built = building.Building(["torch", "jax", "jittor"], [])
    assert built.wait("torch", messages.append) == ""
    assert not (tmp_path / "jittor").exists()
    assert built.wait("jittor", messages.append) == ""
    assert built.wait("jax", messages.append) == "no compiler"
    assert messages[0] == "waiting for torch: it is begun"
    cores = os.sched_getaffinity(0)
    timed_core = max(cores)
    if len(cores) > 1:
        assert (tmp_path / "jittor").read_text() == str(sorted(cores - {timed_core}))


def test_building_ends_with_the_run(tmp_path, monkeypatch):
    interpreter = write_script(tmp_path / "python", "exec sleep 60")
    monkeypatch.setattr(building.sys, "executable", str(interpreter))
    built = building.Building(["torch", "jax"], [])
    while built.process is None:
        time.sleep(0.01)
    built.stop()
    built.thread.join(120)
    assert not built.thread.is_alive()
    assert "jax" not in built.failures, "it was never begun"


def test_a_framework_whose_build_cannot_be_started_says_why(tmp_path, monkeypatch):
    """Whoever waits for it would otherwise wait for ever."""
    monkeypatch.setattr(building.sys, "executable", str(tmp_path / "python"))
    built = building.Building(["torch", "jax"], [])
    for framework in ("torch", "jax"):
        failure = built.wait(framework, ignore)
        assert failure.startswith("framebench setup could not be started: ")
        assert "No such file" in failure


def test_environments_that_are_not_built_or_not_warm_are_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("FRAMEBENCH_CACHE", str(tmp_path))
    assert building.list_unbuilt(["torch", "jittor"], []) == ["torch", "jittor"]
    for name in ("torch", "jittor"):
        where = environments.describe(name).python.parent.parent
        where.mkdir(parents=True)
        (where / ".complete").touch()
    baseline = Case.from_id("transformer/jittor/train/fp32/b4/cpu")
    selected = [baseline, Case.from_id("transformer/jittor/train/checkpoint/b4/cpu")]
    assert building.list_unbuilt(["torch", "jittor"], selected) == ["jittor"], "its kernels"
    (where / environments.WARM).write_text("transformer/train/fp32\n")
    assert building.list_unbuilt(["jittor"], selected) == ["jittor"], "those of checkpoint"
    assert building.list_unbuilt(["jittor"], [baseline]) == []


def test_kernels_of_the_selected_cases_alone_are_built(monkeypatch):
    monkeypatch.setattr(building.threading, "Thread", Mock())
    jittor = Case.from_id("transformer/jittor/train/fp32/b4/tiny")
    selected = [jittor, Case.from_id("transformer/torch/train/fp32/b4/tiny")]
    command = building.Building(["jittor"], selected).make_command("jittor")
    assert command[-3:] == ["jittor", "--kernels", jittor.id]


def test_results_are_shown_as_they_come():
    lines = []

    def add_to_last_line(text):
        lines[-1] += text

    count_cases = Mock(return_value=3)
    progress = Progress(count_cases, lines.append, add_to_last_line)
    for case, event in [
        ("a", "build"),
        ("b", "build"),
        ("a", "round 1 of 5"),
        ("a", "memory"),
        ("a", "end: a 1 MiB"),
        ("b", "memory"),
        ("b", "end: b 2 MiB"),
        ("b", "end: b 2 MiB"),
        ("c", "none: c unsupported"),
        ("d", "build"),
    ]:
        progress.receive(f"torch==1\t{case}\t{event}\n")
    assert lines[0] == "0 of 3 cases: a and what it is compared with ..."
    assert lines[1] == "  a 1 MiB"
    assert lines[2].startswith("1 of 3 cases, about ")
    assert lines[3:5] == ["  b 2 MiB", "  c unsupported"]
    assert lines[5].startswith("2 of 3 cases, about ")


def test_an_exception_of_several_lines_is_one_event(tmp_path, monkeypatch):
    """JAX raises pages of text with tabs; Jittor colours its text."""
    pipe = tmp_path / "progress"
    os.mkfifo(pipe)
    monkeypatch.setenv(VARIABLE, str(pipe))
    lines = []
    progress = Progress(Mock(return_value=1), lines.append, lines.append)
    with os.fdopen(os.open(pipe, os.O_RDWR), "r") as reader:
        send("jax==1", "a", "end: a crashed: first line\n\tat\tb\x1b[31m\n")
        send("jax==1", "a", "done")
        progress.receive(reader.readline())
        assert reader.readline() == "jax==1\ta\tdone\n"
    assert lines == ["  a crashed: first line at b\\u001b[31m"]


def test_the_answer_lists_failed_cases_of_the_last_run():
    old = provenance(session="old", measured_at=datetime(2026, 1, 1, tzinfo=UTC))
    new = provenance(session="new", measured_at=datetime(2026, 1, 2, tzinfo=UTC))
    wrong, large = replace(CASE, strategy="checkpoint"), replace(CASE, batch=8)
    unsupported = replace(CASE, strategy="rewrite")
    records = [
        record(CASE, status="crashed", reason="long ago", provenance=old),
        record(CASE, provenance=new),
        record(wrong, status="wrong", reason="1 of 64 tensors\nis off", provenance=new),
        record(large, status="oom", reason="memory ran out", provenance=new),
        record(unsupported, status="unsupported", reason="there is none", provenance=new),
    ]

    run = answer.find_last_run(records)

    assert answer.list_failures(run) == [
        "The last run has no numbers for 2 of its 3 cases:",
        f"  {wrong.id}  wrong: 1 of 64 tensors is off",
        f"  {large.id}        oom: memory ran out",
    ]
