"""Every published verdict, computed a second time from the records themselves: without the ledger, and without its rule.

What the ledger says of the committed results is what docs/claims.md prints; each verdict follows from its arms' intervals by
the rule as docs/claims.md tells it; and the intervals of peaks, which most arms are about, are those of the files.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from framebench.analysis.results import Results
from framebench.features.claims.claim import Arm
from framebench.features.claims.ledger import Entry, Line, applies, ledger
from framebench.features.claims.measures import Ratio
from framebench.features.claims.registry import REGISTRY
from framebench.features.claims.rule import MEASURED, Target, Verdict
from framebench.features.claims.samples import PEAK
from tests.processes import ROOT

MACHINES = sorted(path.name for path in (ROOT / "results" / "records").iterdir())
SHOWN = "xeon-2core"  # the machine of docs/claims.md
PINNED = {"torch": "torch-2.13.0", "jax": "jax-0.10.2", "jittor": "jittor-1.3.11.0"}
INSTRUMENTS = ("allocator.in_use", "compiler.plan", "host.rss")


@cache
def entries(machine: str) -> list[Entry]:
    return ledger(Results(ROOT / "results"), machine)


def arms_of(machine: str) -> list[tuple[Entry, Line, Arm]]:
    return [
        (entry, line, arm)
        for entry, claim in zip(entries(machine), REGISTRY.claims, strict=True)
        for line, arm in zip(entry.lines, [a for a in claim.every_arm if applies(a, "cpu")], strict=True)
    ]


def told(low: float | None, high: float | None, target: Target) -> str:
    """The rule, in the words of docs/claims.md."""
    if low is None or high is None:
        return "undecided"
    least, most = sorted(target.direction * (end - target.null) for end in (low, high))
    matters = target.minimum
    if most < -matters:
        return "contradicted"
    if most <= matters:
        return "no effect worth having"
    if target.value is None:
        return "reproduced" if least > matters else "undecided"
    claimed = abs(target.value - target.null)
    if most < 0.8 * claimed:
        return "weaker"
    if least > 1.2 * claimed:
        return "reproduced" if target.or_more else "stronger"
    return "reproduced" if least >= 0.8 * claimed and (target.or_more or most <= 1.2 * claimed) else "undecided"


def together(verdicts: list[str]) -> str:
    """Several arms, in the words of docs/claims.md."""
    counts = Counter(v for v in verdicts if v in MEASURED)
    undecided = counts.pop("undecided", 0)
    if not counts and not undecided:
        return "needs a GPU" if set(verdicts) == {"needs a GPU"} else "not measured"
    if undecided > counts.total():
        return "undecided"
    if counts.keys() <= {"reproduced", "stronger"}:
        return "stronger" if "reproduced" not in counts else "reproduced"
    if counts.keys() <= {"contradicted", "no effect worth having"}:
        return "contradicted" if "contradicted" in counts else "no effect worth having"
    return "weaker"


@pytest.mark.parametrize("machine", MACHINES)
def test_every_verdict_follows_from_its_intervals(machine: str) -> None:
    for entry, claim in zip(entries(machine), REGISTRY.claims, strict=True):
        deciding = []
        for line, arm in zip(entry.lines, [a for a in claim.every_arm if applies(a, "cpu")], strict=True):
            fixed = line.decides and (claim.definition or claim.about_gpus)
            if line.value is not None and not fixed:
                assert line.verdict == told(line.low, line.high, arm.target), line.id
            deciding += [line] if line.decides else []
        counted = deciding
        metrics = [one.metric for one in deciding if one.value is not None or one.verdict != "needs a GPU"]
        if metrics and not any(one.value is not None for one in deciding if one.metric == metrics[0]):
            counted = [one for one in deciding if one.metric == metrics[0]]
        if claim.definition:
            assert entry.verdict == "by definition"
        elif not claim.absent:
            assert entry.verdict == together([one.verdict for one in counted]), entry.name


@cache
def files(machine: str, case: str, protocol: int) -> list[dict[str, Any]]:
    """The ok records of a case, by their bytes: one protocol, pinned version, the newest one's commit, under no limit."""
    folder = ROOT / "results" / "records" / machine / PINNED[case.split("/")[1]] / case.replace("/", ".")
    found = sorted((json.loads(p.read_bytes()) for p in folder.glob("*.json")), key=lambda r: r["provenance"]["measured_at"])
    free = [r for r in found if r["provenance"].get("memory_limit") is None and r["provenance"]["protocol"] == protocol]
    good = [r for r in free if r["status"] == "ok"]
    return [r for r in good if r["provenance"]["commit"] == good[-1]["provenance"]["commit"]]


def peaks(machine: str, case: str, protocol: int) -> tuple[str, list[int]]:
    """Instrument, and the peaks of all steps by it."""
    records = [r for r in files(machine, case, protocol) if r["peak_samples"]]
    instrument = next(i for i in INSTRUMENTS if i in records[-1]["peaks"])
    return instrument, [step[instrument] for r in records for step in r["peak_samples"] if instrument in step]


