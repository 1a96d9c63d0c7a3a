"""Two releases of a framework on a user's own model.

Both are measured in the same blocks and verified against the baseline as the older one computes it.
They are judged as the suite's cases are.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from framebench.cli.shared import err, fail, measuring, say
from framebench.engine import releases, runner
from framebench.engine.progress import CaseProgress
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.user_file import Fault
from framebench.user_file.opening import open_model
from framebench.versions import measure as versions


@dataclass(frozen=True)
class FileRequest:
    """What is measured of a user's file."""

    file: Path
    batch: int
    scenario: str
    strategies: list[str]  # none: its baseline
    blocks: int
    rounds: int


def measure(base: str, change: str, request: FileRequest, results: Path) -> list[Record]:
    """Measure both releases, such as jax==0.9.2, and return their records.

    Ends the command if they are not two releases of one framework, and if the file is at fault.
    """
    framework, _, older = base.partition("==")
    other_framework, _, newer = change.partition("==")
    if not framework or not older or not newer or framework != other_framework:
        fail(
            f"{base} and {change} are no two releases of one framework, such as torch==2.12.1 "
            "and torch==2.13.0",
            2,
        )
    session = secrets.token_hex(6)
    options = runner.Options(rounds=request.rounds, cold_blocks=versions.COLD_BLOCKS)
    try:
        with measuring(results):
            ready = {
                version: releases.ensure_release(framework, version, "", (), say)
                for version in (older, newer)
            }
            reference = str(ready[older].python)
            opened = open_model(
                request.file,
                request.scenario,
                request.strategies,
                request.batch,
                reference,
                results,
            )
            with (
                opened as (cases, _, folder),
                CaseProgress(cases, folder, err, request.blocks * len(ready)) as progress,
            ):
                versions.measure(cases, ready, request.blocks, session, options, folder, progress)
                records = store.read_all(folder)
                return [record for record in records if record.provenance.session == session]
    except Fault as error:
        fail(str(error), 2)
