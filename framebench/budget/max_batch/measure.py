"""The largest batch that fits into a budget of memory: doubled until it fails, then bisected.

Each batch is tried by a probe in a fresh process. A probe only checks that the loss is finite,
since there are reference values at the declared batches alone. Whether a strategy computes the
right thing is what `framebench run` verifies.
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

from framebench.budget.max_batch.order import ProbeOrder
from framebench.budget.max_batch.probes import Progress, find_first_line, run_order
from framebench.engine import runner
from framebench.engine.environments import Environment, describe
from framebench.engine.recording import Context, make_provenance
from framebench.engine.runner import Options
from framebench.engine.timed_process import ignore_phase
from framebench.records import provenance, store
from framebench.records.search import MIB, Fit, Probe
from framebench.strategies.registry import find_baseline
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite import protocol
from framebench.suite.case import Case
from framebench.suite.hypothetical import LARGEST_BATCH
from framebench.suite.result import Origin
from framebench.suite.selectors import select
from framebench.suite.sequences import drop_duplicates

MINUTES = 30.0  # for a search, unless the user says otherwise
DEFAULT_OPTIONS = Options()

Status = Literal["found", "none", "open", "stopped", "unsupported"]
OUTCOMES = {"fits": "fits", "memory": "does not fit", "failed": "failed"}  # of a probe, in words


@dataclass
class BatchSearch:
    """A search by doubling and then bisection, among multiples of `unit` up to `largest_allowed`.

    It ends with the largest batch that was seen to fit and the smallest that was seen to fail.
    """

    probe: Callable[[int], Probe]
    unit: int = 1
    largest_allowed: int = LARGEST_BATCH
    minutes: float = math.inf  # after which no other batch is tried
    probes: list[Probe] = field(default_factory=list)
    largest_fitting: int | None = None  # batch that was seen to fit
    smallest_failing: int | None = None  # batch that was seen to need too much memory
    stopped: Probe | None = None  # it failed, but not for memory
    ended_early: bool = False  # only because time was over

    def run(self) -> BatchSearch:
        """Search until the two batches are neighbours, a probe fails, or time is over."""
        deadline = time.monotonic() + 60 * self.minutes
        batch = self.unit if self.unit <= self.largest_allowed else None
        while batch is not None and not self.stopped:
            # one batch is tried in any case
            if self.probes and time.monotonic() > deadline:
                self.ended_early = True
                break
            self.try_batch(batch)
            batch = self.choose_batch()
        return self

    def try_batch(self, batch: int) -> None:
        """Probe a batch once, and record the outcome."""
        probe = self.probe(batch)
        self.probes.append(probe)
        if probe.outcome == "fits":
            self.largest_fitting = batch
        elif probe.outcome == "memory":
            self.smallest_failing = batch
        else:
            self.stopped = probe

    def choose_batch(self) -> int | None:
        """Return the next batch to try, or None where nothing is left to try."""
        fitting = self.largest_fitting or 0
        if self.smallest_failing is None:  # doubled, the last step to the largest that is allowed
            largest = self.largest_allowed // self.unit * self.unit
            return min(2 * fitting, largest) if fitting < largest else None
        if self.smallest_failing - fitting <= self.unit:  # neighbours
            return None
        return (fitting + self.smallest_failing) // 2 // self.unit * self.unit


@dataclass
class Prober:
    """Probe batches of one case, each in a fresh process."""

    case: Case
    environment: Environment
    options: Options
    progress: Progress
    origin: Origin | None = None  # the device and versions of the last process that told them

    def probe(self, batch: int, limit: int | None) -> Probe:
        """Try a batch under a limit in bytes; with None it may take all memory that there is.

        A batch fits if its steps finish and their peak is within the limit. Sets `origin`.
        """
        case = replace(self.case, batch=batch)

        def show_phase(phase: str) -> None:
            self.progress(f"{case.id}: {phase}")

        order = ProbeOrder(task="fit", case=case.id, budget=limit)
        outcome = run_order(order, self.environment, self.options, show_phase)
        fields = outcome.answer
        if "device" in fields:  # where it ran is part of the record
            core = self.options.adapt_to(self.environment).choose_core()
            self.origin = Origin(
                versions=fields["versions"],
                device=fields["device"],
                python=platform.python_version(),
                core=core,
            )
        reason = find_first_line(outcome.reason or "")
        # without a limit the machine's own memory may run out
        if outcome.ran_out:
            return Probe(batch=batch, outcome="memory", reason=reason, limited=limit is not None)
        if outcome.status != "ok":
            return Probe(batch=batch, outcome="failed", reason=reason)
        measured = {name: fields[name] for name in Probe.model_fields if name in fields}
        probe = Probe(batch=batch, outcome="fits", **measured)
        if limit is None or (probe.peak or 0) <= limit:
            return probe
        # some kernels map memory that the kernel's limit does not count
        reason = (
            f"finished, but used {format_mib(probe.peak)} by {probe.instrument}: memory beyond "
            "the budget was taken"
        )
        if not probe.limited:
            reason += "; nothing enforces a limit here"
        return probe.model_copy(update={"outcome": "memory", "reason": reason})


def select_cases(
    workload: str, framework: str, scenario: str, strategy: str | None, size: str
) -> list[Case]:
    """Return the cases to search for, at the smallest batch that their micro-batches allow.

    Raises UnknownCase, with what is valid.
    """
    strategy = strategy or find_baseline(scenario) or "*"
    cases = []
    for case in select(f"{workload}/{framework}/{scenario}/{strategy}/*/{size}"):
        cases.append(replace(case, batch=case.strategy_spec.micro_batches))
    cases.sort(key=lambda case: FRAMEWORKS.index(case.framework))
    return drop_duplicates(cases)  # several batches of a strategy have become one


def probe_once(case: Case, budget: int, environment: Environment) -> Probe:
    """Try once whether a case fits into so many bytes, under the limit."""
    return Prober(case, environment, DEFAULT_OPTIONS, ignore_phase).probe(case.batch, budget)


def search_largest_batch(
    case: Case,
    budget: int,
    environment: Environment,
    most: int = LARGEST_BATCH,
    options: Options = DEFAULT_OPTIONS,
    results: Path = runner.RESULTS,
    progress: Progress = ignore_phase,
    minutes: float = MINUTES,
    on_saved: Callable[[Fit], None] = lambda fit: None,
) -> Fit:
    """Search for one framework and strategy, from the batch of the case on, and save the answer.

    What an interrupted search has tried is saved, too, before the interruption is passed on;
    `on_saved` gets what was saved in either case. Raises OSError if saving fails, or if a disk is
    full.
    """
    load_before = runner.read_load_average()
    prober = Prober(case, environment, options, progress)

    def probe_batch(batch: int) -> Probe:
        probe = prober.probe(batch, budget)
        progress(f"{replace(case, batch=batch).id}: {OUTCOMES[probe.outcome]}")
        return probe

    search = BatchSearch(probe_batch, unit=case.batch, largest_allowed=most, minutes=minutes)
    confirmation = None
    interrupt: BaseException | None = None
    status: Status
    obstacle = runner.explain_unsupported(case)
    if obstacle:
        status, answer = "unsupported", f"unsupported: {obstacle}"
    else:
        try:
            search.run()
            if search.smallest_failing and not search.stopped and not search.ended_early:
                # if the batch fails without a limit too, memory is not the reason
                confirmation = prober.probe(search.smallest_failing, limit=None)
            status, answer = conclude(search, confirmation, budget)
        except (KeyboardInterrupt, OSError) as error:  # OSError: such as of a full disk
            if not search.probes:
                raise
            interrupt = error
            status, answer = "stopped", f"interrupted{describe_bounds(search)}"
    context = Context(case, environment, options, secrets.token_hex(6), results, load_before)
    fit = Fit(
        case=case.id,
        budget_bytes=budget,
        status=status,
        answer=answer,
        largest=search.largest_fitting,
        probes=search.probes,
        confirmation=confirmation,
        provenance=make_provenance(context, prober.origin, prober.origin is not None),
    )
    store.append(fit, find_file(results, environment))
    on_saved(fit)
    if interrupt:
        progress(f"{case.id}: {answer}")
        raise interrupt
    return fit


def describe_bounds(search: BatchSearch) -> str:
    """Return the end of a sentence with the two batches of a search: `; 8 fits; 16 does not fit`.

    A batch that was not seen is left out.
    """
    bounds = ""
    if search.largest_fitting:
        bounds += f"; {search.largest_fitting} fits"
    if search.smallest_failing:
        bounds += f"; {search.smallest_failing} does not fit"
    return bounds


def find_saved(case: Case, budget: int, most: int, results: Path) -> Fit | None:
    """Return this machine's newest answer that a search up to batch `most` would give again.

    The answer is of the same version and protocol. A search that was stopped does not count, since
    it may find more the next time.
    """
    newest = None
    # a line that cannot be read is skipped, and its batch measured again
    for _, fit in store.parse_file(Fit, find_file(results, describe(case.framework))):
        if (fit.case, fit.budget_bytes) != (case.id, budget):
            continue
        if fit.provenance.protocol != protocol.VERSION or fit.status in ("stopped", "unsupported"):
            continue
        if any(probe.batch > most for probe in fit.probes):  # it may have found a larger batch
            continue
        # an open search ended at its own largest batch: this one must end at the same
        if fit.status != "open" or fit.largest == most // case.batch * case.batch:
            newest = fit
    return newest


def conclude(search: BatchSearch, confirmation: Probe | None, budget: int) -> tuple[Status, str]:
    """Return the status of a search, and a sentence with its answer.

    `confirmation` is the probe without a limit of the smallest batch that failed, or None.
    """
    bounds = describe_bounds(search)
    if search.stopped:
        answer = f"stopped at batch {search.stopped.batch}: {search.stopped.reason}{bounds}"
        return "stopped", answer
    if search.ended_early:
        answer = f"stopped after {search.minutes:g} minutes{bounds}; --minutes goes on longer"
        return "stopped", answer
    if not search.probes:
        answer = f"--max-batch {search.largest_allowed} is below the smallest batch, {search.unit}"
        return "stopped", answer
    if search.smallest_failing is None:
        answer = f"batch {search.largest_fitting} fits, and no larger one was allowed"
        return "open", f"{answer} (--max-batch {search.largest_allowed})"
    if confirmation and confirmation.outcome == "failed":
        why = confirmation.reason
        answer = f"batch {search.smallest_failing} fails without a limit too ({why})"
        return "stopped", f"{answer}: it is not the memory"
    reasons = {probe.batch: probe.reason for probe in search.probes}
    needs = describe_need(confirmation, budget)
    failing = search.smallest_failing
    failure = f"{failing} fails: {reasons[failing]}; it {needs}"
    if search.largest_fitting is None:
        return "none", f"none: batch {failure}"
    return "found", f"largest batch that fits: {search.largest_fitting} ({failure})"


def describe_need(confirmation: Probe | None, budget: int) -> str:
    """Return the memory that was missing, as the run without a limit showed it."""
    if confirmation is None or confirmation.needs is None:
        reason = confirmation.reason if confirmation else None
        return f"did not finish without a limit either: {reason}"
    text = f"needs {format_mib(confirmation.needs)}"
    if confirmation.needs <= budget:
        text += f" by {confirmation.instrument}, and the limit counts more than that instrument"
    return text


def find_file(results: Path, environment: Environment) -> Path:
    """Return the file of this machine's searches with one release of a framework."""
    machine = provenance.read_machine_name()
    return results / "fits" / machine / f"{environment.name}{store.SUFFIX}"


def format_mib(count: int | None) -> str:
    """Return bytes in MiB, with the unit."""
    return "-" if count is None else f"{count / MIB:.2f} MiB"