def ends(values: list[int]) -> tuple[int, int]:
    return min(values), max(values)


@pytest.mark.parametrize("machine", MACHINES)
def test_peaks_are_those_of_the_files(machine: str) -> None:
    checked = 0
    for entry, line, arm in arms_of(machine):
        if line.value is None or not isinstance(arm.measure, Ratio) or arm.measure.quantity is not PEAK:
            continue
        base, change = (peaks(machine, case.id, entry.protocol) for case in arm.measure.cases("cpu"))
        assert base[0] == change[0], line.id
        assert line.value == pytest.approx(max(change[1]) / max(base[1])), line.id
        share, size = (0.005, 2**17) if base[0] == "host.rss" else (0.0, 0)
        one, other = ([low * (1 - share) - size, high * (1 + share) + size] for low, high in map(ends, (base[1], change[1])))
        assert line.low == pytest.approx(other[0] / one[1]), line.id
        assert line.high == pytest.approx(other[1] / one[0]), line.id
        checked += 1
    measured = sum(line.value is not None for _, line, _ in arms_of(machine))
    assert checked >= 0.3 * measured


def test_some_claims_by_hand() -> None:
    """From the files alone, with nothing of the package."""
    folder = ROOT / "results" / "records" / SHOWN

    def last(case: str) -> dict[str, Any]:
        found = sorted((folder / PINNED[case.split("/")[1]] / case.replace("/", ".")).glob("*.json"))
        good = [r for r in (json.loads(p.read_bytes()) for p in found) if r["status"] == "ok" and r["peaks"]]
        return good[-1] if good else {}

    verdicts = {entry.name: entry.verdict for entry in entries(SHOWN)}
    amp = [last(f"resnet50/torch/train/{s}/b8/cpu") for s in ("amp_bf16", "fp32")]
    if all(amp):
        assert verdicts["B1 memory"] == "weaker"
        assert amp[0]["peaks"]["host.rss"] / amp[1]["peaks"]["host.rss"] > 1 - 0.8 * 0.4
    level = [last(f"transformer/jittor/train/{s}/b4/cpu") for s in ("amp_level_3", "fp32")]
    if all(level):
        assert verdicts["A7"] == "no effect worth having"
        assert level[0]["peaks"]["allocator.in_use"] == pytest.approx(level[1]["peaks"]["allocator.in_use"], rel=0.01)
    nodes = [last(f"{w}/torch/eval/no_grad/b{b}/cpu") for w, b in (("resnet50", 8), ("unet3d", 4), ("transformer", 4))]
    if all(nodes):
        assert verdicts["C2"] == "contradicted"
        assert all(r["effect"]["evidence"]["graph_nodes"] == 0 for r in nodes)


def printed(text: str) -> dict[str, str]:
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| [A-DR]\d+", line)]
    return {row[0].removeprefix("| "): row[5].split(":")[0] for row in rows}


def test_docs_print_these_verdicts() -> None:
    """Those of the machine shown, and apart from them what another has measured that it has not."""
    before, _, rest = (ROOT / "docs" / "claims.md").read_text().partition(f"### Claims not measured on {SHOWN}")
    there, _, after = rest.partition("<!-- end -->")
    shown = {entry.name: entry.verdict for entry in entries(SHOWN)}
    assert printed(before + after) == shown
    elsewhere = {entry.name: entry.verdict for machine in MACHINES if machine != SHOWN for entry in entries(machine)}
    added = printed(there)
    assert added == {name: elsewhere[name] for name in added}
    assert {shown[name] for name in added} == {"not measured"}


def test_the_readme_counts_the_claims() -> None:
    ((articles, reports),) = re.findall(r"(\d+) claims from four articles and (\d+) reports", (ROOT / "README.md").read_text())
    of_users = sum(i.startswith("R") for i in REGISTRY.ids)
    assert (int(articles), int(reports)) == (len(REGISTRY.ids) - of_users, of_users)


@pytest.mark.parametrize("machine", MACHINES)
def test_no_verdict_is_by_construction(machine: str) -> None:
    """An arm that decides had two different cases, or a probe of two ways, and the number might have come out otherwise."""
    for entry, line, arm in arms_of(machine):
        if line.decides and line.verdict in MEASURED:
            cases = [case.id for case in arm.measure.cases("cpu")]
            assert len(cases) == len(set(cases))
            assert len({id(r) for case in cases for r in files(machine, case, entry.protocol)}) >= len(cases), line.id
            assert line.records or Path(arm.measure.probe).name, line.id


def test_files_behind_a_row_exist_and_every_measured_row_has_some() -> None:
    results = ROOT / "results"
    for entry in entries(SHOWN):
        assert entry.verdict in get_args(Verdict)
        assert all((results / name).is_file() for line in entry.lines for name in line.records)
        assert set(entry.records) >= {name for line in entry.lines for name in line.records}
        if entry.verdict in MEASURED:
            assert entry.records
            assert entry.verdict == "undecided" or entry.low <= entry.value <= entry.high
