"""Predictions that are published."""

from __future__ import annotations

import json

from framebench.features.devices.plans.store import every
from framebench.features.ranks import sharding_tables as tables
from framebench.records.pins import pinned_version
from tests.processes import ROOT


def test_kept_predictions_are_of_their_case_and_all_in_the_table() -> None:
    files = sorted((ROOT / "results" / "predicted").glob("*.json"))
    for path in files:
        assert json.loads(path.read_text())["case"].replace("/", ".") == path.stem
    (table,) = tables.predictions(ROOT / "results")
    assert len(table.rows) == len(files)


def test_what_the_document_says_of_a_tpu_is_in_its_plans() -> None:
    """The same step for two devices: the peaks, and how often the attention's probabilities of a layer are held."""
    case = "transformer/jax/train/fp32/b8/full"
    plans = {p.device: p for p in every(ROOT / "results") if p.case == case and p.framework_version == pinned_version("jax")}
    said = [f"{(plans[name].peak_bytes or 0) / 2**20:,.0f} MiB" for name in ("tpu-v5e", "h100-80gb")]
    text = " ".join((ROOT / "docs/devices.md").read_text().split())
    assert f"planned at {said[0]} for the TPU and at {said[1]} for an H100" in text
    tpu = {p.case: p.peak_bytes or 0 for p in every(ROOT / "results") if p.device == "tpu-v5e"}
    halves = [
        tpu[f"{w}/jax/train/amp_bf16/{b}/full"] / tpu[f"{w}/jax/train/fp32/{b}/full"] - 1
        for w, b in (("resnet50", "b64"), ("transformer", "b8"))
    ]
    assert (
        f"is {-halves[0] * 100:.0f} % smaller than in float32, and the Transformer's is {halves[1] * 100:.0f} % larger" in text
    )
    (refused,) = [p for p in every(ROOT / "results") if p.device == "tpu-v5e" and p.outcome == "refused"]
    assert refused.case == "unet3d/jax/train/amp_bf16/b4/full"
    assert f"does not fit a v5e in bfloat16: its compiler asks for {(refused.needs_bytes or 0) / 2**20:,.0f} MiB." in text
    layers, whole = 12, 8 * 12 * 1024 * 1024 * 4
    held = [sum(b.bytes for b in plans[name].largest if b.bytes >= layers * whole) for name in ("tpu-v5e", "h100-80gb")]
    assert held == [layers * whole, 2 * layers * whole]
