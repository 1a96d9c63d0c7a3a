"""How far a verified value may be off: a small multiple of what right computations were off by, as measured.

`models/<workload>/honest.json` has the errors of supported cases against float64, the largest of each family of tensors, by
machine and framework; `framebench dev rounding` measures them and adds the machine that it runs on. Where a key was not
measured (a size without float64 values), the nearest that were stand in for it.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from framebench.models import spec
from framebench.suite.case import Case
from framebench.suite.tensors import family

MULTIPLE = 4.0
# Rounding errors are taken to be at least so large, a fraction of the roundoff: what was close by luck is no measure.
LEAST = {
    "fp32": 2.0**-22, "bf16 moment": 2.0**-22, "8-bit moments": 2.0**-22, "tf32": 2.0**-15, "fp16": 2.0**-15, "bf16": 2.0**-12,
    "int8 weights": 2.0**-12, "int8": 2.0**-12,
}  # fmt: skip
# Of a weight's change beside the textbook's: in float32 whatever the activations are, by kernels that may approximate a root.
LEAST_OF_UPDATE = 2.0**-14
# Sums over all positions of a batch, buffers as the means and variances of batch norms. What was measured adds up in parts; a
# framework that adds one term after the other is not wrong: as JAX 0.9.2 does in places, and PyTorch over channels-last images.
SUMS = ("gradient", "momentum", "first moment", "second moment", "weight", "value", "buffer")
# Where the input of a single ReLU lies so near to zero that rounding decides its sign, one channel's gradient is another. What
# is so many times as far off as the median of the keys that share tolerances, and by so much, is taken for that: it widens the
# tolerance of its own key alone.
OUTLIER, BRANCH = 30.0, 1e-2
# Not measured on any machine, and so taken from a precision that rounds more coarsely.
COARSER = {"tf32": "fp16", "fp16": "bf16"}

Pair = tuple[float, float]  # error of the norm, error of the projections
Errors = dict[str, dict[str, Pair]]  # kind -> family -> errors


def path(workload: str) -> Path:
    return spec.workload(workload).folder / "honest.json"


@cache
def machines(workload: str) -> dict[str, Any]:
    """What each machine measured, by its name; empty where nothing was measured yet."""
    file = path(workload)
    return json.loads(file.read_text())["machines"] if file.exists() else {}


@cache
def measured(workload: str, precision: str) -> Mapping[str, Mapping[str, Errors]]:
    """Framework -> golden key -> errors, the largest over machines."""
    errors_by_framework: dict[str, dict[str, Errors]] = {}
    for machine in machines(workload).values():
        for framework, precisions in machine["errors"].items():
            for key, errors in precisions.get(precision, {}).items():
                before = errors_by_framework.setdefault(framework, {}).get(key, {})
                errors_by_framework[framework][key] = joined([before, errors])
    return errors_by_framework


def joined(several: Iterable[Errors]) -> Errors:
    """The largest errors of each family."""
    most: Errors = {}
    for errors in several:
        for kind, families in errors.items():
            largest_of_kind = most.setdefault(kind, {})
            for name, pair in families.items():
                largest_of_kind[name] = larger(largest_of_kind.get(name, (0.0, 0.0)), pair)
    return most


def larger(one: Pair, other: Pair) -> Pair:
    return max(one[0], other[0]), max(one[1], other[1])


@cache
def group(key: str) -> tuple[str, str, tuple[str, ...]]:
    """What shares tolerances, whatever batch and variant are: size, scenario, micro-batches where they matter (`m4`), and an
    optimizer in the place of the workload's: Adafactor makes a gradient that is rounding alone, as of the biases of keys, as
    large as any other."""
    size, scenario, *rest = key.split("/")
    return size, scenario, tuple(part for part in rest if re.fullmatch(r"m\d+|adafactor", part))


@cache
def nearest(workload: str, framework: str, precision: str, key: str) -> Errors:
    """The largest over the keys of this group; where none was measured, over those of other sizes, all of the scenario, all.
    What is usual for none of them (`OUTLIER`) counts for the key that has it."""
    errors_by_key = measured(workload, precision).get(framework, {})
    size, scenario, apart = group(key)
    same = {k for k in errors_by_key if group(k)[1] == scenario}
    alike = {k for k in same if group(k)[2] == apart}
    for keys in ({k for k in alike if group(k)[0] == size}, alike, same, set(errors_by_key)):
        if keys:
            return joined([widest(workload, framework, precision, frozenset(keys)), errors_by_key.get(key, {})])
    return {}


@cache
def widest(workload: str, framework: str, precision: str, keys: frozenset[str]) -> Errors:
    errors_by_key = measured(workload, precision)[framework]
    return joined(usual([errors_by_key[key] for key in sorted(keys)]))


def usual(several: list[Errors]) -> list[Errors]:
    """Without what a single branch of a ReLU explains."""
    limits = {
        (kind, name): max(OUTLIER * statistics.median(max(e[kind][name]) for e in several if name in e.get(kind, {})), BRANCH)
        for kind, families in joined(several).items()
        for name in families
    }
    return [
        {k: {n: pair for n, pair in families.items() if max(pair) <= limits[k, n]} for k, families in errors.items()}
        for errors in several
    ]


@cache
def rounding_errors(workload: str, framework: str, precision: str, key: str) -> Errors:
    """The framework's own errors, or the middle one of all frameworks' where that is larger: one may be close by luck. Where it
    was not measured itself, the largest of those that were. What was not measured in this precision is taken from one that
    rounds more coarsely, and so is what was off by nothing at all: an evaluation's buffers, which stay, say nothing of
    training."""
    frameworks = measured(workload, precision)
    every = {f: nearest(workload, f, precision, key) for f in frameworks}
    here = {f: every[f] for f, errors_by_key in frameworks.items() if any(group(k) == group(key) for k in errors_by_key)}
    others = middle(list(every.values())) if framework in here or not here else joined(here.values())
    joined_errors = joined([nearest(workload, framework, precision, key), others])
    if precision not in COARSER:
        return joined_errors
    coarser = rounding_errors(workload, framework, COARSER[precision], key)
    moved = {kind: {name: pair for name, pair in each.items() if any(pair)} for kind, each in joined_errors.items()}
    return {kind: coarser.get(kind, {}) | moved.get(kind, {}) for kind in (*coarser, *moved)}


@cache
def one_by_one(workload: str, key: str) -> float:
    """By how much float32 may be off if it adds up one term after the other, relative to the sum: each partial sum is rounded,
    and they grow as a random walk does. There are as many terms as samples times pixels, voxels or tokens."""
    size, batch = key.split("/")[0], int(re.findall(r"/b(\d+)", key)[0])
    shape = spec.workload(workload).input_shape(size, batch)
    features = 1
    if len(shape) > 2:  # of a user's input it is not known which axis has them
        features = min(shape[1:]) if workload == spec.OWN else shape[1]
    terms = math.prod(shape) // features
    return 2.0**-24 * math.sqrt(terms / 2)


def middle(every: list[Errors]) -> Errors:
    """Of two the larger."""
    middle_errors: Errors = {}
    for kind, families in joined(every).items():
        for name in families:
            pairs = [errors[kind][name] for errors in every if name in errors.get(kind, {})]
            norms, projections = (sorted(each) for each in zip(*pairs))
            middle_errors.setdefault(kind, {})[name] = norms[len(norms) // 2], projections[len(projections) // 2]
    return middle_errors


def unverifiable(case: Case) -> str | None:
    """Why nothing tells whether a combination comes out right, if so: a strategy changes the mathematics, and together with the
    others its values were never computed, or how far they round was never measured."""
    plan, key = case.plan, case.golden_key
    if len(plan.parts) == 1 or case.workload == spec.OWN or case.size in case.spec.without_golden:
        return None
    together = plan.name.replace("+", " and ")
    if key not in case.spec.golden:
        return f"golden.json has no values for {together} together ({key})"
    precisions = [plan.precision]
    while precisions[-1] in COARSER:
        precisions.append(COARSER[precisions[-1]])
    measured_keys = [keys for precision in precisions for keys in measured(case.workload, precision).values()]
    if plan.same_loss or any(key in keys for keys in measured_keys):
        return None
    return f"the rounding of {plan.precision} was never measured for {together} together ({key})"


def tolerance(workload: str, framework: str, precision: str, key: str, kind: str, name: str) -> Pair:
    """Of the norm and of the projections of this tensor, relative to its norm; the least where nothing was measured. The norm
    may always be off by the rounding error of the projections: it, too, may have been close by luck."""
    norm, projections = rounding_errors(workload, framework, precision, key).get(kind, {}).get(family(name), (0.0, 0.0))
    least = LEAST_OF_UPDATE if kind == "update" else LEAST[precision]
    if kind in SUMS:
        least = max(least, one_by_one(workload, key))
    return max(MULTIPLE * max(norm, least), projections), MULTIPLE * max(projections, least)
