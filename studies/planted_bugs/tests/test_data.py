"""The committed outcomes: no fault lost a record, no bug survived."""

from __future__ import annotations

import json

from studies.planted_bugs.__main__ import FAULTS
from tests.mutants.outcomes import MUTANTS, read


def test_no_fault_lost_a_record_or_left_a_wrong_one() -> None:
    faults = json.loads(FAULTS.read_text())["faults"]
    assert len(faults) > 20
    assert all(fault["passed"] for fault in faults)
    assert sum(fault["records_lost"] for fault in faults) == 0
    assert sum(fault["false_ok"] for fault in faults) == 0


def test_every_bug_was_noticed_or_is_equivalent() -> None:
    campaign = read(MUTANTS)
    assert len(campaign.planted) >= 80
    assert [(row.bug, row.case) for row in campaign.bugs if not row.as_wanted] == []
