"""The record of a case in this `asv run`: found, or measured now with the whole block that the case is in."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from framebench.asv.progress import tell
from framebench.engine import environments, runner
from framebench.engine.blocks import Listener, Run, measure, not_measured
from framebench.engine.environments import Environment
from framebench.engine.groups import groups
from framebench.engine.progress import line
from framebench.engine.timed_process import Arm
from framebench.records.record import Record
from framebench.suite import profiles
from framebench.suite.case import Case
from framebench.suite.strategy import FRAMEWORKS

SELECTED = "FRAMEBENCH_SELECTED"  # the ids of all cases that this `asv run` measures, in every environment
BLOCKS = "FRAMEBENCH_BLOCKS"


class _Telling(Listener):
    """Tells the `asv run` of the cases of its own framework when they are done; the others are measured beside them."""

    def __init__(self, environment: str) -> None:
        self.environment = environment

    def phase(self, case: Case, what: str) -> None:
        tell(self.environment, case.id, what)

    def done(self, record: Record) -> None:
        if record.parsed.framework == self.environment.split("==")[0]:
            tell(self.environment, record.case, f"{'none' if record.status == 'unsupported' else 'end'}: {line(record)}")


def measured_with(case: Case, environment: str, profile: Iterable[Case]) -> Record:
    """The case's record of the session, in an environment such as `torch==2.13.0`: the first, which has the memory too."""
    chosen = profiles.described()
    options = runner.Options(profile=profiles.profile_name(), rounds=chosen.rounds, time_limit_s=chosen.limit_s)
    where = environments.describe(*environment.split("=="))
    arm = Arm(case, where)
    with Run(os.environ["FRAMEBENCH_SESSION"], options, listener=_Telling(environment)) as run:
        if runner.unsupported(case):
            return not_measured(case, run, where)
        if earlier := run.records(arm):
            return earlier[0]
        selected = os.environ.get(SELECTED, "").split()
        wanted = [c for c in profile if c.id in selected or c == case]
        able = [c for c in wanted if not runner.unsupported(c) and _alike(c, case)]
        measure(groups(able, _ready(wanted, where)), run, int(os.environ.get(BLOCKS, "1")))
        return run.records(arm)[0]


def _alike(one: Case, other: Case) -> bool:
    """But for the strategy."""
    return replace(one, strategy=other.strategy) == other


def _ready(wanted: list[Case], where: Environment) -> dict[str, Environment]:
    """Of the frameworks that this run measures those whose environment is there; of the one that asks, its version."""
    others = {c.framework: environments.describe(c.framework) for c in wanted if c.framework != where.framework}
    built_environments = {name: other for name, other in others.items() if environments.built(other)} | {where.framework: where}
    return {name: built_environments[name] for name in FRAMEWORKS if name in built_environments}
