"""Two releases of a framework on a model of the user's own: measured in the same blocks, verified against the baseline as the
older one computes it, and then judged as the suite's cases are."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import NamedTuple

from framebench.cli.shared import err, fail, measuring, say
from framebench.engine import releases, runner
from framebench.engine.progress import CaseProgress
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.user_file import Fault
from framebench.user_file.opening import open_model
from framebench.versions import measure as versions


class Asked(NamedTuple):
    """What is measured of the file."""

    file: Path
    batch: int
    scenario: str
    strategies: list[str]  # none: its baseline
    blocks: int
    rounds: int


def measure(base: str, change: str, asked: Asked, results: Path) -> list[Record]:
    """The records of both releases, such as jax==0.9.2. Ends the command for what is no two releases of one framework, and
    where the file is at fault."""
    (framework, older), (other, newer) = (release.split("==") if "==" in release else ("", "") for release in (base, change))
    if not framework or framework != other:
        fail(f"{base} and {change} are no two releases of one framework, such as torch==2.12.1 and torch==2.13.0", 2)
    session, options = secrets.token_hex(6), runner.Options(rounds=asked.rounds)
    try:
        with measuring(results):
            ready = {version: releases.beside(framework, version, "", (), say) for version in (older, newer)}
            opened = open_model(asked.file, asked.scenario, asked.strategies, asked.batch, str(ready[older].python), results)
            with opened as (cases, _, where), CaseProgress(cases, where, err, asked.blocks * len(ready)) as progress:
                versions.measure(cases, ready, asked.blocks, session, options, where, progress)
                return [record for record in store.read_all(where) if record.provenance.session == session]
    except Fault as error:
        fail(str(error), 2)
