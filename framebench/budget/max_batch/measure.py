"""The largest batch that fits into a budget of memory: doubled until it does not, then bisected,
each probe in a fresh process.

A probe only checks that the loss is finite, since there are reference values at the declared
batches alone. Whether a strategy computes the right thing is what `framebench run` verifies.
"""

from __future__ import annotations

import math
import platform
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from framebench.budget.max_batch.order import Order
from framebench.budget.max_batch.probes import ProbeOutcome, first_line, run_order
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

LARGEST_BATCH = 2**16  # samples, unless the user says otherwise
MINUTES = 30.0  # for a search, unless the user says otherwise
DEFAULT_OPTIONS = Options()

CaseProgress = Callable[[Case, str], None]  # case and phase


def ignore_progress(case: Case, phase: str) -> None:
    """Show nothing."""


@dataclass
class BatchSearch:
    """A search by doubling, then bisection, over multiples of `unit`.

    It ends with the largest batch that was seen to fit and the smallest that was seen to fail.
    """

    probe: Callable[[int], Probe]
    unit: int = 1
    most: int = LARGEST_BATCH
    probes: list[Probe] = field(default_factory=list)
    fits: int = 0  # the largest batch that fits; 0 if none was seen
    fails: int = 0  # the smallest batch that does not; 0 if none was seen
    stopped: Probe | None = None  # it failed, but not for memory
    minutes: float = math.inf  # after which no other batch is tried
    began: float = field(default_factory=time.monotonic)

    def run(self) -> BatchSearch:
        """Search until the two batches are neighbours, a probe fails, or time is over."""
        batch = self.unit
        while batch <= self.most and not self.fails and not self.is_late:
            self.try_batch(batch)
            if self.stopped:
                break
            # the last step goes to the largest batch, and beyond it once that was tried
            batch = min(2 * batch, max(batch + self.unit, self.largest_allowed))
        while self.fails - self.fits > self.unit and not self.stopped and not self.is_late:
            middle = (self.fits + self.fails) // 2
            self.try_batch(middle // self.unit * self.unit)
        return self

    def try_batch(self, batch: int) -> None:
        """Probe a batch once, and remember what came of it."""
        probe = self.probe(batch)
        self.probes.append(probe)
        if probe.outcome == "fits":
            self.fits = batch
        elif probe.outcome == "memory":
            self.fails = batch
        else:
            self.stopped = probe

    @property
    def largest_allowed(self) -> int:
        """Return the largest multiple of `unit` that may be tried."""
        return self.most // self.unit * self.unit

    @property
    def is_late(self) -> bool:
        """Return whether time is over. One batch is tried in any case."""
        return bool(self.probes) and time.monotonic() - self.began > 60 * self.minutes

    @property
    def ended_early(self) -> bool:
        """Return whether it ended only because time was over."""
        if self.stopped or not self.is_late:
            return False
        if self.fails:
            return self.fails - self.fits > self.unit
        return self.fits < self.largest_allowed


@dataclass
class Prober:
    """Probes of one case, each a fresh process; where the first that answered ran is part of the
    record.
    """

    case: Case
    budget: int
    environment: Environment
    options: Options
    progress: CaseProgress
    origin: Origin | None = None
    started: bool = False  # whether any process has answered

    def probe(self, batch: int) -> Probe:
        """Try a batch under the limit."""
        return self.run(batch, self.budget)

    def probe_without_limit(self, batch: int) -> Probe:
        """Try a batch with all the memory that there is."""
        return self.run(batch, None)

    def run(self, batch: int, limit: int | None) -> Probe:
        """Try a batch under a limit in bytes."""
        case = replace(self.case, batch=batch)

        def show_phase(phase: str) -> None:
            self.progress(case, phase)

        outcome = run_order(
            Order("fit", case.id, limit), self.environment, self.options, show_phase
        )
        answer = outcome.answer
        self.started = self.started or bool(answer)
        if "device" in answer:
            core = self.options.adapt_to(self.environment).choose_core()
            self.origin = Origin(
                answer["versions"], answer["device"], platform.python_version(), core
            )
        return judge_probe(batch, outcome, limit)


@dataclass(frozen=True)
class Conclusion:
    """What a search comes to: the fields of `Fit`."""

    status: Literal["found", "none", "open", "stopped", "unsupported"]
    answer: str
    largest: int | None = None


def select_cases(
    workload: str, framework: str, scenario: str, strategy: str | None, size: str
) -> list[Case]:
    """Return the cases to search for, at the smallest batch that their micro-batches allow.

    Raises UnknownCase, with what is valid.
    """
    if not strategy:
        strategy = SCENARIOS[scenario].baseline if scenario in SCENARIOS else "*"
    cases = []
    for case in select(f"{workload}/{framework}/{scenario}/{strategy}/*/{size}"):
        smallest = replace(case, batch=case.plan.micro_batches)
        if smallest not in cases:
            cases.append(smallest)
    return sorted(cases, key=lambda case: FRAMEWORKS.index(case.framework))


def judge_probe(batch: int, outcome: ProbeOutcome, budget: int | None) -> Probe:
    """Return what came of a probe: to finish is not enough, its peak has to be within the budget
    too.
    """
    reason = first_line(outcome.reason or "")
    if outcome.memory:
        return Probe(batch=batch, outcome="memory", reason=reason, limited=budget is not None)
    if outcome.status != "ok":
        return Probe(batch=batch, outcome="failed", reason=reason)
    probe = Probe(
        batch=batch,
        outcome="fits",
        peaks=outcome.answer["peaks"],
        cold_peaks=outcome.answer["cold_peaks"],
        kept_bytes=outcome.answer["kept_bytes"],
        step_s=outcome.answer["step_s"],
        limited=outcome.answer["limited"],
    )
    if budget is None or (probe.peak or 0) <= budget:
        return probe
    reason = (
        f"finished, but used {format_mib(probe.peak)} by {probe.instrument}: memory beyond "
        "the budget was taken"
    )
    if not probe.limited:
        reason += "; nothing enforces a limit here"
    return probe.model_copy(update={"outcome": "memory", "reason": reason})


def probe_once(case: Case, budget: int, environment: Environment) -> Probe:
    """Try once whether a case fits into so many bytes, under the limit."""
    return Prober(case, budget, environment, DEFAULT_OPTIONS, ignore_progress).probe(case.batch)


def search_largest_batch(
    case: Case,
    budget: int,
    environment: Environment | None = None,
    most: int = LARGEST_BATCH,
    options: Options = DEFAULT_OPTIONS,
    results: Path = runner.RESULTS,
    progress: CaseProgress = ignore_progress,
    minutes: float = MINUTES,
) -> Fit:
    """Search for one framework and strategy, from the batch of the case on, and save the answer.

    Raises OSError if it cannot be written.
    """
    environment = environment or describe(case.framework)
    load_before = runner.read_load_average()
    prober = Prober(case, budget, environment, options, progress)
    probes: list[Probe] = []
    confirmation = None
    obstacle = runner.explain_unsupported(case)
    if obstacle:
        conclusion = Conclusion("unsupported", f"unsupported: {obstacle}")
    else:
        search = BatchSearch(prober.probe, case.batch, most, minutes=minutes).run()
        probes = search.probes
        if search.fails and not search.stopped and not search.ended_early:
            confirmation = prober.probe_without_limit(search.fails)
        conclusion = conclude(search, confirmation, budget)

    context = Context(case, environment, options, secrets.token_hex(6), results, load_before)
    origin = make_provenance(context, prober.origin, prober.started)
    fit = Fit(
        case=case.id,
        budget_bytes=budget,
        status=conclusion.status,
        answer=conclusion.answer,
        largest=conclusion.largest,
        probes=probes,
        confirmation=confirmation,
        provenance=origin,
    )
    store.append(fit, find_file(results, origin.machine, environment))
    return fit


def find_saved(
    case: Case,
    budget: int,
    environment: Environment,
    most: int = LARGEST_BATCH,
    results: Path = runner.RESULTS,
) -> Fit | None:
    """Return the newest answer of this machine, version and protocol that still is one."""
    file = find_file(results, provenance.read_machine_name(), environment)
    newest = None
    for _, fit in store.parse_file(Fit, file):
        if isinstance(fit, store.BadRecord):
            continue  # no file yet, another version of the schema, or cut off: it is measured again
        is_of_question = fit.case == case.id and fit.budget_bytes == budget
        if is_of_question and answers_search(fit, case.batch, most):
            newest = fit
    return newest


def answers_search(fit: Fit, unit: int, most: int) -> bool:
    """Return whether the result of an earlier search is that of a search up to batch `most`.

    A search that was stopped may find more the next time.

    Args:
        fit: The earlier result.
        unit: The smallest batch, of which all others are multiples.
        most: The largest batch that is tried.
    """
    if fit.provenance.protocol != protocol.VERSION or fit.status in ("stopped", "unsupported"):
        return False
    if any(probe.batch > most for probe in fit.probes):
        return False
    return fit.status != "open" or fit.largest == most // unit * unit


def conclude(search: BatchSearch, confirmation: Probe | None, budget: int) -> Conclusion:
    """Return what a search comes to.

    `confirmation`: the smallest batch that failed, without a limit.
    """
    if search.stopped:
        text = f"stopped at batch {search.stopped.batch}: {search.stopped.reason}"
        if search.fits:
            text += f"; {search.fits} fits"
        return Conclusion("stopped", text)
    largest = search.fits or None
    if search.ended_early:
        seen = []
        if search.fits:
            seen.append(f"{search.fits} fits")
        if search.fails:
            seen.append(f"{search.fails} does not")
        text = (
            f"stopped after {search.minutes:g} minutes: {', '.join(seen)}; --minutes searches "
            "longer"
        )
        return Conclusion("stopped", text, largest)
    if not search.fails:
        if not search.fits:
            return Conclusion(
                "stopped", f"--max-batch {search.most} is below the smallest batch, {search.unit}"
            )
        text = (
            f"batch {search.fits} fits, and no larger one was allowed (--max-batch {search.most})"
        )
        return Conclusion("open", text, largest)
    if confirmation and confirmation.outcome == "failed":
        text = (
            f"batch {search.fails} fails without a limit too ({confirmation.reason}): it is "
            "not the memory"
        )
        return Conclusion("stopped", text, largest)

    reasons = {probe.batch: probe.reason for probe in search.probes}
    reason = reasons[search.fails]
    needs = describe_need(confirmation, budget)
    if not search.fits:
        return Conclusion("none", f"none: batch {search.unit} {needs} ({reason})")
    text = f"largest batch that fits: {search.fits} ({search.fails} fails: {reason}; it {needs})"
    return Conclusion("found", text, largest)


def describe_need(confirmation: Probe | None, budget: int) -> str:
    """Return the memory that was missing, as the run without a limit showed it."""
    if confirmation is None or confirmation.needs is None:
        reason = confirmation.reason if confirmation else None
        return f"did not finish without a limit either: {reason}"
    text = f"needs {format_mib(confirmation.needs)}"
    if confirmation.needs <= budget:
        text += f" by {confirmation.instrument}, and the limit counts more than that sees"
    return text


def find_file(results: Path, machine: str, environment: Environment) -> Path:
    """Return the file of a machine's searches with one release of a framework."""
    return results / "fits" / machine / f"{environment.name}{store.SUFFIX}"


def format_mib(count: int | None) -> str:
    """Return bytes in MiB, with the unit."""
    return "-" if count is None else f"{count / MIB:.2f} MiB"
