"""What `framebench max-batch` found, for people."""

from __future__ import annotations

from framebench.analysis.comparison import DETAIL, ESSENTIAL, Comparison, Shown, number
from framebench.records.search import MIB, Fit, Probe

HEAD = (
    "batch",
    "outcome",
    "instrument",
    Shown("peak MiB", priority=ESSENTIAL),
    Shown("kept MiB", priority=DETAIL),
    Shown("step ms", priority=ESSENTIAL),
)
CAPTION = (
    "Each line is a fresh process. Step times are those of an allocator that returns memory at once; speed and correctness of "
    "the strategy are what `framebench run` measures and verifies: here the loss was only seen to be finite. "
    "kept: what the framework took beside tensors and did not give back, such as workspaces and generated kernels."
)


def table(fit: Fit) -> Comparison:
    """Every probe by batch, the answer below."""
    workload, framework, scenario, strategy, _, size = fit.case.split("/")
    rows = [_cells(p) for p in sorted(fit.probes, key=lambda p: p.batch)]
    if fit.confirmation:
        batch, outcome, *rest = _cells(fit.confirmation)
        rows.append((batch, f"without a limit: {outcome.replace('fits', 'finished')}", *rest))
    title = f"{framework}: {workload} {scenario} {strategy}, size {size}, within {fit.budget_bytes / MIB:.1f} MiB"
    return Comparison.of_text(title, CAPTION, HEAD, tuple(rows), left=3, notes=(fit.answer,))


def _cells(p: Probe) -> tuple[str, ...]:
    outcome = {"fits": "fits", "memory": "out of memory", "failed": "failed"}[p.outcome]
    scaled = (p.peak, MIB), (p.kept_bytes, MIB), (p.step_s, 1e-3)
    numbers = (number(None if value is None else value / unit, ".1f") for value, unit in scaled)
    return (str(p.batch), outcome, p.instrument or "-", *numbers)
