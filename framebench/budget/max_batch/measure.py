"""The largest batch that fits into a budget of memory: doubled until it does not, then bisected, each probe in a fresh process.

A probe checks only that the loss is finite, since there are golden values at the declared batches alone; whether a strategy
computes the right thing is what `framebench run` verifies.
"""

from __future__ import annotations

import math
import platform
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from framebench.budget.max_batch.order import Order
from framebench.budget.max_batch.probes import Answer, Progress, carry_out, first_line
from framebench.engine import runner
from framebench.engine.environments import Environment, describe
from framebench.engine.recording import Context, make_provenance
from framebench.engine.runner import Options
from framebench.records import provenance, store
from framebench.records.search import MIB, Fit, Probe
from framebench.strategies.registry import SCENARIOS
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite import protocol
from framebench.suite.case import Case
from framebench.suite.result import Origin
from framebench.suite.selectors import select

MOST = 2**16  # samples in a batch, unless the user says otherwise
MINUTES = 30.0  # for a search, unless the user says otherwise
DEFAULT = Options()


@dataclass
class Search:
    """Doubling, then bisection, over multiples of `unit`: ends with the largest batch seen to fit and the smallest to fail."""

    probe: Callable[[int], Probe]
    unit: int = 1
    most: int = MOST
    probes: list[Probe] = field(default_factory=list)
    fits: int = 0
    fails: int = 0  # 0: none seen yet
    stopped: Probe | None = None  # it failed, but not for memory
    minutes: float = math.inf  # after which no other batch is tried
    began: float = field(default_factory=time.monotonic)

    def run(self) -> Search:
        batch = self.unit
        while batch <= self.most and not self.fails and not self.late and self.try_(batch):
            batch = min(2 * batch, max(batch + self.unit, self.most // self.unit * self.unit))
        while self.fails - self.fits > self.unit and not self.stopped and not self.late:
            self.try_((self.fits + self.fails) // 2 // self.unit * self.unit)
        return self

    @property
    def late(self) -> bool:
        return bool(self.probes) and time.monotonic() - self.began > 60 * self.minutes

    @property
    def open_end(self) -> bool:
        """Whether it ended for want of time."""
        decided = self.fails and self.fails - self.fits <= self.unit
        return self.late and not decided and not self.stopped and self.fits < self.most // self.unit * self.unit

    def try_(self, batch: int) -> bool:
        """Probe once, and remember. False ends the search."""
        attempt = self.probe(batch)
        self.probes.append(attempt)
        if attempt.outcome == "fits":
            self.fits = batch
        elif attempt.outcome == "memory":
            self.fails = batch
        else:
            self.stopped = attempt
        return not self.stopped


def chosen(workload: str, framework: str, scenario: str, strategy: str | None, size: str) -> list[Case]:
    """The cases to search for, at the smallest batch that their micro-batches allow. Raises UnknownCase, with what is valid."""
    strategy = strategy or (SCENARIOS[scenario].baseline if scenario in SCENARIOS else "*")
    selected_cases = select(f"{workload}/{framework}/{scenario}/{strategy}/*/{size}")
    smallest = dict.fromkeys(replace(c, batch=c.plan.micro_batches) for c in selected_cases)
    return sorted(smallest, key=lambda c: FRAMEWORKS.index(c.framework))


def judge(batch: int, answer: Answer, budget: int | None) -> Probe:
    """What a probe's answer means: finishing is not enough, the peak has to be within the budget too."""
    if answer.memory:
        return Probe(batch=batch, outcome="memory", reason=first_line(answer.reason or ""), limited=budget is not None)
    if answer.status != "ok":
        return Probe(batch=batch, outcome="failed", reason=first_line(answer.reason or ""))
    measured = {name: answer.answer[name] for name in ("peaks", "cold_peaks", "kept_bytes", "step_s", "limited")}
    probe = Probe(batch=batch, outcome="fits", **measured)
    if budget is None or (probe.peak or 0) <= budget:
        return probe
    beyond = "memory beyond the budget was taken" + ("" if probe.limited else "; nothing enforces a limit here")
    used = f"finished, but used {mib(probe.peak)} by {probe.instrument}"
    return probe.model_copy(update={"outcome": "memory", "reason": f"{used}: {beyond}"})


def fits(case: Case, budget: int, environment: Environment) -> Probe:
    """Whether this batch fits, tried once under the limit."""
    return judge(case.batch, carry_out(Order("fit", case.id, budget), environment, DEFAULT), budget)


def find(
    case: Case,
    budget: int,
    environment: Environment | None = None,
    most: int = MOST,
    options: Options = DEFAULT,
    results: Path = runner.RESULTS,
    progress: Callable[[Case, str], None] = lambda case, phase: None,
    minutes: float = MINUTES,
) -> Fit:
    """Search for one framework and strategy, and save what was found. Raises OSError if it cannot be written."""
    environment = environment or describe(case.framework)
    load = runner.load_average()
    origin: Origin | None = None
    started = False

    def probe(batch: int, limit: int | None = budget) -> Probe:
        at = replace(case, batch=batch)
        say: Progress = lambda phase: progress(at, phase)  # noqa: E731
        answer = carry_out(Order("fit", at.id, limit), environment, options, say)
        nonlocal origin, started
        started = started or bool(answer.answer)
        if "device" in answer.answer:
            core = options.on(environment).core()
            origin = Origin(answer.answer["versions"], answer.answer["device"], platform.python_version(), core)
        return judge(batch, answer, limit)

    fields: dict[str, Any] = {"status": "unsupported", "answer": f"unsupported: {(why := runner.unsupported(case))}"}
    if not why:
        search = Search(probe, case.batch, most, minutes=minutes).run()
        confirmation = probe(search.fails, None) if search.fails and not search.stopped and not search.open_end else None
        fields = _conclusion(search, confirmation, budget) | {"probes": search.probes, "confirmation": confirmation}
    context = Context(case, environment, options, secrets.token_hex(6), results, load)
    where = make_provenance(context, origin, started)
    fit = Fit(case=case.id, budget_bytes=budget, provenance=where, **fields)
    # it needs a provenance of what it writes, no more
    store.write(fit, folder(results, case, budget, where.machine, environment))  # type: ignore[arg-type]
    return fit


def known(case: Case, budget: int, environment: Environment, most: int = MOST, results: Path = runner.RESULTS) -> Fit | None:
    """The newest answer to this question that was saved by this machine, version and protocol, if it still is one."""
    where = folder(results, case, budget, provenance.machine_name(), environment)
    for path in sorted(where.glob("*.json"), reverse=True):
        try:
            fit = Fit.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            continue  # not of this version, or cut off: measured anew
        if fit.case == case.id and fit.budget_bytes == budget and answers(fit, case.batch, most):
            return fit
    return None


def answers(fit: Fit, unit: int, most: int) -> bool:
    """Whether a search up to `most` would find the same. One that was stopped may do better the next time."""
    if fit.provenance.protocol != protocol.VERSION or fit.status in ("stopped", "unsupported"):
        return False
    within = all(probe.batch <= most for probe in fit.probes)
    return within and (fit.status != "open" or fit.largest == most // unit * unit)


def _conclusion(search: Search, confirmation: Probe | None, budget: int) -> dict[str, Any]:
    """Status, largest batch, and the answer in words."""
    if search.stopped:
        so_far = f"; {search.fits} fits" if search.fits else ""
        return {"status": "stopped", "answer": f"stopped at batch {search.stopped.batch}: {search.stopped.reason}{so_far}"}
    if search.open_end:
        found = [f"{search.fits} fits"] * bool(search.fits) + [f"{search.fails} does not"] * bool(search.fails)
        text = f"stopped after {search.minutes:g} minutes: {', '.join(found)}; --minutes searches longer"
        return {"status": "stopped", "answer": text, "largest": search.fits or None}
    if not search.fails:
        if not search.fits:
            return {"status": "stopped", "answer": f"--max-batch {search.most} is below the smallest batch, {search.unit}"}
        text = f"batch {search.fits} fits, and no larger one was allowed (--max-batch {search.most})"
        return {"status": "open", "largest": search.fits, "answer": text}
    if confirmation and confirmation.outcome == "failed":
        text = f"batch {search.fails} fails without a limit too ({confirmation.reason}): it is not the memory"
        return {"status": "stopped", "answer": text, "largest": search.fits or None}
    reason = next(p.reason for p in search.probes if p.batch == search.fails)
    needs = _confirmed(confirmation, budget)
    if not search.fits:
        return {"status": "none", "answer": f"none: batch {search.unit} {needs} ({reason})"}
    text = f"largest batch that fits: {search.fits} ({search.fails} fails: {reason}; it {needs})"
    return {"status": "found", "largest": search.fits, "answer": text}


def _confirmed(probe: Probe | None, budget: int) -> str:
    """What the run without a limit showed: the memory that was missing, if it really was memory."""
    if probe is None or probe.needs is None:
        return f"did not finish without a limit either: {probe and probe.reason}"
    blind = "" if probe.needs > budget else f" by {probe.instrument}, and the limit counts more than that sees"
    return f"needs {mib(probe.needs)}{blind}"


def folder(results: Path, case: Case, budget: int, machine: str, environment: Environment) -> Path:
    """`results/fits/<machine>/<framework>-<version>/<workload.scenario.strategy.size>.<budget in bytes>`."""
    name = f"{case.workload}.{case.scenario}.{case.strategy}.{case.size}.{budget}"
    return results / "fits" / machine / environment.name / name


def mib(count: int | None) -> str:
    return "-" if count is None else f"{count / MIB:.2f} MiB"
