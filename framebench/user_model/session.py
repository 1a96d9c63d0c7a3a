"""Measure strategies of a user's model in one session, which an interrupted call leaves open."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from framebench.cli.shared import err, say
from framebench.engine import blocks as measured
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.progress import CaseProgress
from framebench.engine.session import Session
from framebench.engine.timed_process import Variant
from framebench.records import provenance
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.counting import format_count
from framebench.user_file import trial
from framebench.user_file.opening import USUAL_TIME, survey_baseline
from framebench.user_file.trial import UserModel
from framebench.user_model.look import take_first_look
from framebench.user_model.mathematics import Float64Checks
from framebench.user_model.measure import Deadline, list_remarks, measure_blocks

NO_TIME = "no time was left"
COMPILER_S = 80.0  # of a small model under torch.compile, and of the search for its kernels


@dataclass(frozen=True)
class TrialPlan:
    """What is measured of a user's model, and for how long."""

    strategies: list[str] | None  # their names, or None for all that apply
    options: runner.Options
    blocks: int
    # from the beginning: so long blocks are added while ratios of times are undecided; None: never
    seconds: float | None
    # from the beginning: then all must end, but for the baseline; None: it takes what it takes
    limit_s: float | None = None


@dataclass(frozen=True)
class TrialOutcome:
    """The results of a session."""

    records: list[Record]
    left_out: dict[str, str]  # strategy -> why it was not measured
    session: Session  # to be closed when nothing more is asked of it
    is_complete: bool  # false if the time was over before


def show_nothing(*results: object) -> None:
    """Show no results before the end."""


def measure_strategies(
    model: UserModel,
    plan: TrialPlan,
    where: Path,
    environment: Environment,
    show_first: Callable[[list[Record]], None] = show_nothing,
    show_interrupted: Callable[[list[Record], dict[str, str]], None] = show_nothing,
) -> TrialOutcome:
    """Measure strategies of a user's model; a session that an interrupted call left goes on.

    Args:
        model: The user's model.
        plan: What is measured.
        where: The folder of the records.
        environment: The framework's environment.
        show_first: Called with the first records, which have no times.
        show_interrupted: Called if the user interrupts, with the records so far, and with why
            strategies were left out.

    Raises Fault.
    """
    began = time.monotonic()
    announce(model, plan.strategies)
    survey = survey_baseline(model, environment, plan.options)
    for remark in list_remarks(survey["facts"]):
        say(remark)
    cases, left_out = trial.list_cases(model, plan.strategies)
    if plan.blocks > 1:
        report_slow_cases(cases)
    variants = [Variant(case, environment) for case in cases]
    session = open_session(model, environment, plan.options, where, survey["facts"])
    run = measured.Run(session.id, plan.options, where)
    unmeasured = [variant for variant in variants if not run.get_records(variant)]
    count = len(variants) - len(unmeasured)
    if count:
        say(f"going on after an interruption: {format_count(count, 'case')} measured already")
    survey_s = time.monotonic() - began
    progress = make_progress(cases, where, plan, survey_s, session.id)
    deadline = Deadline(None if plan.limit_s is None else began + plan.limit_s, progress)
    try:
        with progress as run.listener, run:
            to_check = list(dict.fromkeys([variants[0], *unmeasured]))  # the baseline first
            checks_ahead = plan.limit_s is None  # else they could take all of the time
            run.check_mathematics = Float64Checks(to_check, survey["held"], checks_ahead)
            take_first_look(variants, run, survey["held"], show_first, deadline)
            if plan.options.rounds and deadline.allows(variants):
                measure_times(variants, run, plan, began, deadline)
    except KeyboardInterrupt:
        records = list_records(run, variants)
        if records:
            show_interrupted(records, left_out)
        raise
    if deadline.is_over:
        for variant in variants:
            if not run.get_records(variant):
                left_out[variant.case.strategy] = NO_TIME
    return TrialOutcome(list_records(run, variants), left_out, session, not deadline.is_over)


