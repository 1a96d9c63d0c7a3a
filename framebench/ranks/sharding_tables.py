"""Formulas of what one rank of several holds, beside what implementations count: docs/sharding.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from pathlib import Path

from framebench.analysis.comparison import Comparison, mib, number
from framebench.analysis.lower_bound import adjusted_bytes
from framebench.models import spec
from framebench.ranks import sharding
from framebench.ranks.prediction import Prediction
from framebench.ranks.sharding import Shapes
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case

RANKS = (1, 2, 4)
SIZES = ("cpu", "full", "full-1b")
PARTS = ("parameters", "copy of the weights", "gradients", "gradient buckets", "optimizer states")  # by a record's names
NEAR = 0.005  # a formula that is off by less needs no reason


def _shapes_of(size: str) -> Shapes:
    workload = spec.load_workload("transformer")
    return [p.shape for p in workload.params(workload.config(size)) if p.trainable]


def _formulas() -> Comparison:
    """Bytes a parameter, with no largest layer: the sources and where they disagree."""
    rows = tuple(
        (f.name, *(number(f.at(1, ranks), ",.2f") for ranks in RANKS), f"{f.whole} + {f.shared} / N", f.source)
        for f in sharding.FORMULAS
    )
    caption = (
        "Bytes of model states (weights, gradients, Adam's moments) that one of N ranks holds for each parameter. The two of "
        "DeepSpeed are its own estimators for a GPU without offloading."
    )
    head = ("formula", *(f"N = {ranks}" for ranks in RANKS), "bytes a parameter", "source")
    return Comparison.of_text("Formulas of what a rank holds", caption, head, rows, left=1)


def counted(size: str) -> Comparison:
    """Each strategy's states against the formula for it."""
    shapes = _shapes_of(size)
    parameters = sum(map(prod, shapes))
    rows = []
    for name, held in sharding.STRATEGIES.items():
        for ranks in RANKS:
            parts = held.bytes(shapes, ranks)
            formula = held.formula.at(parameters, ranks, _largest_module(size))
            off = sum(parts.values()) / formula - 1
            each = [mib(parts.get(part)) for part in PARTS]
            rows.append(
                (
                    name,
                    str(ranks),
                    *each,
                    mib(sum(parts.values())),
                    mib(formula),
                    f"{off:+.1%}",
                    held.why if abs(off) > NEAR else "",
                )
            )
    caption = (
        f"MiB (2^20 bytes) that the fullest rank holds between two steps, float32, Transformer of {parameters:,} parameters. "
        "Counted by the rule of the implementation, which tests compare with the storages of real ranks. Formula: the ZeRO "
        "paper's division in float32, for DeepSpeed's ZeRO-2 and ZeRO-3 its own estimate; JAX's gradients live inside the "
        "compiled step, and are in neither. DeepSpeed drops gradients after the update: they are those that it starts from."
    )
    head = ("strategy", "ranks", "parameters", "copy", "gradients", "buckets", "states", "in all", "formula", "off", "why")
    return Comparison.of_text(f"What a rank holds, size {size}", caption, head, tuple(rows), left=1)


def _largest_module(size: str) -> int:
    """Parameters of the largest layer as DeepSpeed's estimate has it: of a module without those inside it."""
    workload = spec.load_workload("transformer")
    modules: Counter[str] = Counter()
    for p in workload.params(workload.config(size)):
        modules[p.name.rpartition(".")[0]] += prod(p.shape)
    return max(modules.values())


