"""The table of cases without a bug counts each once, by its newest record, and names what did not
pass.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION
from framebench.suite.result import RepeatedVerification, Verification
from studies.planted_bugs import without_bugs
from tests.fake_records import provenance, record


def made(
    strategy: str,
    status: str = "ok",
    margin: float = 0.25,
    hour: int = 0,
    size: str = "cpu",
    **more: Any,
) -> Record:
    when = datetime(2026, 1, 2, hour, tzinfo=UTC)
    about = {"measured_at": when, "protocol": VERSION, "machine": "m", **more}
    found = Verification(
        passed=status == "ok", margin=0.1, again=RepeatedVerification(passed=True, margin=margin)
    )
    case = Case("transformer", "torch", "train", strategy, 4, size)
    return record(
        case,
        status=status,
        reason=None if status == "ok" else "why",
        verification=found,
        provenance=provenance(**about),
    )


def test_the_newest_record_of_each_case_counts() -> None:
    found = [
        made("fp32", "wrong"),
        made("fp32", margin=0.5, hour=1),
        made("checkpoint"),
        made("amp_bf16", "oom"),
        made("accumulate", size="tiny"),
        made("compile", "wrong", protocol=VERSION - 1),
        made("compile", "wrong"),
    ]
    table = without_bugs.comparison(found)
    ((machine, framework, cases, *counts),) = table.rows
    assert (machine, framework) == ("m", "torch")
    assert int(cases) > 100
    assert counts == ["4", "2", "1", "1", "0.5"]
    assert [note.split(": ", 1)[1] for note in table.notes] == [
        "transformer/torch/train/amp_bf16/b4/cpu: oom: why",
        "transformer/torch/train/compile/b4/cpu: wrong: why",
    ]
