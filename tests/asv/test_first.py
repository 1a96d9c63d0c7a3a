"""What a first run is made of: its profile, lines as they come, and the answer."""

import os
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from unittest.mock import Mock

from framebench.analysis.reports import answer
from framebench.asv.progress import VARIABLE, Progress, send
from framebench.engine.runner import explain_unsupported
from framebench.models import spec
from framebench.strategies.registry import SCENARIOS
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.profiles import list_profile_cases
from tests.fake_records import CASE, provenance, record


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
