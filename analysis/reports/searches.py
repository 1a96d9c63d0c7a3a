"""What `framebench fit` and `framebench evaluate` found, for people."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.tables import Comparison, number
from framebench.measure.max_batch import MIB, Fit, Probe
from framebench.measure.oom_recovery import Evaluation

HEAD = ("batch", "outcome", "instrument", "peak MiB", "kept MiB", "step ms")
CAPTION = (
    "Each line is a fresh process. Step times are those of an allocator that returns memory at once; speed and correctness of "
    "the strategy are what `framebench run` measures and verifies: here the loss was only seen to be finite. "
    "kept: what the framework took beside tensors and did not give back, such as workspaces and generated kernels."
)


def table(fit: Fit) -> Comparison:
    """Every probe by batch, the answer below."""
    workload, framework, scenario, strategy, _, size = fit.case.split("/")
    rows = [cells(p) for p in sorted(fit.probes, key=lambda p: p.batch)]
    if fit.confirmation:
        batch, outcome, *rest = cells(fit.confirmation)
        rows.append((batch, f"without a limit: {outcome.replace('fits', 'finished')}", *rest))
    title = f"{framework}: {workload} {scenario} {strategy}, size {size}, within {fit.budget_bytes / MIB:.1f} MiB"
    return Comparison(title, CAPTION, HEAD, tuple(rows), left=3, notes=(fit.answer,))


def cells(p: Probe) -> tuple[str, ...]:
    outcome = {"fits": "fits", "memory": "out of memory", "failed": "failed"}[p.outcome]
    scaled = (p.peak, MIB), (p.kept_bytes, MIB), (p.step_s, 1e-3)
    numbers = (number(None if value is None else value / unit, ".1f") for value, unit in scaled)
    return (str(p.batch), outcome, p.instrument or "-", *numbers)


def evaluation_lines(found: Evaluation) -> Iterator[str]:
    """The account at the end of an evaluation."""
    yield f"samples done {len(found.losses)} of {found.samples}, lost {found.lost}, done twice {found.twice}"
    yield "batches: " + (", ".join(f"{n} of {size}" for size, n in found.batches.items()) or "none was finished")
    yield f"memory ran out {len(found.recoveries)} times"
    for r in found.recoveries:
        yield f"  at sample {r.first} with batch {r.batch}, recovered {r.how}: {r.reason}"
    for name, peak in found.peaks.items():
        yield f"peak of a finished batch: {peak / MIB:.1f} MiB ({name})"
    if found.losses:
        yield f"loss: mean {found.total / len(found.losses):.6f}, sum {found.total:.6f}"
    if not found.limited and not found.failure:
        yield "nothing enforces a limit on this device"
