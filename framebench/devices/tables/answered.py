"""Make the table of what is answered of PyTorch's strategies for a GPU that is not here."""

from __future__ import annotations

from collections import defaultdict

from framebench.analysis.rendering import Table
from framebench.devices.simulation.scope import (
    Scope,
    explain_refusal,
    find_scope,
    is_without_pool,
)
from framebench.suite.selectors import select

SCOPES: tuple[Scope, ...] = (
    "answered",
    "bounded from both sides",
    "bounded from below",
    "refused",
)
# by whether a step has convolutions, and whether cuDNN is asked for their workspaces
WHERE = {
    (False, False): "without convolutions",
    (True, True): "with convolutions whose workspaces cuDNN is asked for",
    (True, False): "with convolutions, without cuDNN",
}


def tabulate_answered() -> Table:
    """Return the table, of every strategy that the suite has for PyTorch."""
    groups: defaultdict[tuple[Scope, str, str], dict[str, None]] = defaultdict(dict)
    over_ranks = select("*/torch/train/*/b8x2/*", ranks=True)
    for case in [*select("*/torch/*/*"), *over_ranks]:
        if case.support.supported and "+" not in case.strategy:
            # a workload that does not say may have some
            has_convolutions = case.workload_spec.has_convolutions is not False
            why = explain_refusal(case) or ""
            where = f"in {case.scenario}" if case.scenario == "pipeline" else ""
            if not is_without_pool(case):
                scope = find_scope(case, has_convolutions, asks_cudnn=False)
                groups[scope, where, why][case.strategy] = None
                continue
            for asks_cudnn in (True, False) if has_convolutions else (False,):
                scope = find_scope(case, has_convolutions, asks_cudnn)
                groups[scope, WHERE[has_convolutions, asks_cudnn], why][case.strategy] = None
    rows = []
    for (scope, where, why), names in groups.items():
        rows.append((scope, ", ".join(names), where, why))
    rows.sort(key=lambda row: SCOPES.index(row[0]))
    return Table.of_text(
        "What is answered of PyTorch's strategies",
        "bounded: the answer has no peak, and says what it takes at least, or also at most. Made "
        "of the rule that the planner obeys (framebench/devices/simulation/scope.py).",
        ("answer", "strategies", "where", "why no peak"),
        rows,
        left=4,
    )