def measure_times(
    variants: list[Variant], run: measured.Run, plan: TrialPlan, began: float, deadline: Deadline
) -> None:
    """Measure the blocks of a trial that began at this moment, and say if some had no time."""
    end = deadline.moment if plan.seconds is None else began + plan.seconds
    is_enough = None if plan.seconds is None else partial(are_decided, run)
    blocks_made = measure_blocks(variants, run, plan.blocks, end, is_enough)
    if not 0 < blocks_made < plan.blocks:
        return
    if plan.limit_s is not None:
        deadline.is_over = True
    elif plan.seconds is not None:
        say(
            f"the time is over after {blocks_made} of {plan.blocks} blocks, so ratios of times "
            f"have no interval: --blocks {plan.blocks}, or fewer --strategies"
        )


def list_records(run: measured.Run, variants: list[Variant]) -> list[Record]:
    """Return the records of these variants in the session of a run."""
    return [record for variant in variants for record in run.get_records(variant)]


def open_session(
    model: UserModel,
    environment: Environment,
    options: runner.Options,
    where: Path,
    facts: dict[str, Any],
) -> Session:
    """Return the session that an interrupted call left, or a new one.

    It is one of the same code of framebench and of the user, as `facts` tell of the latter, in the
    same environment. Which strategies are asked for does not matter: each has its own records.
    """
    code = f"{provenance.name_code()} {environment.name} {facts.get('sources', '')}"
    question = [str(model.file), model.scenario, model.batch, options.rounds]
    return Session.open(where, code, f"try {json.dumps(question)}")


def announce(model: UserModel, strategies: list[str] | None) -> None:
    """Print how many strategies are tried, and how long each takes, before the baseline is run.

    What the run finds in the file leaves some of them out.
    """
    cases, _ = trial.list_cases(model, strategies)
    count = len(cases) - 1  # without the baseline
    others = ""
    if count:
        others = f", then up to {format_count(count, 'strategy', 'strategies')}"
    say(
        f"{model.file.name}: running the baseline first{others}. Each takes {USUAL_TIME}, and a "
        "minute more if it compiles; an estimate follows"
    )


def report_slow_cases(cases: list[Case]) -> None:
    """Print which cases are in the first block alone, and why."""
    reasons = {}
    for case in cases:
        reason = runner.explain_slowness(case)
        if reason:
            reasons[case.strategy] = reason
    if reasons:
        first_reason = next(iter(reasons.values()))
        say(f"in the first block alone: {', '.join(reasons)}: {first_reason}")


def make_progress(
    cases: list[Case], where: Path, plan: TrialPlan, survey_s: float, session: str
) -> CaseProgress:
    """Return a progress bar that guesses how long each case takes.

    The guess is for cases that this machine never measured: a strategy's process takes as long as
    the survey of the baseline did, `survey_s` seconds. A compiled case is timed in a second
    process, whose first compilation takes COMPILER_S. Building a process takes most of its time,
    and as many are built at once as there are cores. What `session` has measured counts as done.
    """
    guesses = {}
    for case in cases:
        guesses[case] = survey_s
        if case.strategy_spec.compiles:
            guesses[case] += survey_s + COMPILER_S
    first_look = 1
    turns = first_look + plan.blocks if plan.options.rounds else first_look
    cores = len(plan.options.list_cores())
    return CaseProgress(
        cases,
        where,
        err,
        turns,
        session,
        guesses=guesses,
        at_once=cores,
        is_first_typical=True,  # the survey has built what the baseline needs
    )


def are_decided(run: measured.Run, variants: list[Variant]) -> bool:
    """Return whether the times of these variants need no more blocks."""
    from framebench.analysis import frames

    rows = frames.make_frame(list_records(run, variants))
    return bool(frames.find_decided(rows).all())
