"""Records of claims by hand, and the verdict on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from framebench.analysis.results import Results
from framebench.claims import measure as claim_programs
from framebench.claims.claim import Advice, Claim
from framebench.claims.ledger import Entry, make_entry
from framebench.claims.plans import Plan
from framebench.claims.probed_record import Probed
from framebench.claims.registry import REGISTRY
from framebench.claims.rows import make_measurements
from framebench.claims.store import MachineResults
from framebench.records import store
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from tests.devices.fake_predictions import make_interval
from tests.fake_records import RIGHT, make_blocks, provenance, record
from tests.record_files import add_records

MIB = 2**20
GPU = {"cpu": "x", "device": "NVIDIA H200"}
# what the made-up claim compares, in PyTorch's Transformer if a test names no other
COMPARISON: dict[str, Any] = {
    "candidate": "train/compile",
    "base": "train/fp32",
    "frameworks": ["torch"],
    "workloads": ["transformer"],
    "expect": "less",
}
EAGER, COMPILED = (f"transformer/torch/train/{name}/b4/tiny" for name in ("fp32", "compile"))


def make_claim(*comparisons: dict[str, Any], **fields: Any) -> Claim:
    """Return a claim of these tests alone, by what each comparison changes of `COMPARISON`."""
    deciding = []
    for changes in comparisons or ({},):
        deciding += make_measurements(**(COMPARISON | changes))
    made = {
        "id": "T1",
        "says": "It needs less.",
        "claimed": "less",
        "metric": "peak, compiled / eager",
        "transfers_to_gpu": True,
        "why": "it is",
        "advice": (Advice("Compile: {range}.", "less"), Advice("Do not: {range}.", "more")),
        "deciding": tuple(deciding),
    }
    return Claim(**(made | fields))


def add_record(
    results: Path, case_id: str, peak: float = 100, minute: int = 0, **changes: Any
) -> None:
    """Add a record of a case with this peak in MiB; twice as much is reserved."""
    case = parse(case_id)
    version = {"torch": "2.13.0", "jax": "0.10.2", "jittor": "1.3.11.0"}[case.framework]
    version = changes.pop("version", version)
    instrument = changes.pop("instrument", "allocator.in_use")
    peaks = {instrument: int(peak * MIB), "allocator.reserved": int(2 * peak * MIB)}
    peaks = changes.pop("peaks", peaks)
    measured_at = provenance().measured_at.replace(minute=minute)
    origin = {"versions": {case.framework: version}, "measured_at": measured_at}
    fields = {
        "peaks": peaks,
        "peak_samples": [peaks],
        "live_bytes": 10 * MIB,
        "step_s": [1.0] * 20,
        "provenance": provenance(**(origin | changes.pop("origin", {}))),
    }
    made = record(case, **(RIGHT | fields | changes))
    add_records(results, made)


def add_both(results: Path, peak: float, workload: str = "transformer", **changes: Any) -> None:
    """Add records of an eager step of 100 MiB, and of a compiled one with this peak."""
    add_record(results, f"{workload}/torch/train/fp32/b4/tiny", 100, **changes)
    add_record(results, f"{workload}/torch/train/compile/b4/tiny", peak, **changes)


def add_blocks(results: Path, ratios: Sequence[float]) -> None:
    """Add blocks in which the compiled step takes so many times the eager one's seconds."""
    eager = []  # seconds of each step, by block
    compiled = []
    for block, ratio in enumerate(ratios):
        seconds = 1.0 + 0.001 * (block % 3)  # blocks differ a little, as measured ones do
        eager.append([seconds] * 8)
        compiled.append([ratio * seconds] * 8)
    add_records(results, *make_blocks([(parse(EAGER), eager), (parse(COMPILED), compiled)]))


def put_numbers(
    results: Path,
    name: str,
    minute: int = 0,
    machine: str = "m",
    bfloat16: Sequence[str] = (),
    **fields: Any,
) -> None:
    """Add the result of a program on a machine, whose processor has instructions for bfloat16."""
    measured_at = provenance().measured_at.replace(minute=minute)
    printed_on = provenance(
        measured_at=measured_at, machine=machine, hardware={"bfloat16": list(bfloat16)}
    )
    made = Probed(probe=name, provenance=printed_on, **fields)
    store.append(made, claim_programs.find_file(results, machine))


def judge_claim(
    results: Path,
    claim: str | Claim,
    plans: dict[str, Plan] | None = None,
    machine: str = "m",
    size: str = "tiny",
) -> Entry:
    """Return the claim, or its first part, as measured on a machine."""
    chosen = REGISTRY.select([claim])[0] if isinstance(claim, str) else claim
    here = MachineResults(Results(results), machine)
    here.plans = plans or {}
    return make_entry(chosen, here, size)


def make_plans(results: Path, **peaks: int) -> dict[str, Plan]:
    """Return plans of the Transformer's training at full size, in bytes, with an error of 1 %."""
    plans = {}
    for strategy, peak in peaks.items():
        case = Case("transformer", "torch", "train", strategy, 8, "full")
        plans[case.id] = Plan(results / "plans.jsonl", make_interval(-0.01, 0.01), peak, 0, peak)
    return plans
