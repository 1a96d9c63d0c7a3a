"""Records of claims by hand, and the verdict on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from framebench.analysis.results import Results
from framebench.claims import measure as claim_probes
from framebench.claims.claim import Advice, Claim, Measurement
from framebench.claims.entries import Entry
from framebench.claims.ledger import make_entry
from framebench.claims.needs import Needs
from framebench.claims.probed_record import Probed
from framebench.claims.registry import REGISTRY
from framebench.claims.rows import EXPECTED, make_measurements
from framebench.claims.rule import Target
from framebench.claims.store import MachineResults
from framebench.records import store
from framebench.records.record import Rank
from framebench.suite.result import StrategyEffect, Verification
from framebench.suite.selectors import parse
from tests.fake_records import blocks, provenance, record
from tests.record_files import list_files

MIB = 2**20
ADVICE = (Advice("Compile: {range}.", "less"), Advice("Do not: {range}.", "more"))


def compiled_in_torch(*workloads: str, **fields: Any) -> tuple[Measurement, ...]:
    """Return a compiled step against an eager one in PyTorch, in these workloads or in all."""
    fields = {"candidate": "train/compile", "base": "train/fp32", "expect": "less"} | fields
    return make_measurements(workloads=workloads, frameworks=("torch",), **fields)


def made_up(
    target: Target | None = None,
    needs: Needs | None = None,
    definition: str = "",
    speed: bool = False,
) -> Claim:
    """Return a claim of these tests alone: the Transformer needs less, or is faster, when it is
    compiled.
    """
    (measurement,) = compiled_in_torch("transformer", quantity="time" if speed else "peak")
    expected = EXPECTED["faster"] if speed else target or EXPECTED["less"]
    return Claim(
        id="T1",
        says="It needs less.",
        claimed="less",
        metric="peak, compiled / eager",
        transfers_to_gpu=True,
        why="it is",
        advice=ADVICE,
        deciding=(replace(measurement, target=expected),),
        needs=needs or Needs(),
        definition=definition,
    )


def put(
    results: Path,
    case_id: str,
    peak: float = 100,
    step: float = 1.0,
    minute: int = 0,
    **changes: Any,
) -> Path:
    """A record of a case with this peak in MiB by an exact counter, in three processes' worth of
    steady seconds.
    """
    case, instrument = parse(case_id), changes.pop("instrument", "allocator.in_use")
    version = {"torch": "2.13.0", "jax": "0.10.2", "jittor": "1.3.11.0"}[case.framework]
    peaks = {instrument: int(peak * MIB), "allocator.reserved": int(peak * MIB) * 2}
    origin = provenance(versions={case.framework: changes.pop("version", version)}).model_copy(
        update={
            "measured_at": provenance().measured_at.replace(minute=minute),
            **changes.pop("origin", {}),
        }
    )
    fields: dict[str, Any] = {
        "peaks": peaks,
        "peak_samples": [peaks],
        "live_bytes": 10 * MIB,
        "step_s": [step * (1 + 0.001 * i) for i in range(20)],
        "verification": Verification(passed=True, observed={"loss_1": 2.0, "grad_norm": 1.0}),
        "effect": StrategyEffect(proven=True, evidence={}),
        "provenance": origin,
    }
    made = record(case, **{**fields, **changes})
    store.append(made, store.find_file(results, "m", f"{case.framework}-{version}"))


def one(results: Path, claim: str | Claim) -> Entry:
    """The claim, or its first part."""
    chosen = REGISTRY.chosen([claim])[0] if isinstance(claim, str) else claim
    return make_entry(chosen, MachineResults(Results(results), "m"), "tiny")


def compiled(results: Path, peak: float, **changes: Any) -> Entry:
    """The made-up claim, compiled with so many MiB and not with 100."""
    put(results, "transformer/torch/train/fp32/b4/tiny", 100)
    put(results, "transformer/torch/train/compile/b4/tiny", peak)
    return one(results, made_up(**changes))


def turns(results: Path, change: list[float], noise: float = 0.001) -> Entry:
    """Blocks in which the compiled step takes so many times the other's.

    Returns the claim about speed.
    """
    for path in list_files(results):
        path.unlink()
    cases = [
        parse(f"transformer/torch/train/{strategy}/b4/tiny") for strategy in ("fp32", "compile")
    ]
    seconds = [
        [[1 + noise * ((3 * i + b) % 5)] * 8 for b, _ in enumerate(change)] for i in range(2)
    ]
    seconds[1] = [[s * ratio for s in rounds] for ratio, rounds in zip(change, seconds[1])]
    for made in blocks(list(zip(cases, seconds))):
        good = {
            "effect": StrategyEffect(proven=True, evidence={}),
            "verification": Verification(passed=True),
        }
        store.append(made.model_copy(update=good), store.find_file(results, "m", "torch-1"))
    return one(results, made_up(speed=True))


def probe(results: Path, name: str, minute: int = 0, machine: str = "m", **fields: Any) -> None:
    """Add the result of a probe on a machine."""
    origin = provenance().model_copy(
        update={
            "measured_at": provenance().measured_at.replace(minute=minute),
            "machine": machine,
        }
    )
    store.append(
        Probed(probe=name, provenance=origin, **fields), claim_probes.find_file(results, machine)
    )


def put_ranks(
    results: Path, strategy: str, states: tuple[int, int], others: int = 100, **changes: Any
) -> None:
    """Two ranks of the Transformer that hold so many bytes."""
    ranks = [
        Rank(rank=i, peaks={}, held={"parameters": others, "optimizer states": n})
        for i, n in enumerate(states)
    ]
    framework = "jax" if strategy in ("replicated", "sharded_states") else "torch"
    put(results, f"transformer/{framework}/train/{strategy}/b4x2/tiny", ranks=ranks, **changes)
