"""Reference values in float64: PyTorch makes them, JAX confirms them.

`framebench dev golden` writes them to golden.json and tensors.json.gz. If a workload is written for
one of the two alone, its values are taken if that is asked for, and the file says so.

Each key holds the loss before any update, the loss after one, the gradient norm, and for evaluation
the loss and the norm of the logits; and of every tensor its norm and projections
(`suite/tensors.py`). Where micro-batches change the mathematics (batch norm), they have values of
their own. What was computed is cached until the models change, so that an interrupted run resumes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypedDict

from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.models.spec import load_workload
from framebench.records.pins import find_pinned_version
from framebench.records.provenance import PACKAGE
from framebench.suite.tensors import measure_errors

MAKERS = ("torch", "jax")
AGREEMENT = 1e-7  # between two independent float64 implementations, relative
DIGITS = 12
# of the largest gradient: in float64 far more than rounding, and far less than the smallest of
# these workloads
NOTHING = 1e-10

Tensors = dict[str, dict[str, tuple[float, ...]]]  # by kind and name: the norm, then projections


class GoldenValues(TypedDict):
    """The values of one golden key, as the worker prints them."""

    values: dict[str, float]
    tensors: Tensors


References = dict[str, GoldenValues]  # by golden key


def compute_references(
    name: str,
    environment: Environment,
    sizes: tuple[str, ...] | None = None,
    excluded_keys: Collection[str] = (),
) -> References:
    """Return the reference values of a workload by key, computed in float64.

    Raises SetupError if the computation fails.

    Args:
        name: The workload.
        environment: Its framework computes the values.
        sizes: The sizes that are computed; by default all that have references.
        excluded_keys: Keys that are not computed.
    """
    references: References = {}
    for size in load_workload(name).referenced if sizes is None else sizes:
        file = make_cache_path(name, environment, size)
        cached = read_cached(file)
        while True:  # a worker makes a few keys, until none is left
            count = len(cached)
            arguments = (name, environment.framework, size, str(file), *cached, *excluded_keys)
            environments.run_module(environment, "framebench.references.golden_worker", *arguments)
            cached = read_cached(file)
            if len(cached) == count:
                break
        for key, reference in cached.items():
            if key not in excluded_keys:
                references[key] = reference
    return references


def make_cache_path(name: str, environment: Environment, size: str) -> Path:
    """Return the file that grows by a line for each key. Its name changes with the models."""
    sources = [
        *sorted(load_workload(name).folder.glob("*.py")),
        *sorted((PACKAGE / "models").glob("*.py")),
    ]
    sources.append(PACKAGE / "suite/tensors.py")
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:12]
    file = environments.cache() / "golden" / f"{name}-{size}-{environment.name}-{digest}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def read_cached(file: Path) -> References:
    """Return what the whole lines of a file hold; one that was cut off is left out."""
    references: References = {}
    if file.exists():
        for line in file.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                references |= json.loads(line)
    return references


def measure_difference(one: References, other: References) -> float:
    """Return the largest relative difference of any value or tensor of keys that both have.

    Raises ValueError if the names of their tensors differ.
    """
    return max(compare_references(key, one[key], other[key]) for key in one if key in other)


def compare_references(key: str, one: GoldenValues, other: GoldenValues) -> float:
    """Return the largest relative difference of two frameworks' values of one key.

    Raises ValueError if the names of their tensors differ.
    """
    differences = []
    for name, value in other["values"].items():
        differences.append(abs(one["values"][name] - value) / abs(value))
    for kind in one["tensors"].keys() | other["tensors"].keys():
        tensors = one["tensors"].get(kind, {})
        other_tensors = other["tensors"].get(kind, {})
        if tensors.keys() != other_tensors.keys():
            names = ", ".join(sorted(tensors.keys() ^ other_tensors.keys()))
            raise ValueError(f"{key}: {kind} of {names} in one of the frameworks only")
        for name in tensors:
            differences.append(max(measure_errors(tensors[name], other_tensors[name])))
    return max(differences)


def write_confirmed(
    name: str, computed: References, confirmed: References, existing_keys: Collection[str] = ()
) -> Path:
    """Write the values of all keys, or of new ones in addition to the existing keys.

    Raises ValueError if the two implementations disagree: then one of them is wrong, and nothing is
    written.
    """
    if computed.keys() != confirmed.keys():
        keys = ", ".join(sorted(computed.keys() ^ confirmed.keys()))
        raise ValueError(f"{name}: only one framework has values for {keys}")
    difference = measure_difference(computed, confirmed)
    if difference > AGREEMENT:
        raise ValueError(
            f"{name}: torch and JAX differ by {difference:.1e} in float64; one model is wrong"
        )
    if existing_keys:
        existing = json.loads((load_workload(name).folder / "golden.json").read_text())
        if existing.get("confirmed_by", "") is None:
            raise ValueError(
                f"{name}: the values that are there are confirmed by nobody; "
                "without --missing all are computed again"
            )
        difference = max(difference, float(existing["largest_difference"]))
    maker, confirmer = MAKERS
    head = {
        "made_by": describe_maker(maker),
        "confirmed_by": describe_maker(confirmer),
        "largest_difference": f"{difference:.0e}",
    }
    return write_files(name, head, computed, existing_keys)


def write_unconfirmed(
    name: str, framework: str, computed: References, existing_keys: Collection[str] = ()
) -> Path:
    """Write the values of a single implementation. Records that are verified against them say so.

    Raises ValueError like `write_files`.
    """
    head = {"made_by": describe_maker(framework), "confirmed_by": None}
    return write_files(name, head, computed, existing_keys)


def describe_maker(framework: str) -> str:
    """Return framework, version and precision of the values, for the file."""
    return f"{framework} {find_pinned_version(framework)}, float64"


def find_rounding(references: References) -> list[str]:
    """Return the tensors whose gradient is zero but for rounding, as of a bias that a norm
    subtracts.

    No two computations agree on such a gradient.
    """
    names: list[str] = []
    for reference in references.values():
        norms = {
            name: projections[0]
            for name, projections in reference["tensors"].get("gradient", {}).items()
        }
        largest = max(norms.values(), default=0.0)
        for name, norm in norms.items():
            if 0 < norm < NOTHING * largest and name not in names:
                names.append(name)
    return names


def write_files(
    name: str, head: Mapping[str, str | None], computed: References, existing_keys: Collection[str]
) -> Path:
    """Write golden.json and tensors.json.gz, and return the former.

    Raises ValueError if there is a tensor that the loss does not depend on.
    """
    undetermined = find_rounding(computed)
    if undetermined:
        others = f" and {len(undetermined) - 1} more" if len(undetermined) > 1 else ""
        raise ValueError(
            f"{name}: the loss does not depend on {undetermined[0]}{others}: its gradient is "
            "rounding, to which any result is right; leave it out of the model"
        )
    workload = load_workload(name)
    values = {}
    tensors: dict[str, Tensors] = {}
    for key in existing_keys:
        values[key] = workload.golden[key]
        tensors[key] = workload.golden_tensors[key]
    for key, reference in computed.items():
        values[key] = reference["values"]
        tensors[key] = shorten_tensors(reference["tensors"])
    path = workload.folder / "golden.json"
    path.write_text(json.dumps({**head, "values": values}, indent=1) + "\n")
    packed = gzip.compress(json.dumps(tensors, separators=(",", ":")).encode(), 9, mtime=0)
    (path.parent / "tensors.json.gz").write_bytes(packed)
    return path


def shorten_tensors(tensors: Tensors) -> Tensors:
    """Return tensors with as many digits as their norms have."""
    shortened: Tensors = {}
    for kind, tensors_of_kind in tensors.items():
        shortened[kind] = {
            name: shorten(projections) for name, projections in tensors_of_kind.items()
        }
    return shortened


def shorten(projections: tuple[float, ...]) -> tuple[float, ...]:
    """Return projections to DIGITS places after the norm's first.

    A number that is far smaller than the norm needs no digits of its own.
    """
    norm = projections[0]
    unit = norm * 10.0**-DIGITS
    shortened = []
    for number in projections:
        if unit and number != norm:
            number = round(number / unit) * unit
        shortened.append(float(f"{number:.{DIGITS}g}") if norm else number)
    return tuple(shortened)
