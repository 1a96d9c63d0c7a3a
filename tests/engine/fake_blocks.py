"""Blocks whose processes are fake workers: who took turns, and what was written."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from framebench.engine import blocks
from framebench.engine.blocks import Listener, Run
from framebench.engine.environments import Environment
from framebench.engine.groups import Group, make_groups
from framebench.engine.runner import Options
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.case import Case

CASE = Case.from_id("transformer/torch/train/fp32/b4/tiny")
STRATEGIES = ("fp32", "checkpoint", "accumulate", "amp_bf16")
CASES = [replace(CASE, strategy=s) for s in STRATEGIES]


def read_strategies(event_log: Path, event: str) -> list[str]:
    """Return the strategies that had an event, such as `turn`, in the order of the log."""
    return [words[1] for words in read_events(event_log, event)]


def read_processes(event_log: Path, event: str) -> list[str]:
    """Return the process that each event took place in, in the order of the log."""
    return [words[2] for words in read_events(event_log, event)]


def read_cores(event_log: Path, event: str) -> list[str]:
    """Return the core that each event took place on, in the order of the log."""
    return [words[3] for words in read_events(event_log, event)]


def read_events(event_log: Path, event: str) -> list[list[str]]:
    """Return the words of each event: its name, the strategy, the process and the core."""
    events = []
    for line in event_log.read_text().splitlines():
        if line.startswith(event):
            events.append(line.split())
    return events


def make_group(fake_worker: Environment, cases: list[Case] = CASES) -> Group:
    (found,) = make_groups(cases, {"torch": fake_worker})
    return found


FIVE_ROUNDS = Options(rounds=5)


def open_run(
    results: Path, options: Options = FIVE_ROUNDS, listener: Listener = blocks.SILENT
) -> Run:
    return Run("s", options, results, listener)


def map_by_strategy(results: Path) -> dict[str, Record]:
    """Return the only record of each strategy."""
    by_strategy = {}
    for record in store.read_all(results):
        assert record.parsed.strategy not in by_strategy
        by_strategy[record.parsed.strategy] = record
    return by_strategy


def read_in_order(results: Path) -> list[Record]:
    """Return all records, the first measured one first."""
    return sorted(store.read_all(results), key=get_measured_at)


def get_measured_at(record: Record) -> datetime:
    return record.provenance.measured_at
