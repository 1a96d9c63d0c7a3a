"""What docs/study.md says is what the study's records and the published ones say."""

from __future__ import annotations

import pytest

from framebench.analysis import statistics
from framebench.analysis.results import Results
from framebench.features.study import study
from framebench.features.study.widths import comparison
from tests.processes import ROOT

MIB = 2**20


def test_what_the_document_says_of_small_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of equal processes among the committed records, at the smallest sizes too, as `host.rss` was judged before."""
    equal: dict[str, list[int]] = {}
    for r in study.kept()["quiet"]:
        if r.turns and "/study/" in r.turns.block and not r.provenance.planted and "host.rss" in r.peaks:
            equal.setdefault(r.case, []).append(r.peaks["host.rss"])
    pairs = [pair for peaks in equal.values() for pair in zip(peaks[::2], peaks[1::2])]
    monkeypatch.setitem(statistics.RESOLUTION, "host.rss", (0.005, 2**15))
    called = [
        pair for pair in pairs
        if statistics.verdict(statistics.of_peaks([pair[0]], [pair[1]], "host.rss"), statistics.PEAK)
        in (statistics.PEAK.more, statistics.PEAK.less)
    ]  # fmt: skip
    text = (ROOT / "docs/study.md").read_text()
    assert f"{len(called)} of {len(pairs)} pairs of equal processes were called different" in text
    assert max(max(pair) for pair in called) < 15 * MIB


def test_what_the_document_says_of_the_loaded_machine() -> None:
    found = list(study.pairs("loaded", study.kept()["loaded"]))
    assert {p.framework for p in found} == {"torch", "jax", "jittor"}
    text = (ROOT / "docs/study.md").read_text()
    for share, goal in ((0.05, 18), (0.10, 27)):
        own = [p for p in found if p.planted == share]
        assert goal == round(study.GOALS["step time", share] * len(own))
        assert f"{sum(p.counts for p in own)} of {len(own)}**, where {goal} was" in text
    equal = [p for p in found if not p.planted]
    assert f"**{sum(p.counts for p in equal)} of {len(equal)}**" in text
    assert f"{sum(p.covered for p in found) / len(found):.0%}".replace("%", " % of the intervals") in text
    (wrong,) = [p for p in found if p.planted and p.verdict.verdict == "faster"]
    assert (wrong.case, wrong.planted) == ("transformer/jax/train/accumulate/b4/tiny", 0.03)
    assert f"{1000 * wrong.verdict.base:.1f} ms" in text


def test_what_the_document_says_of_memory() -> None:
    records = study.kept()["epyc"]
    found = [p for p in study.pairs("epyc", records) if p.quantity == "peak memory"]
    assert (sum(not p.planted for p in found), sum(p.counts for p in found if not p.planted)) == (60, 0)
    two, five = ([p for p in found if p.planted == share] for share in (0.02, 0.05))
    assert (len(two), sum(p.counts for p in two), sum(p.counts for p in five)) == (15, 13, 15)
    assert {p.framework for p in two if not p.counts} == {"jittor"}
    off = {
        p.case.partition("/train")[0]: abs(p.verdict.ratio - 1 - p.planted)
        for p in sorted(found, key=lambda p: abs(p.verdict.ratio - 1 - p.planted))
        if p.framework != "jittor" and p.planted
    }
    assert {case for case, share in off.items() if share > 0.005} == {"resnet50/jax"}
    assert f"up to {off['resnet50/jax']:.1%}".replace("%", " %") in (ROOT / "docs/study.md").read_text()
    jittor = [r for r in records if "/jittor/" in r.case]
    for r in jittor:
        least = min(other.peaks["allocator.in_use"] for other in jittor if other.case == r.case)
        share = r.provenance.planted.get("extra", 0.0)
        assert r.peaks["allocator.in_use"] / least - 1 == pytest.approx(share, abs=0.001)
    resnet = {r.provenance.planted.get("extra", 0.0): r.peaks["host.rss"] / MIB for r in jittor if "resnet50" in r.case}
    assert -10 < resnet[0.01] - resnet[0.0] < -8, "9 MiB less"


def test_what_the_document_says_of_the_goal() -> None:
    text = " ".join((ROOT / "docs/study.md").read_text().split())
    counts: dict[str, list[int]] = {}
    for machine, _, ratios, decided, *_ in comparison(Results(ROOT / "results").records).rows:
        counts[machine] = [a + int(b) for a, b in zip(counts.get(machine, [0, 0]), (decided, ratios))]
    shares = {machine: f"{decided} of {ratios} are ({decided / ratios:.0%})" for machine, (decided, ratios) in counts.items()}
    said = {machine: share.replace("%", " %") for machine, share in shares.items()}
    assert f"On `zen4-2core`, which README shows, {said['zen4-2core']}" in text
    assert f"on `xeon-2core`: {said['xeon-2core'].replace(' are', '')}" in text
