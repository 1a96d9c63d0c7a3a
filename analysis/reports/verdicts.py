"""What a comparison says: verdicts on the rounds that `framebench compare` measured, and cautions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from analysis.comparison import Comparison
from analysis.statistics import CPU_TIME, FASTEST, FEWEST, PEAK, TIME, Quantity, Verdict, judge
from framebench.records.record import CONTENDED

Process = dict[str, Any]  # one arm of one round, as framebench.measure.compare.process writes it
# what a process is judged by; None where it has no such number
VALUES: dict[Quantity, Callable[[Process], float | None]] = {
    TIME: lambda process: float(np.median(process["step_s"])),
    FASTEST: lambda process: min(process["step_s"]),
    CPU_TIME: lambda process: process["cpu_s_per_step"],
    PEAK: lambda process: process["peak_bytes"],
}
AGREE = {TIME.more: CPU_TIME.more, TIME.less: CPU_TIME.less, "no difference": "no difference"}
ARMS = ("base", "change")
FACTORS = {"s": (1e3, "ms"), "bytes": (2**-20, "MiB")}  # for people


def of(said: dict[str, Any]) -> list[Verdict]:
    """One verdict for each quantity that both arms have; peaks that were read by two instruments have none."""
    found = []
    for quantity, value in VALUES.items():
        base, change = ([x for r in said["rounds"] if (x := value(r[arm])) is not None] for arm in ARMS)
        complete = len(base) == len(change) == len(said["rounds"])
        if complete and not (quantity is PEAK and len(instruments(said)) > 1):
            found.append(judge(base, change, quantity))
    return found


def instruments(said: dict[str, Any]) -> set[str]:
    return {name for r in said["rounds"] for arm in ARMS if (name := r[arm]["peak_instrument"])}


def cautions(said: dict[str, Any]) -> Iterator[str]:
    """Reasons to distrust the verdicts."""
    if len(said["rounds"]) < FEWEST:
        yield f"fewer than {FEWEST} rounds cannot show a difference"
    if len(instruments(said)) > 1:
        yield f"peaks were read by different instruments ({', '.join(sorted(instruments(said)))}) and are not compared"
    for arm in ARMS:
        excess = waiting(said, arm)
        if excess > CONTENDED:
            yield f"{arm}: a step took {excess:.2f} times its CPU time: others used the core, and wall-clock times mislead"
    found = {v.quantity: v.verdict for v in of(said)}
    wall, cpu = found[TIME.name], found.get(CPU_TIME.name, "undecided")
    if one_core(said) and "undecided" not in (wall, cpu) and AGREE[wall] != cpu:
        yield f"step time ({wall}) and CPU time ({cpu}) do not agree"


def waiting(said: dict[str, Any], arm: str) -> float:
    """Wall-clock over CPU time of a step, in the median over processes; waiting for input is not counted. 1 where it is idle
    to ask: with several threads, or a GPU, the two need not agree."""
    if not one_core(said):
        return 1.0
    processes = [r[arm] for r in said["rounds"]]
    own = [np.mean(p["step_s"]) * (1 - p.get("shares", {}).get("wait", 0.0)) for p in processes]
    return float(np.median([wall / p["cpu_s_per_step"] for wall, p in zip(own, processes) if p["cpu_s_per_step"]] or [1.0]))


def one_core(said: dict[str, Any]) -> bool:
    return said["threads"] == 1 and said["hardware"].get("device", "cpu") == "cpu"


def as_json(said: dict[str, Any]) -> dict[str, Any]:
    return {"verdicts": [v._asdict() for v in of(said)], "cautions": list(cautions(said))}


def table(said: dict[str, Any]) -> Comparison:
    """The verdicts for people."""
    loads = [r[arm][when] for r in said["rounds"] for arm in ARMS for when in ("load_before", "load_after")]
    seen = [load for load in loads if load is not None]
    load = f"load {min(seen):.1f} to {max(seen):.1f}" if seen else "load unknown"
    return Comparison.of_text(
        f"{said['change']} against {said['base']}",
        f"{len(said['rounds'])} rounds. ratio = change / base, median over the rounds with its bootstrap 95 % interval. A "
        f"difference is claimed if all of it lies beyond the minimum, and p (Wilcoxon's test) is at most 5 %. "
        f"Machine {said['machine']}, {load}.",
        ("quantity", "base", "change", "ratio", "95 % interval", "minimum", "p", "verdict"),
        tuple(line(v) for v in of(said)),
        left=1,
        notes=tuple(f"caution: {text}" for text in cautions(said)),
    )


def line(v: Verdict) -> tuple[str, ...]:
    factor, unit = FACTORS[v.unit]
    values = (f"{value * factor:,.2f} {unit}" for value in (v.base, v.change))
    return v.quantity, *values, f"{v.ratio:.3f}", f"{v.low:.3f} to {v.high:.3f}", f"{v.minimum:.0%}", f"{v.p:.3f}", v.verdict
