"""docs/findings.md beside the committed records: every paragraph has its numbers, and they bear it out."""

from __future__ import annotations

import re
from collections.abc import Callable

import pandas as pd
import pytest

from framebench.analysis import frames
from framebench.analysis.frames import decided
from framebench.analysis.selection import of_one_version
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.profiles import profile
from framebench.suite.strategy import FRAMEWORKS
from tests.processes import ROOT
from tests.published.committed import records, tracked

MACHINE = "xeon-2core"
ENOUGH = 5  # blocks: as many as what is published takes
BATCH = {"resnet50": 8, "unet3d": 4, "transformer": 4}
Ratio = Callable[..., float]


@pytest.fixture(scope="module")
def chosen() -> list[Record]:
    return [store.read(ROOT / file) for file in tracked(f"results/records/{MACHINE}")]


@pytest.fixture(scope="module")
def table(chosen: list[Record]) -> pd.DataFrame:
    return frames.frame(of_one_version(chosen)).set_index("case")


def case_of(table: pd.DataFrame, workload: str, framework: str, scenario: str, strategy: str) -> pd.Series:
    return table.loc[f"{workload}/{framework}/{scenario}/{strategy}/b{BATCH[workload]}/cpu"]


@pytest.fixture(scope="module")
def ratio(table: pd.DataFrame) -> Ratio:
    """`ratio("peak", workload, framework, scenario, strategy)`, or of the "time": to the framework's own baseline. A ratio of
    times is one of enough blocks, and decided."""

    def of(quantity: str, *place: str) -> float:
        case = case_of(table, *place)
        assert case["verified"], "the right mathematics"
        assert case["effect_proven"], "and the strategy at work"
        if quantity == "time":
            assert case["blocks"] >= ENOUGH
            assert decided(table)[case.name]
        return float(case[f"{quantity}_ratio"])

    return of


def paragraphs() -> dict[str, str]:
    """By their bold beginnings, each on one line."""
    text = (ROOT / "docs" / "findings.md").read_text()
    return {found[1]: " ".join(found[2].split()) for found in re.finditer(r"^- \*\*(.+?)\*\*((?:.|\n(?!- ))*)", text, re.M)}


def test_every_paragraph_has_its_numbers_here() -> None:
    checked = (
        "Checkpointing",
        "bfloat16",
        "Accumulation",
        "8 bits",
        "3-D convolutions",
        "Evaluation with gradients on",
        "Fusion",
        "Another processor",
        "Releases differ",
    )
    assert tuple(paragraphs()) == checked


def test_checkpointing(ratio: Ratio) -> None:
    for framework in FRAMEWORKS:
        assert ratio("peak", "transformer", framework, "train", "checkpoint") < 0.55, "halves"
    for framework in ("torch", "jittor"):
        assert 0.9 < ratio("peak", "resnet50", framework, "train", "checkpoint") < 1, "saves little"
    assert 0.6 < ratio("peak", "resnet50", "jax", "train", "checkpoint") < 0.75, "a third"
    told = re.search(r"for ([\d.]+) \(PyTorch\), ([\d.]+) \(JAX\) and ([\d.]+) \(Jittor\) times", paragraphs()["Checkpointing"])
    assert told
    found = [f"{ratio('time', 'transformer', framework, 'train', 'checkpoint'):.2f}" for framework in FRAMEWORKS]
    assert list(told.groups()) == found


def test_bfloat16(ratio: Ratio, table: pd.DataFrame) -> None:
    assert ratio("peak", "transformer", "torch", "train", "amp_bf16") < 0.85, "smaller"
    assert ratio("peak", "resnet50", "torch", "train", "amp_bf16") > 0.93, "hardly"
    told = re.search(r"([\d.]+) times as long", paragraphs()["bfloat16"])
    assert told
    assert told[1] == f"{ratio('time', 'transformer', 'torch', 'train', 'amp_bf16'):.2f}"
    broken = case_of(table, "unet3d", "torch", "train", "amp_bf16")
    assert broken["status"] == "wrong"
    assert "2x2x2 voxels" in broken["reason"]
    for workload in BATCH:
        assert not case_of(table, workload, "jax", "train", "amp_bf16")["effect_proven"], "XLA:CPU widens it"
    for workload in ("resnet50", "unet3d"):
        assert case_of(table, workload, "jax", "train", "amp_bf16")["peak_ratio"] > 1.02, "costs memory"


