"""Claims that no case decides are judged by what programs have printed."""

from __future__ import annotations

import math
import re
from pathlib import Path
from statistics import mean, stdev

import pytest

from framebench.analysis.results import Results
from framebench.claims import measure as claim_probes
from framebench.claims.ledger import ledger, list_names
from framebench.claims.missing import find_missing
from framebench.claims.probed import Reading
from framebench.claims.registry import REGISTRY
from framebench.claims.rule import Verdict
from framebench.claims.store import MachineResults
from framebench.records import store
from tests.claims.claim_records import MIB, one, probe


@pytest.mark.parametrize(
    ("claim", "name"),
    [("B13", "set_memory_limit"), ("B16", "VolumeBatchNorm3d"), ("B20", "attention")],
)
def test_a_missing_api_is_reported_as_missing(results: Path, claim: str, name: str) -> None:
    assert one(results, claim).verdict == "not measured"
    absent = dict.fromkeys(list_names(REGISTRY.claims), False)
    path = probe(results, "names", names=absent)
    assert one(results, claim).verdict == "no such API"
    assert one(results, claim).records[-1] == path.relative_to(results).as_posix()
    probe(results, "names", minute=1, names={path: name in path for path in absent})
    assert one(results, claim).verdict != "no such API"


def test_probes_are_judged_like_records(results: Path) -> None:
    grown = {
        "listed_resident": 256.0,
        "listed_private": 256.0,
        "mapped_resident": 260.0,
        "mapped_private": 1.0,
    }
    probe(results, "inputs", found={name: [mib * MIB] * 5 for name, mib in grown.items()})
    assert one(results, "C12 short").verdict == "not measured", (
        "an older program's, from which nothing was taken back"
    )
    counts = {"batches": 64.0, "listed_batches": 32.0, "mapped_batches": 64.0}
    for minute, left, verdict in (
        (1, 2.56, "confirmed"),
        (2, 256.0, "no effect"),
        (3, 300.0, "opposite"),
    ):
        sizes = grown | {"listed_left": 256.0, "mapped_left": left}
        found = {name: [mib * MIB] * 5 for name, mib in sizes.items()} | {
            name: [n] * 5 for name, n in counts.items()
        }
        probe(results, "inputs", minute=minute, found=found)
        assert (one(results, "C12 short").verdict, one(results, "C12 short").value) == (
            verdict,
            pytest.approx(left / 256),
        )


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [([1.0] * 5, "confirmed"), ([1.2] * 5, "opposite"), ([0.9, 1.3, 1.0], "undecided")],
)
def test_the_monitor_is_judged_over_processes(
    results: Path, ratios: list[float], verdict: Verdict
) -> None:
    probe(
        results,
        "monitor",
        found={
            "watched_over_alone": ratios,
            "seen_over_peak": [0.99 + i / 1000 for i, _ in enumerate(ratios)],
        },
    )
    peak, cost = ledger(Results(results), "m", "tiny", ["C15"])
    assert cost.verdict == verdict
    assert peak.verdict == "not testable here", "no arm of it could fail"


def test_reports_are_judged_by_their_programs(results: Path) -> None:
    """What the report says, its opposite, and a size; in a table of their own."""
    network = {
        "plain": [100.0] * 5,
        "whole": [99.0] * 5,
        "layers": [99.0] * 5,
        "in_a_loop": [10.0] * 5,
    }
    probe(results, "report-jax-19822", found=network)
    assert one(results, "R1").verdict == "confirmed"
    probe(results, "report-jax-19822", minute=1, found=network | {"whole": [20.0] * 5})
    assert one(results, "R1").verdict == "opposite"
    for minute, ratio, verdict in (
        (0, 2.2, "confirmed"),
        (1, 1.3, "smaller than claimed"),
        (2, 3.5, "larger than claimed"),
        (3, 0.7, "opposite"),
    ):
        probe(
            results,
            "report-torch-193193",
            minute=minute,
            found={"eager": [1.0] * 5, "compiled": [ratio] * 5, "apart": [1.0] * 5},
        )
        assert one(results, "R8").verdict == verdict


def test_an_older_probes_result_decides_nothing(results: Path) -> None:
    probe(results, "monitor", found={"alone_s": [1.0], "watched_s": [1.0]})
    assert one(results, "C15 cost").verdict == "not measured"
    assert "watched_over_alone" in one(results, "C15 cost").remark


def test_lost_samples_are_counted_where_memory_ran_out(results: Path) -> None:
    probe(results, "halving-torch", found={"lost": [3.0], "recoveries": [2.0]})
    assert one(results, "C14").value == 3
    probe(results, "halving-torch", minute=2, found={"lost": [0.0], "recoveries": [0.0]})
    assert one(results, "C14").value is None


def test_a_bad_probe_is_named_and_skipped(results: Path) -> None:
    where = claim_probes.folder(results, "m", "names")
    where.mkdir(parents=True)
    (where / "x.json").write_text('{"probe": 1}')
    with pytest.warns(store.RecordWarning, match=r"x\.json: not a framebench record"):
        assert one(results, "B16").verdict == "not measured"


def test_a_probe_of_another_machine_is_used_if_there_is_no_current_one(results: Path) -> None:
    """And says whose it is; this machine's own counts first, unless an older program gave it."""
    found = {"watched_over_alone": [1.01] * 5, "seen_over_peak": [0.99] * 5}
    today = probe(results, "monitor", minute=1, found=found | {"watched_over_alone": [1.1] * 5})
    theirs = results / "claims" / "another" / "monitor" / today.name
    theirs.parent.mkdir(parents=True)
    theirs.write_text(re.sub(r'"machine": ?"m"', '"machine":"another"', today.read_text()))
    today.unlink()
    path = probe(results, "monitor", found=found)
    assert one(results, "C15 cost").value == pytest.approx(0.01)
    path.unlink()
    assert one(results, "C15 cost").value == pytest.approx(0.1)
    assert "Tried on another." in one(results, "C15 cost").remark
    probe(results, "monitor", found={"alone_s": [1.0]})
    assert one(results, "C15 cost").value == pytest.approx(0.1)
    missing = find_missing(REGISTRY.chosen(["C15"]), MachineResults(Results(results), "m"), "tiny")
    assert "monitor" in missing.probes, "it may have its own"


def test_amounts_have_students_interval_and_counts_their_range() -> None:
    values = [3.0, 8.5, 9.6, 7.0, 8.0]
    half = 2.776 * stdev(values) / 5**0.5
    assert Reading("value", ("later",)).effect({"later": values}) == pytest.approx(
        (mean(values), mean(values) - half, mean(values) + half), rel=1e-3
    )
    assert Reading("difference", ("a", "b")).effect({"a": [3.0] * 5, "b": [1.0] * 5}) == (2, 2, 2)
    assert Reading("value", ("a",)).effect({"a": [3.0]}).high == math.inf, "one process has none"
    assert Reading("value", ("n",), exact=True).effect({"n": [1.0, 2.0, 4.0]}) == (2, 1, 4)
