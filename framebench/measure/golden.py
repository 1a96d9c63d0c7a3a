"""Reference values in float64: torch makes them, JAX confirms them. `framebench golden` writes golden.json.

Each key holds the loss before any update, the loss after three, the gradient norm, and for evaluation the loss and two
summaries of the logits. Where micro-batches change the mathematics (batch norm), they have values of their own.
"""

from __future__ import annotations

import json
from pathlib import Path

from framebench.measure import environments
from framebench.measure.environments import Environment
from framebench.records.pins import pinned_version
from framebench.records.provenance import ROOT

SIZES = ("tiny", "cpu")
AGREEMENT = 1e-7  # between two independent float64 implementations, relative

Values = dict[str, dict[str, float]]


def compute(name: str, environment: Environment, sizes: tuple[str, ...] = SIZES) -> Values:
    """All values of a workload, in the framework of `environment`. Raises SetupError if it fails there."""
    printed = environments.run_module(environment, "framebench.worker.golden", name, environment.framework, *sizes)
    return json.loads(printed.splitlines()[-1])


def difference(one: Values, other: Values) -> float:
    """The largest relative difference; a projection of the logits is compared to the logits' norm."""

    def relative(key: str, quantity: str) -> float:
        scale = one[key]["logits_norm" if quantity == "logits_checksum" else quantity]
        return abs(one[key][quantity] - other[key][quantity]) / abs(scale)

    return max(relative(key, quantity) for key in one for quantity in one[key])


def write(name: str, made: Values, confirmed: Values) -> Path:
    """Raises ValueError if the two implementations disagree: then one of them is wrong, and nothing is written."""
    if difference(made, confirmed) > AGREEMENT:
        raise ValueError(f"{name}: torch and JAX differ by {difference(made, confirmed):.1e} in float64; one model is wrong")
    path = ROOT / "models" / name / "golden.json"
    by = {who: f"{f} {pinned_version(f)}, float64" for who, f in (("made_by", "torch"), ("confirmed_by", "jax"))}
    path.write_text(json.dumps({**by, "values": made}, indent=1) + "\n")
    return path
