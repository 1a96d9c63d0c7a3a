"""Reference values in float64: torch makes them, JAX confirms them. `framebench dev golden` writes them to golden.json and
tensors.json.gz. Where a workload is written for one of the two alone, its values are taken if that is asked for, and say so.

Each key holds the loss before any update, the loss after one, the gradient norm, and for evaluation the loss and the norm
of the logits; and of every tensor its norm and projections (`suite/tensors.py`). Where micro-batches change the mathematics
(batch norm), they have values of their own. What was computed is kept in the cache until the models change: an interrupted run
goes on.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.models.spec import workload
from framebench.records.pins import pinned_version
from framebench.records.provenance import PACKAGE
from framebench.suite.tensors import errors

MAKERS = ("torch", "jax")
AGREEMENT = 1e-7  # between two independent float64 implementations, relative
DIGITS = 12
NOTHING = 1e-10  # of the largest gradient: in float64 far more than rounding, and far less than the smallest of these workloads

Values = dict[str, dict[str, Any]]  # golden key -> {"values": ..., "tensors": ...}


def compute(name: str, environment: Environment, sizes: tuple[str, ...] | None = None, but: Collection[str] = ()) -> Values:
    """All values of a workload `but` those of some keys, in the framework of `environment`. Raises SetupError if it fails
    there."""
    golden_values: Values = {}
    for size in workload(name).referenced if sizes is None else sizes:
        done = kept(name, environment, size)
        before = -1
        while len(computed_values := {key: value for line in lines(done) for key, value in line.items()}) > before:
            before = len(computed_values)
            arguments = (name, environment.framework, size, str(done), *computed_values, *but)
            environments.run_module(environment, "framebench.references.golden_worker", *arguments)
        golden_values |= {key: value for key, value in computed_values.items() if key not in but}
    return golden_values


def kept(name: str, environment: Environment, size: str) -> Path:
    """The file that grows by a line for each key."""
    sources = [*sorted(workload(name).folder.glob("*.py")), *sorted((PACKAGE / "models").glob("*.py"))]
    sources.append(PACKAGE / "suite/tensors.py")
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:12]
    file = environments.cache() / "golden" / f"{name}-{size}-{environment.name}-{digest}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def lines(file: Path) -> Iterator[Values]:
    """Whole lines; one that was cut off is left out."""
    for line in file.read_text().splitlines(keepends=True) if file.exists() else ():
        if line.endswith("\n"):
            yield json.loads(line)


def difference(one: Values, other: Values) -> float:
    """The largest relative difference of any value or tensor of keys that both have. Raises ValueError for other tensors."""
    return max(largest(key, one[key], other[key]) for key in one if key in other)


def largest(key: str, one: dict[str, Any], other: dict[str, Any]) -> float:
    values = [abs(one["values"][name] - value) / abs(value) for name, value in other["values"].items()]
    for kind in one["tensors"].keys() | other["tensors"].keys():
        here, there = (side["tensors"].get(kind, {}) for side in (one, other))
        if here.keys() != there.keys():
            raise ValueError(f"{key}: {kind} of {', '.join(sorted(here.keys() ^ there.keys()))} in one of the frameworks only")
        values += [max(errors(here[name], there[name])) for name in here]
    return max(values)


def write(name: str, made: Values, confirmed: Values, beside: Collection[str] = ()) -> Path:
    """The values of all keys, or those of new ones `beside` the keys that are there. Raises ValueError if the two
    implementations disagree: then one of them is wrong, and nothing is written."""
    if made.keys() != confirmed.keys():
        raise ValueError(f"{name}: only one framework has values for {', '.join(sorted(made.keys() ^ confirmed.keys()))}")
    if (off := difference(made, confirmed)) > AGREEMENT:
        raise ValueError(f"{name}: torch and JAX differ by {off:.1e} in float64; one model is wrong")
    if beside:
        before = json.loads((workload(name).folder / "golden.json").read_text())
        if before.get("confirmed_by", "") is None:
            raise ValueError(f"{name}: the values that are there are confirmed by nobody; without --missing all are made anew")
        off = max(off, float(before["largest_difference"]))
    by = {who: made_by(framework) for who, framework in zip(("made_by", "confirmed_by"), MAKERS)}
    return put(name, by | {"largest_difference": f"{off:.0e}"}, made, beside)


def write_unconfirmed(name: str, framework: str, made: Values, beside: Collection[str] = ()) -> Path:
    """The values of a single implementation. Records that are verified against them say so. Raises ValueError as `put` does."""
    return put(name, {"made_by": made_by(framework), "confirmed_by": None}, made, beside)


def made_by(framework: str) -> str:
    return f"{framework} {pinned_version(framework)}, float64"


def rounding_alone(made: Values) -> list[str]:
    """Tensors whose gradient is zero but for rounding, as of a bias that a norm subtracts: no two computations agree on it."""
    tensor_names: dict[str, None] = {}
    for gradients in (each["tensors"].get("gradient", {}) for each in made.values()):
        largest = max((norm for norm, *_ in gradients.values()), default=0.0)
        tensor_names |= {name: None for name, (norm, *_) in gradients.items() if 0 < norm < NOTHING * largest}
    return list(tensor_names)


def put(name: str, head: Mapping[str, str | None], made: Values, beside: Collection[str]) -> Path:
    """Raises ValueError where there is a tensor that the loss does not depend on."""
    if vain := rounding_alone(made):
        others = f" and {len(vain) - 1} more" if len(vain) > 1 else ""
        raise ValueError(
            f"{name}: the loss does not depend on {vain[0]}{others}: its gradient is rounding, to which any result is right; "
            "leave it out of the model"
        )
    path = workload(name).folder / "golden.json"
    values = {key: workload(name).golden[key] for key in beside} | {key: entry["values"] for key, entry in made.items()}
    path.write_text(json.dumps({**head, "values": values}, indent=1) + "\n")
    tensors: dict[str, Any] = {key: workload(name).golden_tensors[key] for key in beside}
    tensors |= {key: _shortened(entry["tensors"]) for key, entry in made.items()}
    (path.parent / "tensors.json.gz").write_bytes(
        gzip.compress(json.dumps(tensors, separators=(",", ":")).encode(), 9, mtime=0)
    )
    return path


def _shortened(tensors: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, list[float]]]:
    """Projections to DIGITS places after the norm's first: what is far smaller than the norm needs no digits of its own."""
    return {
        kind: {
            name: [float(f"{n:.{DIGITS}g}") if n == s[0] else _round_to(n, s[0]) for n in s] for name, s in projections.items()
        }
        for kind, projections in tensors.items()
    }


def _round_to(number: float, norm: float) -> float:
    unit = norm * 10.0**-DIGITS
    return float(f"{round(number / unit) * unit:.{DIGITS}g}") if unit else number
