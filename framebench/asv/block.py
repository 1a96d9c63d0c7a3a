"""Find the record of a case in an `asv run`, or measure the whole block that it is in."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from framebench.asv.progress import send
from framebench.engine import environments, runner
from framebench.engine.blocks import Listener, Run, measure, record_unsupported
from framebench.engine.environments import Environment
from framebench.engine.groups import make_groups
from framebench.engine.progress import format_record
from framebench.engine.timed_process import Variant
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite import profiles
from framebench.suite.case import Case

# The plug-in sets these for the benchmark processes.
# the ids of all cases that this `asv run` measures, in every environment
SELECTED = "FRAMEBENCH_SELECTED"
BLOCKS_VARIABLE = "FRAMEBENCH_BLOCKS"


class ProgressSender(Listener):
    """Report the cases of one framework to the `asv run`, not those measured next to them."""

    def __init__(self, environment: str) -> None:
        """Set the environment, such as `torch==2.13.0`."""
        self.environment = environment
        self.framework = environment.split("==")[0]

    def phase(self, case: Case, what: str) -> None:
        send(self.environment, case.id, what)

    def done(self, record: Record) -> None:
        if record.parsed.framework != self.framework:
            return
        event = "none" if record.status == "unsupported" else "end"
        send(self.environment, record.case, f"{event}: {format_record(record)}")


def find_or_measure(case: Case, environment: str, profile: Iterable[Case]) -> Record:
    """Return the case's record of this session in an environment such as `torch==2.13.0`.

    The first caller measures the block that the case is in. If there are several records, the
    first one counts: it has the memory too.
    """
    described = profiles.find_profile()
    options = runner.Options(
        profile=profiles.read_profile_name(),
        rounds=described.rounds,
        time_limit_s=described.limit_s,
    )
    own = environments.describe(*environment.split("=="))
    variant = Variant(case, own)
    with Run(
        os.environ["FRAMEBENCH_SESSION"], options, listener=ProgressSender(environment)
    ) as run:
        if runner.explain_unsupported(case):
            return record_unsupported(case, run, own)
        earlier = run.get_records(variant)
        if earlier:
            return earlier[0]
        selected_ids = os.environ.get(SELECTED, "").split()
        requested = []
        compared = []
        for other in profile:
            if other.id not in selected_ids and other != case:
                continue
            requested.append(other)
            if not runner.explain_unsupported(other) and differs_in_strategy_only(other, case):
                compared.append(other)
        blocks = int(os.environ.get(BLOCKS_VARIABLE, "1"))
        measure(make_groups(compared, find_built(requested, own)), run, blocks)
        return run.get_records(variant)[0]


def differs_in_strategy_only(one: Case, other: Case) -> bool:
    """Return whether two cases are the same but for the strategy."""
    return replace(one, strategy=other.strategy) == other


def find_built(requested: list[Case], own: Environment) -> dict[str, Environment]:
    """Return the built environments of the requested frameworks, and the given one of its own."""
    available = {own.framework: own}
    for framework in {case.framework for case in requested} - {own.framework}:
        environment = environments.describe(framework)
        if environments.is_built(environment):
            available[framework] = environment
    return {name: available[name] for name in FRAMEWORKS if name in available}
