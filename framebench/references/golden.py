"""Compute reference values in float64: PyTorch makes them, JAX confirms them.

`framebench dev golden` writes them to golden.json and tensors.json.gz. If a workload is written for
only one of the two, or a strategy is there in only one, an option takes the values of that one, and
the file says so.

A key of training holds the loss before any update, the loss after one, and the gradient norm; a key
of evaluation holds the loss and the norm of the logits. Both hold the norm and projections of every
tensor (`suite/tensors.py`). Where micro-batches change the mathematics (batch norm), they have
values of their own. Computed values are cached until the models change, so that an interrupted run
resumes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.models.spec import load_workload
from framebench.records import store
from framebench.records.lines import BadRecord, parse_json, read_lines
from framebench.records.pins import find_pinned_version
from framebench.records.provenance import PACKAGE
from framebench.suite.profiles import list_cases
from framebench.suite.tensors import NORM, measure_max_error

MAKERS = ("torch", "jax")  # the first makes the values, the second confirms them
AGREEMENT = 1e-7  # between two independent float64 implementations, relative
DIGITS = 12
# A gradient of less than this share of the largest one is rounding. In float64 rounding is far
# smaller, and the smallest gradient of these workloads is far larger.
NOTHING = 1e-10

Tensors = dict[str, dict[str, tuple[float, ...]]]  # by kind and name: the norm, then projections


class GoldenValues(TypedDict):
    """The values of one golden key, as the worker prints them."""

    values: dict[str, float]
    tensors: Tensors


References = dict[str, GoldenValues]  # by golden key
Head = dict[str, str | dict[str, str] | None]  # what golden.json says of its values


def compute_references(
    name: str,
    environment: Environment,
    sizes: Collection[str],
    excluded_keys: Collection[str] = (),
) -> References:
    """Return the reference values of a workload by key, computed in float64.

    Raises SetupError if the computation fails.

    Args:
        name: The workload.
        environment: Its framework computes the values.
        sizes: The sizes that are computed.
        excluded_keys: Keys that are not computed.
    """
    references: References = {}
    for size in sizes:
        file = make_cache_path(name, environment, size)
        count = -1
        cached = read_cached(file)
        while len(cached) > count:  # each worker adds a few keys, until none is left
            count = len(cached)
            arguments = (name, environment.framework, size, str(file), *cached, *excluded_keys)
            environments.run_module(environment, "framebench.references.golden_worker", *arguments)
            cached = read_cached(file)
        references |= cached
    # a cached file may have keys of a strategy that is no longer there
    declared_keys = {case.golden_key for case in list_cases() if case.workload == name}
    wanted_keys = declared_keys.difference(excluded_keys)
    return {key: reference for key, reference in references.items() if key in wanted_keys}


def make_cache_path(name: str, environment: Environment, size: str) -> Path:
    """Return the file that grows by a line for each key. Its name changes with the models."""
    sources = [PACKAGE / "suite/tensors.py"]
    for folder in (load_workload(name).folder, PACKAGE / "models"):
        sources += sorted(folder.glob("*.py"))
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    folder = environments.cache() / "golden"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}-{size}-{environment.name}-{digest.hexdigest()[:12]}.jsonl"


def read_cached(file: Path) -> References:
    """Return the references in a file's lines, or none if there is no such file.

    A line that cannot be read is left out, so its references are computed again: it was cut off
    when its process was killed, or a crash of the machine damaged it.
    """
    references: References = {}
    with suppress(BadRecord):  # there is no file
        for line in read_lines(file):
            with suppress(ValueError):
                reference = parse_json(line.text)
                if isinstance(reference, dict):
                    references |= reference
    return references


def measure_difference(references: References, others: References) -> float:
    """Return the largest relative difference of any value or tensor that both have under a key.

    Raises ValueError if the names of their tensors differ.
    """
    differences = []
    for key in references.keys() & others.keys():
        reference, other = references[key], others[key]
        for name, value in other["values"].items():
            differences.append(abs(reference["values"][name] - value) / abs(value))
        tensors = flatten_tensors(reference)
        other_tensors = flatten_tensors(other)
        if tensors.keys() != other_tensors.keys():
            names = ", ".join(sorted(tensors.keys() ^ other_tensors.keys()))
            raise ValueError(f"{key}: {names} in one of the frameworks only")
        for name, summary in tensors.items():
            differences.append(measure_max_error(summary, other_tensors[name]))
    return max(differences, default=0.0)


def flatten_tensors(reference: GoldenValues) -> dict[str, tuple[float, ...]]:
    """Return the summary of each tensor by a name such as `gradient of fc.bias`."""
    summaries = {}
    for kind, tensors in reference["tensors"].items():
        for name, summary in tensors.items():
            summaries[f"{kind} of {name}"] = summary
    return summaries


def write_references(
    name: str,
    by_framework: Mapping[str, References],
    existing_keys: Collection[str] = (),
    unconfirmed: bool = False,
) -> Path:
    """Write the values of all keys, or of new ones in addition to the existing keys.

    Returns the file of the values.

    The first framework makes the values, and the second one confirms them. With `unconfirmed`, what
    only one of them has values for is written too, and the file says whose values they are.

    Raises ValueError, and writes nothing, if the two disagree, since one of them is then wrong; if
    there is a key that nobody confirms, and that is not allowed; or if there is a tensor that the
    loss does not depend on.
    """
    maker, *others = by_framework
    computed = by_framework[maker]
    if not others:
        header: Head = {"made_by": describe_maker(maker), "confirmed_by": None}
        return write_files(name, header, computed, existing_keys)
    (confirmer,) = others
    confirmed = by_framework[confirmer]
    makers = {}  # of the keys that one framework alone has values for
    for framework, references in by_framework.items():
        for key in references:
            if key not in computed or key not in confirmed:
                makers[key] = describe_maker(framework)
    if makers and not unconfirmed:
        raise ValueError(
            f"{name}: only one framework has values for {', '.join(sorted(makers))}; "
            "--unconfirmed takes them, and every record then says so"
        )
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
        makers = existing.get("unconfirmed", {}) | makers
    header = {
        "made_by": describe_maker(maker),
        "confirmed_by": describe_maker(confirmer),
        "largest_difference": f"{difference:.0e}",
    }
    if makers:
        header["unconfirmed"] = dict(sorted(makers.items()))
    return write_files(name, header, confirmed | computed, existing_keys)


def describe_maker(framework: str) -> str:
    """Return the maker of a framework's golden values: framework, version and precision."""
    return f"{framework} {find_pinned_version(framework)}, float64"


