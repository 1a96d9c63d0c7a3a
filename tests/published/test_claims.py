"""The numbers behind every published verdict are those of the committed files, read without the
ledger.
"""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import pytest

from framebench.analysis.results import Results
from framebench.claims.claim import Measurement
from framebench.claims.ledger import Entry, ledger
from framebench.claims.lines import Line, applies
from framebench.claims.measures import is_ratio
from framebench.claims.registry import REGISTRY
from framebench.claims.rule import MEASURED, Verdict, decide
from framebench.claims.samples import PEAK
from framebench.records.lines import count_lines
from tests.processes import ROOT
from tests.published.committed_files import records
from tests.record_files import load_fields

MACHINES = sorted(path.name for path in (ROOT / "results" / "records").iterdir())
SHOWN = "xeon-2core"  # the machine of docs/claims.md
PINNED = {"torch": "torch-2.13.0", "jax": "jax-0.10.2", "jittor": "jittor-1.3.11.0"}
CARD = "nvidia-h200"
UNMET = "not testable here"
INSTRUMENTS = ("allocator.in_use", "compiler.plan", "host.rss")


@cache
def entries(machine: str) -> list[Entry]:
    return ledger(Results(ROOT / "results"), machine)


def own(entry: Entry) -> list[Line]:
    """Without what cards elsewhere have measured."""
    return [line for line in entry.lines if not line.on_other_gpu]


def arms_of(machine: str) -> list[tuple[Entry, Line, Measurement]]:
    return [
        (entry, line, arm)
        for entry, claim in zip(entries(machine), REGISTRY.claims, strict=True)
        for line, arm in zip(
            own(entry), [a for a in claim.measurements if applies(a, "cpu")], strict=True
        )
    ]


@pytest.mark.parametrize("machine", MACHINES)
def test_no_verdict_stands_where_a_precondition_fails(machine: str) -> None:
    """By the records behind each arm, and what they say of device, size and version."""
    for entry, claim in zip(entries(machine), REGISTRY.claims, strict=True):
        for line in entry.lines:
            if not line.decides or line.verdict not in MEASURED:
                continue
            sizes = {case.split("/")[-1] for case in line.cases}
            assert not claim.needs.size or sizes == {claim.needs.size}, line.id
            assert (
                claim.needs.device != "gpu" or line.planned or line.on_other_gpu or machine == CARD
            ), line.id
        if claim.needs.lacking:
            assert (entry.verdict, entry.command) == (UNMET, ""), "the suite lacks it"


def test_no_record_violates_a_definition() -> None:
    """Each proof is tried against every record of the cases that it is about, whatever their
    machine, commit or protocol.
    """
    tried = 0
    for claim in REGISTRY.claims:
        if not claim.definition:
            continue
        metrics = {arm.measure.metric for arm in claim.deciding}
        # a definition holds in every framework, and not in those alone that decide
        for arm in (one for one in claim.measurements if one.measure.metric in metrics):
            for case in arm.measure.cases("cpu"):
                for record in (r for r in records() if r.case == case.id and r.status == "ok"):
                    found = arm.measure.quantity.estimate([record])  # type: ignore[attr-defined]
                    if found is not None:
                        assert decide(found, arm.target) == "confirmed", record.case
                        tried += 1
    assert tried >= 6


@cache
def load_release(machine: str, release: str) -> list[dict[str, Any]]:
    """The records of a machine with a release, from old to new; empty if it has none."""
    file = ROOT / "results" / "records" / machine / f"{release}.jsonl"
    lines = load_fields(file) if file.exists() else []
    return sorted(lines, key=lambda line: line["provenance"]["measured_at"])


@cache
def files(machine: str, case: str, protocol: int) -> list[dict[str, Any]]:
    """The ok records of a case, by their bytes: one protocol, pinned version, the newest one's
    commit, under no limit.
    """
    good = []
    for record in load_release(machine, PINNED[case.split("/")[1]]):
        origin = record["provenance"]
        is_free = origin.get("memory_limit") is None and origin["protocol"] == protocol
        if record["case"] == case and record["status"] == "ok" and is_free:
            good.append(record)
    return [r for r in good if r["provenance"]["commit"] == good[-1]["provenance"]["commit"]]


def peaks(machine: str, case: str, protocol: int) -> tuple[str, list[int]]:
    """Instrument, and the peaks of all steps by it."""
    records = [r for r in files(machine, case, protocol) if r["peak_samples"]]
    instrument = next(i for i in INSTRUMENTS if i in records[-1]["peaks"])
    return instrument, [
        step[instrument] for r in records for step in r["peak_samples"] if instrument in step
    ]


@pytest.mark.parametrize("machine", MACHINES)
def test_peaks_agree_with_the_record_files(machine: str) -> None:
    checked = 0
    for entry, line, arm in arms_of(machine):
        if line.value is None or not is_ratio(arm.measure) or arm.measure.quantity is not PEAK:
            continue
        base, change = (
            peaks(machine, case.id, entry.protocol) for case in arm.measure.cases("cpu")
        )
        assert base[0] == change[0], line.id
        assert line.value == pytest.approx(max(change[1]) / max(base[1])), line.id
        share, size = (0.005, 2**17) if base[0] == "host.rss" else (0.0, 0)
        (low, high), (base_low, base_high) = (
            (min(values) * (1 - share) - size, max(values) * (1 + share) + size)
            for _, values in (change, base)
        )
        assert line.low == pytest.approx(low / base_high), line.id
        assert line.high == pytest.approx(high / base_low), line.id
        checked += 1
    numbers = [line for _, line, arm in arms_of(machine) if not arm.measure.probe]
    measured = [line for line in numbers if line.value is not None and not line.planned]
    assert checked >= 0.3 * len(measured)


def test_a_prediction_decides_nothing_that_a_gpu_has_measured() -> None:
    checked = 0
    for entry in entries(SHOWN):
        deciding = [line for line in entry.lines if line.decides]
        measured, planned = (
            {(line.metric, *(case.split("/b")[0] for case in line.cases)) for line in lines}
            for lines in (
                [line for line in deciding if line.on_other_gpu],
                [line for line in deciding if line.planned],
            )
        )
        assert not measured & planned
        checked += len(measured)
        for line in entry.lines:
            if line.on_other_gpu:
                assert {name.split("/")[1] for name in line.records} == {CARD}
    assert checked >= 2


def test_files_behind_a_row_exist_and_every_measured_row_has_some() -> None:
    results = ROOT / "results"
    for entry in entries(SHOWN):
        assert entry.verdict in get_args(Verdict)
        for line in entry.lines:
            for name in line.records:
                file, _, number = name.partition(".jsonl:")
                if number:
                    name = f"{file}.jsonl"
                    assert int(number) <= count_lines(results / name)
                assert (results / name).is_file()
        assert set(entry.records) >= {name for line in entry.lines for name in line.records}
        if entry.verdict in MEASURED:
            assert entry.records
            assert entry.verdict in ("undecided", "mixed") or entry.low <= entry.value <= entry.high
