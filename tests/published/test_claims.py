"""The numbers behind every published verdict are those of the committed files, read without the
ledger.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, get_args

import pytest

from framebench.analysis.results import Results
from framebench.claims.claim import Measurement
from framebench.claims.ledger import Entry, ledger
from framebench.claims.lines import Line, applies
from framebench.claims.measures import Planned, is_ratio
from framebench.claims.registry import REGISTRY
from framebench.claims.rule import DECIDED, MEASURED, Verdict, decide
from framebench.claims.samples import ADDED, PEAK
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


@pytest.mark.parametrize("machine", MACHINES)
def test_printed_numbers_are_those_of_the_arms_behind_the_verdict(machine: str) -> None:
    """Of a claim that is not decided, those of all arms that would decide."""
    for entry in entries(machine):
        arms = [
            one
            for one in entry.lines
            if one.decides and one.verdict != UNMET and one.low is not None
        ]
        if entry.verdict in DECIDED:
            arms = [one for one in arms if one.verdict in DECIDED]
        if arms:
            assert len({one.form for one in arms}) == 1, f"{entry.name}: one scale"
            assert (entry.low, entry.high) == (
                min(one.low for one in arms),
                max(one.high for one in arms),
            ), entry.name


def test_every_available_prediction_is_part_of_its_claim() -> None:
    """Where two cases are compared in an arm that decides, the same two at full size decide too if
    both were planned.
    """
    plans = [
        json.loads(line)
        for path in sorted((ROOT / "results/planned/h100-80gb").glob("*.jsonl"))
        for line in path.read_text().splitlines()
        if path.stem in PINNED.values()
    ]
    planned = {plan["case"] for plan in plans if plan["outcome"] == "planned"}
    for claim in REGISTRY.claims:
        used = [
            tuple(arm.measure.planned_cases())
            for arm in claim.deciding
            if isinstance(arm.measure, Planned)
        ]
        for arm in claim.deciding:
            if (
                is_ratio(arm.measure)
                and arm.measure.quantity in (PEAK, ADDED)
                and arm.measure.refs[1].ranks == 1
            ):
                at_full_size = tuple(arm.measure.cases("full"))
                if at_full_size and {case.id for case in at_full_size} <= planned:
                    assert at_full_size in used, (
                        f"{claim.name}: {arm.name} was planned at full size: add it by planned(...)"
                    )


def test_no_record_violates_a_definition() -> None:
    """Each proof is tried against every record of the cases that it is about, whatever their
    machine, commit or protocol.
    """
    tried = 0
    for claim in REGISTRY.claims:
        for arm in claim.deciding if claim.definition else ():
            for case in arm.measure.cases("cpu"):
                for record in (r for r in records() if r.case == case.id and r.status == "ok"):
                    found = arm.measure.quantity.estimate([record])  # type: ignore[attr-defined]
                    if found is not None:
                        assert decide(found, arm.target) == "confirmed", record.case
                        tried += 1
    assert tried >= 6


@cache
def load_release(machine: str, release: str) -> list[dict[str, Any]]:
    """The records of a machine with a release, by their bytes; empty if it has none."""
    file = ROOT / "results" / "records" / machine / f"{release}.jsonl"
    return load_fields(file) if file.exists() else []


@cache
def files(machine: str, case: str, protocol: int) -> list[dict[str, Any]]:
    """The ok records of a case, by their bytes: one protocol, pinned version, the newest one's
    commit, under no limit.
    """
    found = sorted(
        (r for r in load_release(machine, PINNED[case.split("/")[1]]) if r["case"] == case),
        key=lambda r: r["provenance"]["measured_at"],
    )
    free = [
        r
        for r in found
        if r["provenance"].get("memory_limit") is None and r["provenance"]["protocol"] == protocol
    ]
    good = [r for r in free if r["status"] == "ok"]
    return [r for r in good if r["provenance"]["commit"] == good[-1]["provenance"]["commit"]]


def peaks(machine: str, case: str, protocol: int) -> tuple[str, list[int]]:
    """Instrument, and the peaks of all steps by it."""
    records = [r for r in files(machine, case, protocol) if r["peak_samples"]]
    instrument = next(i for i in INSTRUMENTS if i in records[-1]["peaks"])
    return instrument, [
        step[instrument] for r in records for step in r["peak_samples"] if instrument in step
    ]


def ends(values: list[int]) -> tuple[int, int]:
    return min(values), max(values)


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
        one, other = (
            [low * (1 - share) - size, high * (1 + share) + size]
            for low, high in map(ends, (base[1], change[1]))
        )
        assert line.low == pytest.approx(other[0] / one[1]), line.id
        assert line.high == pytest.approx(other[1] / one[0]), line.id
        checked += 1
    measured = sum(
        line.value is not None and not line.planned
        for _, line, arm in arms_of(machine)
        if not arm.measure.probe
    )
    assert checked >= 0.3 * measured


@pytest.mark.parametrize("machine", MACHINES)
def test_a_verdict_rests_on_records_of_two_different_cases(machine: str) -> None:
    """An arm that decides had two different cases, or a program of two ways, and the number might
    have come out otherwise.
    """
    for entry, line, arm in arms_of(machine):
        if line.decides and line.verdict in MEASURED:
            assert len(line.cases) == len(set(line.cases))
            cases = [case.id for case in arm.measure.cases("cpu")]
            assert len(
                {id(r) for case in cases for r in files(machine, case, entry.protocol)}
            ) >= len(cases), line.id
            assert line.records, line.id


def test_a_prediction_decides_nothing_that_a_gpu_has_measured() -> None:
    """And each number of the card's is that of its own files."""
    checked = 0
    for entry in entries(SHOWN):
        measured = [line for line in entry.lines if line.on_other_gpu]
        pairs = {
            (line.metric, *map(without_batch, line.cases)) for line in measured if line.decides
        }
        assert not pairs & {
            (line.metric, *map(without_batch, line.cases))
            for line in entry.lines
            if line.planned and line.decides
        }
        for line in measured:
            assert {name.split("/")[1] for name in line.records} == {CARD}
            if (
                kept := [kept_on_the_card(case) for case in line.cases]
            ) and "saved bytes" in line.metric:
                assert line.value == pytest.approx(kept[1] / kept[0]), line.id
                checked += 1
    assert checked >= 2


def without_batch(case: str) -> tuple[str, ...]:
    return tuple(case.split("/")[:4])


def kept_on_the_card(case: str) -> int:
    """Bytes kept for the backward pass, by the newest record."""
    found: list[dict[str, Any]] = []
    for file in sorted((ROOT / "results/records" / CARD).glob("*.jsonl")):
        found += [r for r in load_release(CARD, file.stem) if r["case"] == case]
    found.sort(key=lambda r: r["provenance"]["measured_at"])
    good = [r for r in found if r["status"] == "ok"]
    return int(good[-1]["effect"]["evidence"].get("saved_bytes", 0))


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
