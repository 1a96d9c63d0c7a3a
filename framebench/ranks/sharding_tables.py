"""Make the tables of docs/sharding.md: formulas of what one rank holds, next to counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

from framebench.analysis.lower_bound import count_korthikanti_bytes
from framebench.analysis.rendering import Table, format_mib
from framebench.models import spec
from framebench.models.spec import Param
from framebench.ranks import sharding
from framebench.ranks.predicted import Prediction
from framebench.ranks.sharding import Shapes
from framebench.records import store
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case

RANKS = (1, 2, 4)
MANY_RANKS = (2, 4, 8, 64, 1024)
COUNTED_SIZES = ("cpu", "full")
SIZES = (*COUNTED_SIZES, "full-1b")
LARGEST_UNEXPLAINED = 0.005  # if a formula is off by less, the table gives no reason
DIVISIONS = {
    "fully_shard": sharding.count_first_chunks,
    "ZeroRedundancyOptimizer": sharding.count_whole_tensors,
    "longest axis that divides (JAX)": sharding.count_longest_axis,
}


def make_tables(root: Path) -> list[Table]:
    """Return the formulas, and the predictions that are saved in this results folder."""
    tables = [tabulate_formulas()]
    tables += [tabulate_counts(size) for size in COUNTED_SIZES]
    tables.append(tabulate_unevenness())
    predictions = load_predictions(root)
    if predictions:
        tables.append(tabulate_predictions(predictions))
    return tables


def list_parameters(size: str) -> list[Param]:
    """Return the parameters of the Transformer in a size, whose states the tables divide."""
    workload = spec.load_workload("transformer")
    return list(workload.params(workload.config(size)))


def list_shapes(size: str) -> Shapes:
    """Return the shapes of the Transformer's trainable parameters."""
    return [parameter.shape for parameter in list_parameters(size) if parameter.trainable]


def tabulate_formulas() -> Table:
    """Return a table of the published formulas: bytes that a rank holds for each parameter.

    The term of a formula that depends on the largest layer is left out.
    """
    rows = []
    for formula in sharding.FORMULAS.values():
        if formula.source:  # the others are this suite's
            sizes = [f"{formula.compute(parameters=1, ranks=ranks):,.2f}" for ranks in RANKS]
            division = f"{formula.whole} + {formula.shared} / N"
            rows.append((formula.name, *sizes, division, formula.source))
    caption = (
        "Bytes of model states (weights, gradients, Adam's moments) that one of N ranks holds for "
        "each parameter. The two of DeepSpeed are its own estimators for a GPU without offloading."
    )
    columns = ("formula", *(f"N = {ranks}" for ranks in RANKS), "bytes a parameter", "source")
    return Table.of_text("Formulas of what a rank holds", caption, columns, rows, left=1)


def tabulate_counts(size: str) -> Table:
    """Return a table of each strategy's states, and of the formula for it."""
    shapes = list_shapes(size)
    parameters = sharding.count_all(shapes, 1)
    # parameters of each module without the modules inside it, which DeepSpeed calls a layer
    modules: Counter[str] = Counter()
    for parameter in list_parameters(size):
        module, _, _ = parameter.name.rpartition(".")
        modules[module] += prod(parameter.shape)
    largest = max(modules.values())
    rows = []
    for name, states in sharding.STRATEGIES.items():
        for ranks in RANKS:
            bytes_by_part = states.count_bytes(shapes, ranks)
            total = sum(bytes_by_part.values())
            by_formula = states.formula.compute(parameters, ranks, largest)
            difference = total / by_formula - 1
            why = ""
            if abs(difference) > LARGEST_UNEXPLAINED:
                why = states.why
            cells = [format_mib(bytes_by_part.get(part)) for part in sharding.PARTS]
            cells += [format_mib(total), format_mib(by_formula), f"{difference:+.1%}", why]
            rows.append((name, str(ranks), *cells))
    caption = (
        "MiB (2^20 bytes) that the fullest rank holds between two steps, float32, Transformer of "
        f"{parameters:,} parameters. Counted by the rule of the implementation, which tests "
        "compare with the storages of real ranks. Formula: the ZeRO paper's division in float32, "
        "for DeepSpeed's ZeRO-2 and ZeRO-3 its own estimate; JAX's gradients live inside the "
        "compiled step, and are in neither. DeepSpeed drops gradients after the update: they are "
        "those that it starts from."
    )
    columns = (
        "strategy",
        "ranks",
        "parameters",
        "copy",
        "gradients",
        "buckets",
        "states",
        "in all",
        "formula",
        "off",
        "why",
    )
    return Table.of_text(f"What a rank holds, size {size}", caption, columns, rows, left=1)


