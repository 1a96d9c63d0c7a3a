"""The table of other people's models says which peaks are apart, and by how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from framebench.engine.environments import Environment
from framebench.features.user_model.table import beside, table, with_libraries
from framebench.features.user_model.tried import RIGHT as WAS_RIGHT
from framebench.features.user_model.tried import UNPROVEN, UNSUPPORTED, foreign
from framebench.records.provenance import ROOT
from framebench.suite.case import Case
from tests.handmade import RIGHT, frame, record
from tests.processes import run_inside

ROW: dict[str, Any] = {
    "model": "one", "scenario": "train", "what": "A model.", "batch": 4, "measured_at": "2026-11-26T12:00:00+00:00",
    "commit": "a" * 40, "machine": "here", "packages": {"torch": "2", "theirs": "1.0"}, "plain": 100 * 2**20,
    "peak": 101 * 2**20, "verdicts": {},
}  # fmt: skip


def test_a_peak_that_is_apart_counts_as_none_that_agrees() -> None:
    rows = [
        ROW,
        ROW
        | {
            "model": "two",
            "peak": 92 * 2**20,
            "verdicts": {"fp32": WAS_RIGHT, "keep": UNPROVEN, "out": UNSUPPORTED, "amp": "wrong: far"},
        },
        ROW | {"model": "three", "failed": "it fell"},
    ]
    assert "that compile nothing; left out" in foreign(rows).caption
    rows[1]["compiled"] = {"commit": None}
    table = foreign(rows)
    assert "that compile nothing, and of 1 models those that compile; left out" in table.caption
    assert "3 models" in table.caption
    assert "1 of 2 agree to 3%; the widest is 8.0% apart" in table.caption
    text = table.markdown()
    assert "1 of 3 verdicts on 1 models are wrong or none" in table.caption
    assert "| 101.0 | 100.0 | +1.0% | not tried | - | - | - | - | theirs 1.0 |" in text
    assert "| 92.0 | 100.0 | -8.0% | 3 | 1 | 1 | 1 | amp: wrong: far | theirs 1.0 |" in text
    assert "| - | - | - | - | - | - | - | - | it fell |" in text


def test_a_table_without_times_has_no_columns_for_them() -> None:
    case = Case("transformer", "torch", "train", "fp32", 4, "tiny")
    for times, shown in (({}, False), ({"step_s": [0.1]}, True)):
        found = record(case, peaks={"host.rss": 2**20}, **times, **RIGHT)
        told = beside([found])
        heads = table(with_libraries(frame(found), told), {}, told).head
        assert ("step ms" in heads, "verified" in heads) == (shown, True)


def test_the_page_counts_the_compiled_models_that_are_wrong() -> None:
    rows = json.loads((ROOT / "results/study/foreign_models.json").read_text())["rows"]
    compiled = [row["verdicts"] for row in rows if "compiled" in row]
    wrong = [of["memory_budget"] for of in compiled if of["memory_budget"].startswith("wrong")]
    assert all("dropout has another mask in the backward pass" in verdict for verdict in wrong)
    page = " ".join((ROOT / "docs/try.md").read_text().split())
    assert f"Of {len(compiled)} models {len(wrong)} are wrong under `memory_budget`" in page
    others = {row["model"]: row["verdicts"]["compile"] for row in rows if "compiled" in row}
    assert "InductorError" in others.pop("timm_sequencer")
    assert {*others.values()} <= {WAS_RIGHT, UNPROVEN}
    zero = {row["model"] for row in rows if row["verdicts"].get("amp_bf16+checkpoint+compile", "").startswith("wrong")}
    assert zero == {"diffusers_unet", "tv_lraspp"}


@pytest.mark.all_cells
def test_a_compiled_step_in_bfloat16_loses_gradients(environment: dict[str, Environment]) -> None:
    """As docs/try.md says. Once a release repairs it, the page and the table want another look."""
    norms = run_inside(environment["torch"], Path(__file__).parent / "programs/lost_gradients.py")
    assert isinstance(norms, dict)
    assert norms["eager"] > 0.1
    assert norms["compiled"] == 0
