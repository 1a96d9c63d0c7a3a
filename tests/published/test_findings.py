"""What docs/findings.md says stands out, beside the committed records: every figure is counted again from them."""

from __future__ import annotations

import re

import pandas as pd
import pytest

import framebench
from framebench.analysis import frames
from framebench.analysis.selection import of_one_version
from framebench.models import spec
from framebench.records import store
from framebench.suite.strategy import TITLES
from tests.processes import ROOT
from tests.published.committed import tracked

MACHINE = "xeon-2core"
BATCH = {"resnet50": 8, "unet3d": 4, "transformer": 4}
STRATEGIES = {
    "Checkpointing": "train/checkpoint", "Scanned layers": "train/scan", "bfloat16": "train/amp_bf16",
    "Accumulation": "train/accumulate", "Adam in 8 bits": "train/", "Weights in 8 bits": "eval/",
    "3-D convolutions": "train/rewrite", "Evaluation with gradients on": "eval/grad", "Jittor without fusion": "eval/no_fuse",
    "Jittor's amp_level 3": "train/amp_level_3",
}  # fmt: skip
WORKLOADS = {spec.workload(name).title: name for name in spec.names()}
FRAMEWORKS = {title: name for name, title in TITLES.items()}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    chosen = [store.read(ROOT / file) for file in tracked(f"results/records/{MACHINE}")]
    return frames.frame(of_one_version(chosen)).set_index("case")


def paragraphs() -> dict[str, str]:
    text = (ROOT / "docs" / "findings.md").read_text().split(f"{MACHINE}: what stands out -->")[1].split("<!-- end -->")[0]
    return dict(re.findall(r"^- \*\*(.+?)\*\*: (.+)$", text, re.M))


def figures() -> list[tuple[str, str, str, str]]:
    """Case, share of the peak, ratio of times as printed."""
    found = []
    for title, text in paragraphs().items():
        scenario = next(place for name, place in STRATEGIES.items() if title.startswith(name))
        for phrase in text.split("; "):
            workload = next(name for title, name in WORKLOADS.items() if phrase.startswith(title))
            for framework, strategy, share, cost in re.findall(
                r"(PyTorch|JAX|Jittor)(?: `(\w+)`)? (\d+)% of the peak \((.+?)\)", phrase
            ):
                place = f"{workload}/{FRAMEWORKS[framework]}/{scenario}{strategy}/b{BATCH[workload]}/cpu"
                found.append((title, place, share, cost))
    return found


def test_every_figure_is_that_of_its_records(table: pd.DataFrame) -> None:
    counted = figures()
    assert len(counted) > 30
    for title, case, share, cost in counted:
        row = table.loc[case]
        assert row["verified"], title
        assert row["effect_proven"], title
        scenario = case.split("/")[2]
        base = table.loc[case.replace(f"/{case.split('/')[3]}/", f"/{'fp32' if scenario == 'train' else 'no_grad'}/")]
        assert row["peak_instrument"] == base["peak_instrument"]
        assert share == f"{row['peak_bytes'] / base['peak_bytes']:.0%}".rstrip("%"), case
        printed = re.search(r"([\d.]+) x the time$", cost)
        assert (printed is None) == bool(pd.isna(row["time_ratio"])), case
        if printed and " to " not in cost:
            assert printed[1] == f"{row['time_ratio']:.2f}", case
            assert cost.startswith("about") == (row["blocks"] < 3)


def test_every_topic_has_figures() -> None:
    titles = {title for title, *_ in figures()}
    assert titles == set(paragraphs())
    assert len(titles) == len(STRATEGIES)


def test_no_paragraph_gives_a_cause() -> None:
    for text in paragraphs().values():
        assert not re.search(r"because|since|so that|turns|without", text)


def test_what_the_page_says_of_the_other_machine() -> None:
    here, there = (
        framebench.load(results=ROOT / "results", machine=name).set_index("case").loc["transformer/torch/train/amp_bf16/b4/cpu"]
        for name in (MACHINE, "zen4-2core")
    )
    text = " ".join((ROOT / "docs" / "findings.md").read_text().split())
    assert f"takes {here.time_ratio:.2f} x the time of float32 here, and {there.time_ratio:.2f} x there" in text
