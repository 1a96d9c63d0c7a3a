"""The errors that right computations have against float64, from which tolerances come: `framebench dev rounding`.

Every supported case computes its first steps and says by how much its values and tensors are off; honest.json keeps the
largest of each family of tensors for this machine. A cell that is wrong would make its own tolerance: so what is far worse off
than the other cases of its key is said, and not taken.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from framebench.engine import environments
from framebench.extensions import worker_module
from framebench.features.references.golden import lines
from framebench.instruments import nvml
from framebench.models import spec
from framebench.records import provenance
from framebench.records.pins import pinned_version
from framebench.records.provenance import PACKAGE
from framebench.suite.case import Case
from framebench.suite.profiles import every_case
from framebench.suite.strategy import FRAMEWORKS
from framebench.suite.tolerance import BRANCH, LEAST, OUTLIER, Errors, group, joined, measured, path

MODULE = "rounding_worker"
WORKER = worker_module("references", MODULE)
AT_ONCE = 8  # cases of one process: what they leave behind adds up
ROUNDS = {
    "structure", "precision", "recomputation", "batching", "loss", "execution", "attention", "rewriting", "memory format",
    "rule",
}  # fmt: skip


def cases(workload: str, size: str) -> list[Case]:
    """Those that this machine can compute: one for each framework, precision, kind of step and group of keys that share
    tolerances, one for each strategy that has another model or may change the order of sums, the baselines at each batch."""
    cases_by_group: dict[tuple[object, ...], Case] = {}
    base = spec.workload(workload).preset(size).base
    mine = [case for case in every_case() if (case.workload, case.size) == (workload, size) and _can_be_measured(case)]
    for case in sorted(mine, key=lambda case: (case.batch != base, case.strategy != case.stage.baseline)):  # preferred first
        plan = case.plan
        cases_by_group.setdefault((case.framework, plan.precision, plan.mathematics, *group(case.golden_key)), case)
        if any(part.axis in ROUNDS or part.variant for part in plan.parts):
            cases_by_group.setdefault((case.framework, case.scenario, case.strategy), case)
        if case.strategy == case.stage.baseline:  # few samples are the least well conditioned
            cases_by_group.setdefault((case.framework, case.scenario, f"b{case.batch}"), case)
        if plan.precision != "fp32" and any(part.axis == "optimizer" for part in plan.parts):  # so are moments that are rounded
            cases_by_group.setdefault((case.framework, case.strategy, f"b{case.batch}"), case)
    return list(dict.fromkeys(cases_by_group.values()))


def _can_be_measured(case: Case) -> bool:
    here = bool(nvml.gpus()) or not case.support.gpu
    return case.support.supported and here and case.golden_key in case.spec.golden


def measure(
    workload: str, sizes: Iterable[str], say: Callable[[str], None], wanted: Callable[[Case], bool] = lambda case: True
) -> dict[str, Any]:
    """Lines of the worker by case, those of an interrupted run included."""
    lines_by_case: dict[str, Any] = {}
    for size in sizes:
        groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[Case]] = defaultdict(list)
        for case in filter(wanted, cases(workload, size)):
            groups[case.framework, tuple(sorted(case.support.env.items()))].append(case)
        for (framework, variables), several in groups.items():
            lines_by_case |= run(workload, size, framework, dict(variables), several, say)
    return lines_by_case


def run(
    workload: str, size: str, framework: str, variables: dict[str, str], group: list[Case], say: Callable[[str], None]
) -> dict[str, Any]:
    environment = environments.ensure(framework)
    done = kept(workload, size, environment.name)
    lines_by_case = computed(done)
    missing = [case.id for case in group if case.id not in lines_by_case]
    say(f"{workload} {size} {framework}: {len(missing)} of {len(group)} cases to compute")
    while missing:
        some = missing[:AT_ONCE]
        try:
            environments.run_module(
                environment,
                WORKER,
                str(done),
                *some,
                OMP_NUM_THREADS="1",
                **variables,
            )
        except environments.SetupError as error:
            died = next((i for i in some if i not in computed(done)), None)
            if died is None:
                raise
            with done.open("a") as file:
                file.write(json.dumps({died: {"reason": f"its process ended before it: {error}"[:300]}}) + "\n")
        lines_by_case = computed(done)
        missing = [case_id for case_id in missing if case_id not in lines_by_case]
    return {case.id: lines_by_case[case.id] for case in group}


def computed(file: Path) -> dict[str, Any]:
    return {case_id: line for entry in lines(file) for case_id, line in entry.items()}


def kept(workload: str, size: str, environment: str) -> Path:
    """The file that grows by a line for each case, until code or golden values change."""
    folders = (PACKAGE / "models", spec.workload(workload).folder, PACKAGE / "adapters", PACKAGE / "suite/catalog")
    sources = [*sorted(f for folder in folders for f in folder.rglob("*.py"))]
    sources += [
        PACKAGE / f"{name}.py" for name in ("worker/observe", "worker/optimizer_check", f"features/references/{MODULE}")
    ]
    golden = {key: tensors for key, tensors in spec.workload(workload).golden_tensors.items() if key.startswith(size)}
    digest = hashlib.sha256(b"".join(f.read_bytes() for f in sources) + json.dumps(golden).encode()).hexdigest()[:12]
    file = environments.cache() / "honest" / f"{workload}-{size}-{environment}-{digest}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def _by_key(lines_by_case: dict[str, Any]) -> dict[str, dict[str, dict[str, list[Errors]]]]:
    """Framework -> precision -> golden key -> errors of each case."""
    result: dict[str, dict[str, dict[str, list[Errors]]]] = {}
    for case_id, line in lines_by_case.items():
        case = Case.of(case_id)
        if "errors" in line:
            keys = result.setdefault(case.framework, {}).setdefault(case.plan.precision, {})
            keys.setdefault(case.golden_key, []).append(line["errors"])
    return result


def outliers(lines_by_case: dict[str, Any]) -> list[str]:
    """Cases without errors, and those that are OUTLIER times as far off in a family as the median of their key's cases, and by
    more than BRANCH."""
    sentences = [f"{case_id}: {line['reason']}" for case_id, line in lines_by_case.items() if "reason" in line]
    off: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for case_id, line in lines_by_case.items():
        case = Case.of(case_id)
        for kind, families in line.get("errors", {}).items():
            for family, pair in families.items():
                off[case.plan.precision, case.golden_key, kind, family][case_id] = max(pair)
    for (precision, _, kind, family), errors in off.items():
        usual = max(statistics.median(errors.values()), LEAST[precision])
        for case_id, error in errors.items():
            if not error <= max(OUTLIER * usual, BRANCH):
                sentences.append(f"{case_id}: {kind} {family} is off by {error:.1e}, where {usual:.1e} is usual")
    return sentences


def unknown(case: Case) -> bool:
    """Whether no machine has measured the framework's errors in the case's precision and for its key."""
    return case.golden_key not in measured(case.workload, case.plan.precision).get(case.framework, {})


def write(workload: str, lines_by_case: dict[str, Any], beside: bool = False) -> Path:
    """Add this machine's errors to the workload's file, in place of its earlier ones, or `beside` them."""
    file = path(workload)
    file_content = json.loads(file.read_text()) if file.exists() else {"machines": {}}
    errors = {
        framework: {p: {k: rounded(joined(each)) for k, each in keys.items()} for p, keys in precisions.items()}
        for framework, precisions in _by_key(lines_by_case).items()
    }
    count = len(lines_by_case)
    if beside and (before := file_content["machines"].get(provenance.machine_name())):
        count += before["cases"]
        for framework, precisions in before["errors"].items():
            for precision, keys in precisions.items():
                mine = errors.setdefault(framework, {})
                mine[precision] = keys | mine.get(precision, {})
    file_content["machines"][provenance.machine_name()] = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": provenance.hardware().get("cpu"),
        "versions": {f: pinned_version(f) for f in FRAMEWORKS},
        "cases": count,
        "errors": errors,
    }
    file.write_text(dumps(file_content))
    return file


def rounded(errors: Errors) -> Errors:
    """Up, to two digits."""

    def up(x: float) -> float:
        if x == 0:
            return 0.0
        unit = 10.0 ** (math.floor(math.log10(x)) - 1)
        return float(f"{math.ceil(x / unit) * unit:.1e}")

    return {kind: {name: (up(n), up(p)) for name, (n, p) in families.items()} for kind, families in errors.items()}


def dumps(file_content: dict[str, Any]) -> str:
    """A line for each kind of tensor of each key: a difference is then read easily."""

    def put(part: Any, depth: int) -> str:
        if depth == 0 or not isinstance(part, dict):
            return json.dumps(part)
        inner = (f"{' ' * (LEVELS - depth + 1)}{json.dumps(name)}: {put(value, depth - 1)}" for name, value in part.items())
        return "{\n" + ",\n".join(inner) + "\n" + " " * (LEVELS - depth) + "}"

    return put(file_content, LEVELS) + "\n"


LEVELS = 7  # machines, machine, errors, framework, precision, key, kind
