"""Records made by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pandas as pd

from analysis import frames
from analysis.selection import select_records
from framebench.records.record import Proof, Provenance, Record, Verification
from framebench.suite.case import Case

CASE = Case("transformer", "torch", "train", "fp32", 4, "tiny")
RIGHT = {"verification": Verification(passed=True, relative_error={"loss": 1e-8}), "effect": Proof(proven=True, evidence={})}


def provenance(**changes: Any) -> Provenance:
    fields = {
        "session": "s", "measured_at": datetime(2026, 1, 2, tzinfo=UTC), "command": "framebench run", "commit": "c" * 40,
        "dirty": False, "machine": "m", "hardware": {"cpu": "x", "device": "cpu"}, "versions": {"torch": "2.13.0"},
        "protocol": 1,
    }  # fmt: skip
    return Provenance(**{**fields, **changes})


def record(case: Case = CASE, **changes: Any) -> Record:
    return Record(**{"case": case.id, "status": "ok", "provenance": provenance(), **changes})


def made(
    strategy: str, peak: int, step: float, framework: str = "torch", instrument: str = "host.rss", batch: int = 4
) -> Record:
    case = Case("transformer", framework, "train", strategy, batch, "tiny")
    origin = provenance(versions={framework: "1"})
    return record(case, peaks={instrument: peak}, step_s=[step], first_step_s=1.0, provenance=origin, **RIGHT)


def frame(*found: Record) -> pd.DataFrame:
    return frames.frame(select_records(found))


def died(strategy: str = "checkpoint", when: str = "2027-01-01T00:00:00Z") -> Record:
    """A worker that ended before it could name its framework's version."""
    case = Case("transformer", "torch", "train", strategy, 4, "tiny")
    return record(case, status="crashed", reason="SIGKILL", provenance=provenance(versions={}, measured_at=when))
