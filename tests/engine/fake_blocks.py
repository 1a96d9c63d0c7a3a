"""Blocks whose processes are fake workers: who took turns, and what was written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from framebench.engine import blocks
from framebench.engine.blocks import Listener, Run
from framebench.engine.environments import Environment
from framebench.engine.groups import Group, make_groups
from framebench.engine.runner import Options
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.case import Case

CASE = Case("transformer", "torch", "train", "fp32", 4, "tiny")
STRATEGIES = ("fp32", "checkpoint", "accumulate", "amp_bf16")
CASES = [replace(CASE, strategy=s) for s in STRATEGIES]


def written(event_log: Path, what: str) -> list[str]:
    """Return the strategies in the order in which they did it."""
    return [line.split()[1] for line in event_log.read_text().splitlines() if line.startswith(what)]


def group(fake_worker: Environment, cases: list[Case] = CASES) -> Group:
    (found,) = make_groups(cases, {"torch": fake_worker})
    return found


FIVE_ROUNDS = Options(rounds=5)


def run(results: Path, options: Options = FIVE_ROUNDS, listener: Listener = blocks.SILENT) -> Run:
    return Run("s", options, results, listener)


def by_strategy(results: Path) -> dict[str, Record]:
    found = list(store.read_all(results))
    assert len({r.case for r in found}) == len(found)
    return {r.parsed.strategy: r for r in found}
