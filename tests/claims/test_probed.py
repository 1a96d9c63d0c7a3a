"""Claims that no case decides are judged by what programs have printed."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import mean, stdev

import pytest

from framebench.analysis.results import Results
from framebench.claims import measure as claim_probes
from framebench.claims.entries import Line
from framebench.claims.ledger import list_names
from framebench.claims.missing import find_missing
from framebench.claims.probed import Reading
from framebench.claims.probes import monitor
from framebench.claims.registry import REGISTRY
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
    probe(results, "names", names=absent)
    assert one(results, claim).verdict == "no such API"
    assert one(results, claim).records[-1] == "claims/m.jsonl:1"
    probe(results, "names", minute=1, names={path: name in path for path in absent})
    assert one(results, claim).verdict != "no such API"


def test_probes_are_judged_like_records(results: Path) -> None:
    probe(results, "inputs", found={"listed_left": [256.0 * MIB] * 5})
    assert one(results, "C12").verdict == "not measured", "an older program's"
    sizes = ("listed_resident", "listed_private", "mapped_resident", "mapped_private")
    for minute, mapped, verdict in (
        (1, 64.0, "confirmed"),
        (2, 32.0, "no effect"),
        (3, 16.0, "opposite"),
    ):
        found = {name: [256.0 * MIB] * 5 for name in sizes} | {
            "batches": [64.0] * 5,
            "listed_batches": [32.0] * 5,
            "mapped_batches": [mapped] * 5,
        }
        probe(results, "inputs", minute=minute, found=found)
        entry = one(results, "C12")
        assert (entry.verdict, entry.value) == (verdict, mapped / 32)


def put_monitor(results: Path, every_second: list[float], before: float, minute: int = 0) -> None:
    """A run of the probe with these shares of the peak, by a thread and by its control."""
    found = {way: every_second for way in monitor.WAYS} | {
        monitor.BEFORE: [before] * len(every_second)
    }
    probe(results, "monitor", minute=minute, found=found)


def read_monitor(results: Path) -> Line:
    """Return the line of a thread that reads every second."""
    (line,) = [line for line in one(results, "C15").lines if "every second" in line.name]
    return line


@pytest.mark.parametrize(
    ("every_second", "part"),
    [([0.98] * 5, 0.92), ([0.85] * 5, 0.4), ([0.75] * 5, 0.0), ([0.98, 0.8, 0.9], 0.57)],
)
def test_a_monitor_is_measured_by_what_a_reading_before_the_step_misses(
    results: Path, every_second: list[float], part: float
) -> None:
    put_monitor(results, every_second, before=0.75)
    assert read_monitor(results).value == pytest.approx(part, abs=0.01)


def test_a_monitor_has_no_number_where_its_control_misses_nothing(results: Path) -> None:
    put_monitor(results, [1.0] * 5, before=1.0)
    line = read_monitor(results)
    assert line.value is None
    assert "misses nothing of the peak" in line.remark


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
    assert read_monitor(results).value is None
    assert "every_second" in read_monitor(results).remark


def test_lost_samples_are_counted_where_memory_ran_out(results: Path) -> None:
    probe(results, "halving-torch", found={"lost": [3.0], "recoveries": [2.0]})
    assert one(results, "C14").value == 3
    probe(results, "halving-torch", minute=2, found={"lost": [0.0], "recoveries": [0.0]})
    assert one(results, "C14").value is None


def test_a_bad_probe_is_named_and_skipped(results: Path) -> None:
    file = claim_probes.find_file(results, "m")
    file.parent.mkdir(parents=True)
    file.write_text('{"probe": 1}\n')
    with pytest.warns(store.RecordWarning, match=r"m\.jsonl:1: not a framebench record"):
        assert one(results, "B16").verdict == "not measured"


def test_a_probe_of_another_machine_is_used_if_there_is_no_current_one(results: Path) -> None:
    """And says whose it is; this machine's own counts first, unless an older program gave it."""
    found = {"cleared": [10.0] * 5, "cleared_same": [5.0] * 5}
    theirs = found | {"cleared": [7.0] * 5}
    probe(results, "report-jax-19429", minute=1, machine="another", found=theirs)
    probe(results, "report-jax-19429", found=found)
    assert one(results, "R4").value == 5
    claim_probes.find_file(results, "m").unlink()
    assert one(results, "R4").value == 2
    assert "Tried on another." in one(results, "R4").remark
    probe(results, "report-jax-19429", found={"alone_s": [1.0]})
    assert one(results, "R4").value == 2
    missing = find_missing(REGISTRY.chosen(["R4"]), MachineResults(Results(results), "m"), "tiny")
    assert "report-jax-19429" in missing.probes, "it may have its own"


def test_amounts_have_students_interval_and_counts_their_range() -> None:
    values = [3.0, 8.5, 9.6, 7.0, 8.0]
    half = 2.776 * stdev(values) / 5**0.5
    assert Reading("value", ("later",)).effect({"later": values}) == pytest.approx(
        (mean(values), mean(values) - half, mean(values) + half), rel=1e-3
    )
    assert Reading("difference", ("a", "b")).effect({"a": [3.0] * 5, "b": [1.0] * 5}) == (2, 2, 2)
    assert Reading("value", ("a",)).effect({"a": [3.0]}).high == math.inf, "one process has none"
    assert Reading("value", ("n",), exact=True).effect({"n": [1.0, 2.0, 4.0]}) == (2, 1, 4)
