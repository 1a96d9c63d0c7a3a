"""What `framebench max-batch` found before is answered at once, while it still is an answer."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest

from framebench.budget.max_batch.measure import find_file, find_saved
from framebench.engine.environments import describe
from framebench.engine.session import alone
from framebench.records import store
from framebench.records.provenance import read_machine_name
from framebench.records.search import Fit
from framebench.suite import protocol
from framebench.suite.case import Case
from tests.fake_records import provenance
from tests.processes import framebench

MIB = 2**20
TRAIN = Case("transformer", "torch", "train", "fp32", 1, "tiny")


def saved(results: Path, version: int = protocol.VERSION, **changes: object) -> Fit:
    """A fit of this machine, as `framebench max-batch` leaves it."""
    origin = provenance(machine=read_machine_name(), protocol=version)
    fields = {
        "status": "found",
        "answer": "largest batch that fits: 11",
        "largest": 11,
        "provenance": origin,
    } | changes
    fit = Fit(case=TRAIN.id, budget_bytes=8 * MIB, **fields)  # type: ignore[arg-type]
    store.append(fit, find_file(results, read_machine_name(), describe("torch")))
    return fit


def test_max_batch_answers_at_once_what_was_found_before(results: Path) -> None:
    saved(results)
    arguments = ("max-batch", "transformer/torch////tiny", "--budget", "8MiB")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with alone(results):  # it disturbs no measurement
        done = framebench(*arguments, "--results", str(results), "--json")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(done.stdout)[0]["largest"] == 11
    assert "measured 2026-01-02" in done.stderr
    assert "--again" in done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


@pytest.mark.parametrize(
    ("changes", "most", "found"),
    [
        ({}, 100, True),
        ({"status": "stopped"}, 100, False),
        ({"status": "none", "largest": None}, 100, True),
        ({"status": "open", "largest": 100}, 100, True),
        ({"status": "open", "largest": 50}, 100, False),
        ({"probes": [{"batch": 128, "outcome": "memory"}]}, 100, False),
        ({"version": protocol.VERSION - 1}, 100, False),
    ],
)
def test_an_old_answer_counts_only_if_it_still_is_one(
    changes: dict[str, Any], most: int, found: bool, results: Path
) -> None:
    fit = saved(results, **changes)
    assert find_saved(TRAIN, 8 * MIB, describe("torch"), most, results) == (fit if found else None)
    assert find_saved(TRAIN, 9 * MIB, describe("torch"), most, results) is None
    (path,) = results.rglob("*.jsonl")
    path.write_text("{}")
    assert find_saved(TRAIN, 8 * MIB, describe("torch"), most, results) is None
