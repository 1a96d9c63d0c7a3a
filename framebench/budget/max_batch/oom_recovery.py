"""Evaluation of many samples within a budget of memory: when it runs out, the batch is halved, and the evaluation goes on.

Where the framework raises, the worker recovers by itself; where the process dies, a new one takes up the first sample that was
not reported. Done is what arrived here: the counts of the end are taken from the reports, not from what a worker believes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from framebench.budget.max_batch.order import Order
from framebench.budget.max_batch.probes import Answer, Progress, carry_out, first_line
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.suite.case import Case
from framebench.suite.protocol import BatchReport

Run = Callable[[Order], Answer]


@dataclass(frozen=True)
class Recovery:
    """Memory ran out at sample `first` with batch `batch`; the next attempt took half of it."""

    first: int
    batch: int
    how: Literal["in the process", "by a new process"]
    reason: str


@dataclass
class Evaluation:
    """What arrived of an evaluation of `samples` samples. `failure` says why it did not come to its end."""

    samples: int
    losses: dict[int, float] = field(default_factory=dict)  # by sample
    twice: int = 0  # samples whose loss arrived again
    batches: Counter[int] = field(default_factory=Counter)  # size -> how many were finished
    recoveries: list[Recovery] = field(default_factory=list)
    peaks: dict[str, int] = field(default_factory=dict)  # of the steps that finished, by instrument
    limited: bool = False
    failure: str = ""

    @property
    def next(self) -> int:
        """The first sample that is not done."""
        return next((i for i in range(self.samples) if i not in self.losses), self.samples)

    @property
    def lost(self) -> int:
        return self.samples - len(self.losses)

    @property
    def total(self) -> float:
        """The losses' sum, correctly rounded, so that it does not depend on the batches."""
        return math.fsum(self.losses.values())

    def take(self, report: BatchReport) -> None:
        """Enter one finished or failed batch."""
        first, batch = report["first"], report["batch"]
        if "losses" in report:
            for i, loss in enumerate(report["losses"], first):
                self.twice += i in self.losses
                self.losses[i] = loss
            self.batches[batch] += 1
            self.peaks = {name: max(peak, self.peaks.get(name, 0)) for name, peak in report["peaks"].items()}
        elif "ran_out" in report:
            self.recoveries.append(Recovery(first, batch, "in the process", first_line(report["ran_out"])))

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "samples": self.samples,
            "done": len(self.losses),
            "lost": self.lost,
            "done_twice": self.twice,
            "loss_sum": self.total,
            "loss_mean": self.total / len(self.losses) if self.losses else None,
            "batches": {str(size): n for size, n in self.batches.items()},
            "recoveries": [vars(r) for r in self.recoveries],
            "peaks": self.peaks,
            "limited": self.limited,
            "failure": self.failure or None,
        }


def evaluate(case: Case, samples: int, budget: int | None, run: Run) -> Evaluation:
    """Evaluate `samples` samples in batches of at most `case.batch`; `run` carries out an order in a process of its own."""
    evaluation, batch = Evaluation(samples), min(case.batch, samples)
    while (first := evaluation.next) < samples:
        at = Case(case.workload, case.framework, case.scenario, case.strategy, batch, case.size)
        answer = run(Order("evaluate", at.id, budget, samples, first))
        for report in answer.reports:
            evaluation.take(report)
        tried = answer.reports[-1]["batch"] if answer.reports else batch
        evaluation.limited = evaluation.limited or answer.answer.get("limited", False)
        if answer.status == "ok" and evaluation.next > first:
            continue
        reason = first_line(answer.reason or "the worker ended without a result")
        if not answer.memory or tried == 1:
            evaluation.failure = f"batch 1 does not fit: {reason}" if answer.memory else reason
            break
        evaluation.recoveries.append(Recovery(evaluation.next, tried, "by a new process", reason))
        batch = tried // 2
    return evaluation


def evaluator(
    environment: Environment, options: Options, progress: Progress = lambda phase: None
) -> Callable[[Case, int, int | None], Evaluation]:
    """`evaluate` in this environment."""
    return lambda case, samples, budget: evaluate(
        case, samples, budget, lambda order: carry_out(order, environment, options, progress)
    )


def in_words(ended_evaluation: Evaluation) -> Iterator[str]:
    """The account at the end of an evaluation, line by line."""
    done = f"samples done {len(ended_evaluation.losses)} of {ended_evaluation.samples}"
    yield f"{done}, lost {ended_evaluation.lost}, done twice {ended_evaluation.twice}"
    yield "batches: " + (", ".join(f"{n} of {size}" for size, n in ended_evaluation.batches.items()) or "none was finished")
    yield f"memory ran out {len(ended_evaluation.recoveries)} times"
    for r in ended_evaluation.recoveries:
        yield f"  at sample {r.first} with batch {r.batch}, recovered {r.how}: {r.reason}"
    for name, peak in ended_evaluation.peaks.items():
        yield f"peak of a finished batch: {peak / 2**20:.1f} MiB ({name})"
    if ended_evaluation.losses:
        yield f"loss: mean {ended_evaluation.total / len(ended_evaluation.losses):.6f}, sum {ended_evaluation.total:.6f}"
    if not ended_evaluation.limited and not ended_evaluation.failure:
        yield "nothing enforces a limit on this device"