def _unevenness() -> Comparison:
    """The fullest rank over an even share."""
    rules = {"fully_shard": sharding.first_chunks, "ZeroRedundancyOptimizer": sharding.whole_tensors,
             "longest axis that divides (JAX)": sharding.longest_axis}  # fmt: skip
    many = (2, 4, 8, 64, 1024)
    rows = []
    for size in SIZES:
        shapes = _shapes_of(size)
        total = sum(map(prod, shapes))
        for name, rule in rules.items():
            rows.append((size, f"{total:,}", name, *(number(rule(shapes, n) * n / total, ",.2f") for n in many)))
    caption = (
        "What the fullest rank holds over an even share of the Transformer's parameters. fully_shard cuts each tensor's first "
        "axis, ZeroRedundancyOptimizer hands out whole tensors, the largest first; the embedding is one of them."
    )
    head = ("size", "parameters", "division", *(f"N = {n}" for n in many))
    return Comparison.of_text("The fullest rank over an even share", caption, head, tuple(rows), left=3)


def predictions(root: Path) -> Iterator[Comparison]:
    """Peaks of one rank that `framebench predict --json` said, kept in results/predicted."""
    kept_predictions = [
        Prediction.model_validate_json(path.read_bytes()) for path in sorted((root / "predicted").glob("*.json"))
    ]
    cases = sorted(((Case.from_id(one.case), one) for one in kept_predictions), key=lambda pair: order(pair[0]))
    if not cases:
        return
    caption = (
        "MiB (2^20 bytes), predicted without running. states: what the rank holds between two steps, counted as "
        "above. gathered: weights that are whole at the peak, and the buffers of a gather. largest unit: FSDP's bound "
        "of them, the largest that is gathered at once (Zhao et al. 2023, PyTorch FSDP, section 3.2.1). activations: "
        "as PyTorch's tracker calls them. formula: s b h (32 + 2 a s / h) x 2 bytes a layer for the rank's samples, "
        "which is Korthikanti et al. 2022 without dropout and in float32: of the blocks alone, scores stored. "
        f"PyTorch {_versions(kept_predictions, 'torch')}, JAX {_versions(kept_predictions, 'jax')}."
    )
    head = (
        "framework", "strategy", "size", "ranks", "batch of a rank", "peak", "states", "gathered", "largest unit",
        "activations", "formula",
    )  # fmt: skip
    rows = tuple(predicted(*pair) for pair in cases)
    yield Comparison.of_text("Peaks of one rank, predicted", caption, head, rows, left=3)


def predicted(case: Case, one: Prediction) -> tuple[str, ...]:
    shapes, fsdp = _shapes_of(case.size), "gathered parameters" in one.parts
    states = sum(sharding.STRATEGIES[case.strategy].bytes(shapes, case.ranks).values())
    whole = one.parts.get("gathered parameters", 0) + one.parts.get("all-gather buffers", 0)
    activations = one.parts.get("activations")
    rank_case = replace(case, batch=case.batch // case.ranks)
    return (
        case.framework, case.strategy, case.size, str(case.ranks), str(rank_case.batch), mib(one.peak_bytes), mib(states),
        mib(whole if fsdp else None), mib(_largest_unit(case.size) if fsdp else None), mib(activations),
        mib(adjusted_bytes(rank_case) if activations else None),
    )  # fmt: skip


def _largest_unit(size: str) -> int:
    """Bytes of a block's weights, or of all outside the blocks: what `fully_shard` gathers at once."""
    workload = spec.load_workload("transformer")
    units: Counter[str] = Counter()
    for p in workload.params(workload.config(size)):
        units[".".join(p.name.split(".")[:2]) if p.name.startswith("blocks.") else ""] += sharding.WIDE * prod(p.shape)
    return max(units.values())


def _versions(all_predictions: list[Prediction], framework: str) -> str:
    return (
        ", ".join(sorted({one.versions[framework].split("+")[0] for one in all_predictions if framework in one.versions}))
        or "-"
    )


def order(case: Case) -> tuple[object, ...]:
    return FRAMEWORKS.index(case.framework), case.size != "cpu", list(sharding.STRATEGIES).index(case.strategy), case.ranks


def comparisons(root: Path) -> list[Comparison]:
    """Return the formulas, and the predictions that are kept in this results folder."""
    return [_formulas(), *(counted(size) for size in SIZES[:2]), _unevenness(), *predictions(root)]
