"""Predictions beside what the card itself then told, from records made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from framebench.analysis.results import Results
from framebench.devices.catalog import find
from framebench.devices.needs import INTERVALS
from framebench.devices.plans.store import read_every
from framebench.records.provenance import ROOT
from framebench.records.record import Record
from framebench.suite.selectors import parse
from studies.gpu_session import predictions
from tests.devices.fake_predictions import MIB, make_origin, make_planned
from tests.fake_records import provenance, record

TORCH, JAX = "transformer/torch/train/fp32/b8/full", "transformer/jax/train/fp32/b8/full"
SIMULATED = {
    "case": TORCH,
    "framework": "torch",
    "framework_version": "2.13.0",
    "source": "allocator.simulated",
    "parts": {"allocated": 99 * MIB},
}


def on_card(
    case: str,
    version: str,
    peaks: dict[str, int],
    name: str = "NVIDIA H100 80GB HBM3",
    **changes: Any,
) -> Record:
    told = provenance(
        hardware={"cpu": "x", "device": name},
        versions={case.split("/")[1]: version},
        gpu={"before": {"name": name, "memory_bytes": find("h100-80gb").memory_bytes}, "after": {}},
    )
    return record(parse(case), peaks=peaks, provenance=told, **changes)


@pytest.mark.parametrize(
    ("name", "gib", "device"),
    [
        ("NVIDIA H100 80GB HBM3", 79.6, "h100-80gb"),
        ("NVIDIA A100-SXM4-40GB", 40.0, "a100-40gb"),
        ("NVIDIA A100-SXM4-80GB", 80.0, "a100-80gb"),
        ("NVIDIA H200", 140.4, "h200-141gb"),
        ("NVIDIA L4", 22.5, "l4-24gb"),
        ("NVIDIA GeForce RTX 4090", 24.0, "rtx4090-24gb"),
        ("Tesla T4", 15.0, "t4-16gb"),
        ("NVIDIA L40S", 22.5, None),
        ("NVIDIA H100 NVL", 93.6, None),
        ("cpu", None, None),
    ],
)
def test_a_card_is_known_by_its_chip_and_its_memory(
    name: str, gib: float | None, device: str | None
) -> None:
    found = predictions.device_of(name, gib and int(gib * 2**30))
    assert (found and found.name) == device


def test_each_framework_is_held_against_its_own_instrument() -> None:
    records = [
        on_card(
            TORCH,
            "2.13.0+cu130",
            {
                "allocator.in_use": 90 * MIB,
                "allocator.reserved": 100 * MIB,
                "device.process": 600 * MIB,
            },
        ),
        on_card(JAX, "0.10.2", {"allocator.in_use": 10 * MIB, "compiler.plan": 11 * MIB}),
    ]
    made = predictions.table(
        records, [make_planned(**SIMULATED, peak_bytes=98 * MIB), make_planned(case=JAX)]
    )
    assert made is not None
    jax, torch = ({**dict(zip(made.head, row, strict=True))} for row in made.rows)
    assert (torch["in use, predicted"], torch["in use"], torch["error"]) == (
        "99.0",
        "90.0",
        "+10.00%",
    )
    assert (torch["reserved, predicted"], torch["reserved"], torch["error of reserved"]) == (
        "98.0",
        "100.0",
        "-2.00%",
    )
    assert torch["process"] == "600.0"
    assert (jax["in use, predicted"], jax["in use"], jax["error"]) == ("12.0", "10.0", "+20.00%")
    assert (jax["plan on the card"], jax["error of reserved"]) == ("11.0", "-")


def test_a_release_that_was_not_predicted_is_named() -> None:
    """The same release comes first, however old its prediction is."""
    record_of = [on_card(TORCH, "2.9.1", {"allocator.reserved": 100 * MIB})]
    other = make_planned(**SIMULATED, peak_bytes=98 * MIB)
    made = predictions.table(record_of, [other])
    assert made is not None
    assert made.rows[0][2:4] == ("2.9.1", "2.13.0")
    same = make_planned(**SIMULATED | {"framework_version": "2.9.1"}, peak_bytes=97 * MIB)
    both = predictions.table(record_of, [same, other])
    assert both is not None
    assert (both.rows[0][3], both.rows[0][7]) == ("2.9.1", "97.0")


def test_a_simulation_with_workspaces_stands_beside_the_first_one() -> None:
    of_card = [on_card(TORCH, "2.13.0", {"allocator.reserved": 100 * MIB})]
    asked = make_planned(
        **SIMULATED, peak_bytes=101 * MIB, origin=make_origin(versions={"cudnn": "9.20.0"})
    )
    for planned_before, first in (
        ([make_planned(**SIMULATED, peak_bytes=90 * MIB), asked], "-10.00%"),
        ([asked], "-"),
    ):
        made = predictions.table(of_card, planned_before)
        assert made is not None
        (told,) = (dict(zip(made.head, row, strict=True)) for row in made.rows)
        assert (told["error of reserved"], told["error with them"], told["in use, predicted"]) == (
            first,
            "+1.00%",
            "99.0",
        )
    assert predictions.by_workload(of_card, [asked]) is None
    errors = predictions.by_workload(
        of_card, [make_planned(**SIMULATED, peak_bytes=90 * MIB), asked]
    )
    assert errors is not None
    assert errors.rows == (
        ("h100-80gb", "transformer", "1", "10.00%", "10.00%", "1.00%", "1.00%", "1", "0"),
    )


def test_plans_on_a_card_stand_beside_those_without_it() -> None:
    peaks = {"allocator.in_use": 20 * MIB, "compiler.plan": 16 * MIB}
    untuned = (
        JAX.replace("fp32", "autotune_off").replace("transformer", "resnet50").replace("b8", "b64")
    )
    records = [
        on_card(JAX, "0.10.2", peaks),
        on_card(untuned, "0.10.2", peaks),
        on_card(JAX.replace("full", "tiny"), "0.10.2", peaks),
    ]
    made = predictions.plans(records, [make_planned(case=JAX), make_planned(**SIMULATED)])
    assert made is not None
    cells = {row[1]: row[3:] for row in made.rows}
    assert cells == {
        JAX: ("12.0", "16.0", "-25.00%", "20.0", "4.0"),
        untuned: ("-", "16.0", "-", "20.0", "4.0"),
    }
    assert predictions.plans([on_card(TORCH, "2.13.0", {"allocator.in_use": MIB})], []) is None


def test_plans_at_full_size_are_as_the_readme_says() -> None:
    """Untuned to the byte, tuned to more in float32 and to little more otherwise; peaks lie above
    plans.
    """
    root = ROOT / "results"
    measured = {
        r.case: r.peaks
        for r in Results(root).records
        if r.provenance.machine == "nvidia-h200" and "/jax/" in r.case
    }
    planned_here = {
        p.case: p.peak_bytes
        for p in read_every(root)
        if p.device == "h200-141gb" and p.framework_version == "0.11.2"
    }
    fp32, bf16, text = (
        "resnet50/jax/train/fp32/b64/full",
        "resnet50/jax/train/amp_bf16/b64/full",
        JAX.replace("fp32", "amp_bf16"),
    )
    untuned = fp32.replace("fp32", "autotune_off")
    assert (
        planned_here[fp32]
        == measured[untuned]["compiler.plan"]
        < 0.95 * measured[fp32]["compiler.plan"]
    )
    for case in (bf16, text):
        assert planned_here[case] == pytest.approx(measured[case]["compiler.plan"], rel=0.01)
    above = {
        case: measured[case]["allocator.in_use"] - measured[case]["compiler.plan"]
        for case in (fp32, untuned, bf16, text)
    }
    assert (
        above[fp32]
        == pytest.approx(above[untuned], abs=1024)
        == pytest.approx(above[bf16], abs=1024)
    )
    assert 0 < above[fp32] < 10 * MIB < above[text]


def test_jax_is_off_by_no_more_than_its_worst_row() -> None:
    """At full size."""
    results = Results(ROOT / "results")
    compared = predictions.table(results.records, read_every(ROOT / "results"))
    assert compared
    rows = [dict(zip(compared.head, row, strict=True)) for row in compared.rows]
    off = [
        float(row["error"].rstrip("%"))
        for row in rows
        if "/jax/" in row["case"] and row["case"].endswith("/full")
    ]
    assert len(off) >= 3
    assert max(map(abs, off)) / 100 < INTERVALS["jax"].high


def test_nothing_is_shown_without_a_card_or_a_prediction() -> None:
    measured = on_card(TORCH, "2.13.0", {"allocator.reserved": 100 * MIB})
    assert predictions.table([record(parse(TORCH))], [make_planned(**SIMULATED)]) is None
    assert predictions.table([measured], [make_planned(**SIMULATED, device="a100-40gb")]) is None
    assert (
        predictions.table(
            [on_card(TORCH, "2.13.0", {}, status="oom", reason="full")], [make_planned(**SIMULATED)]
        )
        is None
    )