def test_accumulation(ratio: Ratio) -> None:
    assert ratio("peak", "resnet50", "jittor", "train", "accumulate") > 1.1


def test_8_bits(ratio: Ratio) -> None:
    assert ratio("peak", "transformer", "torch", "train", "adamw_8bit") == pytest.approx(5 / 6, abs=0.02)
    assert 0.75 < ratio("peak", "transformer", "torch", "train", "adafactor") < 0.8, "little more than three quarters"
    assert 0.5 < ratio("peak", "transformer", "torch", "eval", "int8_weights") < 0.57, "little more than half"
    assert ratio("peak", "transformer", "torch", "eval", "int8_dynamic") == pytest.approx(2 / 3, abs=0.03)


def test_3d_convolutions(ratio: Ratio, table: pd.DataFrame) -> None:
    for framework in ("jax", "jittor"):
        assert ratio("peak", "unet3d", framework, "train", "rewrite") > 1.3, "for more memory"
    for framework, most in (("jax", 1 / 8), ("jittor", 1 / 20)):
        assert case_of(table, "unet3d", framework, "train", "rewrite")["time_ratio"] < most


def test_evaluation(ratio: Ratio) -> None:
    for workload in BATCH:
        assert ratio("peak", workload, "torch", "eval", "grad") > 1.4, "keeps the graph"


def test_fusion(ratio: Ratio) -> None:
    assert ratio("peak", "resnet50", "jittor", "eval", "no_fuse") > 8, "an order of magnitude"
    for workload in BATCH:
        assert ratio("peak", workload, "jittor", "train", "amp_level_3") == pytest.approx(1, abs=0.005), "changes nothing"


def test_another_processor(table: pd.DataFrame) -> None:
    """Counted again from the tidy table, where the document has a module of its own."""
    (other,) = {r.provenance.machine for r in records()} - {MACHINE}
    second = frames.frame(of_one_version(r for r in records() if r.provenance.machine == other))
    both = table.join(second.set_index("case"), how="inner", suffixes=("", "_there"))
    both = both[both.index.isin([case.id for case in profile("quick")]) & (both["status"] == both["status_there"])]
    told = re.search(
        r"\((\d+) of (\d+) within 1 %\).*\((\d+) of (\d+) within 10 %\).*\((\d+) of (\d+)\)", paragraphs()["Another processor"]
    )
    assert told
    peaks = (both["peak_bytes_there"] / both["peak_bytes"] - 1).dropna().abs()
    reduced = both["strategy"].str.contains("bf16")
    prices = (both["time_ratio_there"] / both["time_ratio"] - 1)[~both["baseline"] & ~reduced].dropna().abs()
    speeds = (
        (both["torch_ratio_there"] / both["torch_ratio"] - 1)[both["baseline"] & (both["framework"] != "torch")].dropna().abs()
    )
    found = [((x <= limit).sum(), len(x)) for x, limit in ((peaks, 0.01), (prices, 0.1), (speeds, 0.1))]
    assert [(int(n), int(of)) for n, of in zip(told.groups()[::2], told.groups()[1::2])] == found
    faster = re.search(r"AVX512-BF16 about ([\d.]+) times", paragraphs()["bfloat16"])
    assert faster
    there = case_of(second.set_index("case"), "transformer", "torch", "train", "amp_bf16")
    assert faster[1] == f"{there['time_ratio']:.2f}"


def test_releases() -> None:
    """Of every case that one machine has measured under both, and one protocol."""
    jax = [r for r in records() if r.case.split("/")[1:3] == ["jax", "train"] and r.status == "ok"]
    more = []
    for protocol in {r.provenance.protocol for r in jax}:
        rows = frames.frame([r for r in jax if r.provenance.protocol == protocol])
        peaks = rows.pivot_table("peak_bytes", ["machine", "case"], "framework_version")
        if {"0.9.2", "0.10.2"} <= set(peaks.columns):
            more += (peaks["0.10.2"] / peaks["0.9.2"]).dropna().tolist()
    assert len(more) > 10
    assert min(more) > 0.99, "less for none"
    assert max(more) > 1.2
