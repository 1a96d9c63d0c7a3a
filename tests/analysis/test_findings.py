"""What README says stands out, beside the committed records: every paragraph has its numbers, and they bear it out."""

from __future__ import annotations

import re
from collections.abc import Callable

import pandas as pd
import pytest

from analysis import frames
from analysis.selection import of_one_version
from framebench.records import store
from framebench.records.record import Record
from tests.committed import tracked
from tests.processes import ROOT

MACHINE = "xeon-2core"
BATCH = {"resnet50": 8, "unet3d": 4, "transformer": 4}
Ratio = Callable[..., float]


@pytest.fixture(scope="module")
def chosen() -> list[Record]:
    return [store.read(ROOT / file) for file in tracked(f"results/records/{MACHINE}")]


@pytest.fixture(scope="module")
def ratio(chosen: list[Record]) -> Ratio:
    """`ratio("peak", workload, framework, scenario, strategy)`, or of the "time": to the framework's own baseline."""
    table: pd.DataFrame = frames.frame(of_one_version(chosen)).set_index("case")

    def of(quantity: str, workload: str, framework: str, scenario: str, strategy: str) -> float:
        case = table.loc[f"{workload}/{framework}/{scenario}/{strategy}/b{BATCH[workload]}/cpu"]
        assert case["verified"], "the right mathematics"
        assert case["effect_proven"], "and the strategy at work"
        return float(case[f"{quantity}_ratio"])

    return of


def said() -> list[str]:
    """The bold beginnings of the paragraphs."""
    return re.findall(
        r"^- \*\*(.+?)\*\*", (ROOT / "README.md").read_text().split("### What stands out")[1].split("\n### ")[0], re.M
    )


def test_speed_is_claimed_only_where_blocks_bear_it_out(chosen: list[Record]) -> None:
    """No finding is about times while the records are from before there were blocks."""
    text = (ROOT / "README.md").read_text()
    assert ("measured anew in blocks" in text) == (not any(r.turns for r in chosen))


def test_every_paragraph_has_its_numbers_here() -> None:
    checked = (
        "Checkpointing",
        "bfloat16",
        "Accumulation",
        "3-D convolutions",
        "Evaluation with gradients on",
        "Fusion",
        "Releases differ",
    )
    assert tuple(said()) == checked


def test_checkpointing(ratio: Ratio) -> None:
    for framework in ("torch", "jax", "jittor"):
        assert ratio("peak", "transformer", framework, "train", "checkpoint") < 0.55, "halves"
        assert 0.9 < ratio("peak", "resnet50", framework, "train", "checkpoint") < 1, "saves little"


def test_bfloat16(ratio: Ratio) -> None:
    for workload in ("transformer", "unet3d"):
        assert ratio("peak", workload, "torch", "train", "amp_bf16") < 0.85, "smaller"
    assert ratio("peak", "resnet50", "torch", "train", "amp_bf16") > 0.93, "gains little"
    for workload in ("resnet50", "unet3d"):
        assert ratio("peak", workload, "jax", "train", "amp_bf16") > 1.02, "costs memory"


def test_accumulation(ratio: Ratio) -> None:
    assert ratio("peak", "resnet50", "jittor", "train", "accumulate") > 1.1


def test_3d_convolutions(ratio: Ratio) -> None:
    for framework in ("jax", "jittor"):
        assert ratio("peak", "unet3d", framework, "train", "rewrite") > 1.3, "for more memory"


def test_evaluation(ratio: Ratio) -> None:
    for workload in BATCH:
        assert ratio("peak", workload, "torch", "eval", "grad") > 1.4, "keeps the graph"


def test_fusion(ratio: Ratio) -> None:
    assert ratio("peak", "resnet50", "jittor", "eval", "no_fuse") > 8, "an order of magnitude"
    for workload in BATCH:
        assert ratio("peak", workload, "jittor", "train", "amp_level_3") == pytest.approx(1, abs=0.005), "changes nothing"


def test_releases(chosen: list[Record]) -> None:
    """Of every case that was measured under both."""
    jax = frames.frame([r for r in chosen if r.case.split("/")[1:3] == ["jax", "train"]])
    peaks = dict(zip(zip(jax["case"], jax["framework_version"]), jax["peak_bytes"].where(jax["status"] == "ok", 0)))
    both = [
        (peaks[case, "0.10.2"], old)
        for (case, version), old in peaks.items()
        if version == "0.9.2" and (case, "0.10.2") in peaks
    ]
    more = [new / old for new, old in both if new and old]
    assert len(more) > 10
    assert min(more) > 0.99, "less for none"
    assert max(more) > 1.2