def find_rounding(references: References) -> list[str]:
    """Return the tensors whose gradient is zero but for rounding.

    A bias that a norm subtracts is one. No two computations agree on such a gradient.
    """
    names: list[str] = []
    for reference in references.values():
        gradients = reference["tensors"].get("gradient", {})
        largest = max((summary[NORM] for summary in gradients.values()), default=0.0)
        for name, (norm, *_) in gradients.items():
            if 0 < norm < NOTHING * largest and name not in names:
                names.append(name)
    return names


def write_files(
    name: str, head: Head, computed: References, existing_keys: Collection[str]
) -> Path:
    """Write golden.json and tensors.json.gz, and return the former.

    Raises ValueError if there is a tensor that the loss does not depend on.
    """
    undetermined = find_rounding(computed)
    if undetermined:
        raise ValueError(
            f"{name}: the loss does not depend on {', '.join(undetermined)}: its gradient is "
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
    store.replace_text(json.dumps({**head, "values": values}, indent=1) + "\n", path)
    packed = gzip.compress(json.dumps(tensors, separators=(",", ":")).encode(), 9, mtime=0)
    (path.parent / "tensors.json.gz").write_bytes(packed)
    return path


def shorten_tensors(tensors: Tensors) -> Tensors:
    """Return tensors with their numbers rounded to DIGITS, which two frameworks agree on."""
    shortened: Tensors = {}
    for kind, summaries in tensors.items():
        shortened[kind] = {}
        for name, summary in summaries.items():
            shortened[kind][name] = tuple(float(f"{number:.{DIGITS}g}") for number in summary)
    return shortened