def tabulate_unevenness() -> Table:
    """Return a table of the fullest rank's parameters relative to an even share."""
    rows = []
    for size in SIZES:
        shapes = list_shapes(size)
        total = sharding.count_all(shapes, 1)
        for name, rule in DIVISIONS.items():
            ratios = [f"{rule(shapes, ranks) * ranks / total:,.2f}" for ranks in MANY_RANKS]
            rows.append((size, f"{total:,}", name, *ratios))
    caption = (
        "What the fullest rank holds over an even share of the Transformer's parameters. "
        "fully_shard cuts each tensor's first axis, ZeroRedundancyOptimizer hands out whole "
        "tensors, the largest first; the embedding is one of them."
    )
    columns = ("size", "parameters", "division", *(f"N = {ranks}" for ranks in MANY_RANKS))
    return Table.of_text("The fullest rank over an even share", caption, columns, rows, left=3)


def load_predictions(root: Path) -> list[Prediction]:
    """Return the predictions in results/predicted, in the order of the table.

    The files have what `framebench predict --json` printed. Predictions of strategies that the
    table does not have are left out. Files that cannot be read are named in RecordWarnings.
    """

    def get_rank_in_table(prediction: Prediction) -> tuple[int, bool, int, int]:
        case = Case.from_id(prediction.case)
        framework = FRAMEWORKS.index(case.framework)
        strategy = list(sharding.STRATEGIES).index(case.strategy)
        return framework, case.size != "cpu", strategy, case.ranks

    files = (root / "predicted").glob("*.json")
    predictions = []
    for prediction in store.read_models(Prediction, files):
        if Case.from_id(prediction.case).strategy in sharding.STRATEGIES:
            predictions.append(prediction)
    return sorted(predictions, key=get_rank_in_table)


def tabulate_predictions(predictions: Sequence[Prediction]) -> Table:
    """Return a table of the predicted peaks of one rank, and of the bounds of their parts.

    There must be a prediction.
    """
    versions = {}
    for framework in ("torch", "jax"):
        releases = set()
        for prediction in predictions:
            if framework in prediction.versions:
                release, _, _build = prediction.versions[framework].partition("+")
                releases.add(release)
        versions[framework] = ", ".join(sorted(releases)) or "-"
    caption = (
        "MiB (2^20 bytes), predicted without running. states: what the rank holds between two "
        "steps, counted as above. gathered: weights that are whole at the peak, and the buffers of "
        "a gather. largest unit: FSDP's bound of them, the largest that is gathered at once (Zhao "
        "et al. 2023, PyTorch FSDP, section 3.2.1). activations: as PyTorch's tracker calls them. "
        "formula: s b h (32 + 2 a s / h) x 2 bytes a layer for the rank's samples, which is "
        "Korthikanti et al. 2022 without dropout and in float32: of the blocks alone, scores "
        f"stored. PyTorch {versions['torch']}, JAX {versions['jax']}."
    )
    cells = [describe_prediction(prediction) for prediction in predictions]
    columns = list(cells[0])
    rows = [list(row.values()) for row in cells]
    return Table.of_text("Peaks of one rank, predicted", caption, columns, rows, left=3)


def describe_prediction(prediction: Prediction) -> dict[str, str]:
    """Return the cells of one prediction by column."""
    case = Case.from_id(prediction.case)
    parts = prediction.parts
    batch = case.batch // case.ranks
    states = sharding.STRATEGIES[case.strategy].count_bytes(list_shapes(case.size), case.ranks)
    gathered = largest_unit = formula = None
    if "gathered parameters" in parts:  # FSDP's tracker names them
        gathered = parts["gathered parameters"] + parts.get("all-gather buffers", 0)
        largest_unit = find_largest_unit(case.size)
    activations = parts.get("activations")
    if activations:
        formula = count_korthikanti_bytes(replace(case, batch=batch))
    return {
        "framework": case.framework,
        "strategy": case.strategy,
        "size": case.size,
        "ranks": str(case.ranks),
        "batch of a rank": str(batch),
        "peak": format_mib(prediction.peak_bytes),
        "states": format_mib(sum(states.values())),
        "gathered": format_mib(gathered),
        "largest unit": format_mib(largest_unit),
        "activations": format_mib(activations),
        "formula": format_mib(formula),
    }


def find_largest_unit(size: str) -> int:
    """Return the largest bytes that `fully_shard` gathers at once.

    A unit is the weights of one block, or all weights outside the blocks.
    """
    units: Counter[str] = Counter()
    for parameter in list_parameters(size):
        unit = ""
        if parameter.name.startswith("blocks."):
            _blocks, number, *_ = parameter.name.split(".")
            unit = number
        units[unit] += sharding.FLOAT32_BYTES * prod(parameter.shape)
    return max(units.values())
