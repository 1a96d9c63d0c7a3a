"""Find the record of a case in an `asv run`, or measure the whole block that it is in."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from framebench.asv.progress import MEASURED, UNSUPPORTED, send
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

    def __init__(self, release: str) -> None:
        """Set the release, such as `torch==2.13.0`."""
        self.release = release
        self.framework, _, _version = release.partition("==")

    def on_phase(self, case: Case, what: str) -> None:
        send(self.release, case.id, what)

    def on_done(self, record: Record) -> None:
        if record.parsed.framework != self.framework:
            return
        kind = UNSUPPORTED if record.status == "unsupported" else MEASURED
        send(self.release, record.case, f"{kind}: {format_record(record)}")


def find_or_measure(case: Case, release: str, profile_cases: Iterable[Case]) -> Record:
    """Return the case's record of this session in a release such as `torch==2.13.0`.

    The first caller measures the block that the case is in. If there are several records, the
    first one counts: it has the memory too.
    """
    profile = profiles.find_profile()
    options = runner.Options(
        profile=profiles.read_profile_name(),
        rounds=profile.rounds,
        time_limit_s=profile.limit_s,
    )
    environment = environments.describe(*release.split("=="))
    variant = Variant(case, environment)
    session = os.environ["FRAMEBENCH_SESSION"]
    with Run(session, options, listener=ProgressSender(release)) as run:
        if runner.explain_unsupported(case):
            return record_unsupported(case, run, environment)
        earlier = run.get_records(variant)
        if earlier:
            return earlier[0]
        selected_ids = os.environ.get(SELECTED, "").split()
        selected_cases = []
        compared_cases = []
        for each in profile_cases:
            if each.id not in selected_ids and each != case:
                continue
            selected_cases.append(each)
            is_compared = replace(each, strategy=case.strategy) == case
            if is_compared and not runner.explain_unsupported(each):
                compared_cases.append(each)
        blocks = int(os.environ.get(BLOCKS_VARIABLE, "1"))
        frameworks = {each.framework for each in selected_cases}
        groups = make_groups(compared_cases, find_built(frameworks, environment))
        measure(groups, run, blocks)
        return run.get_records(variant)[0]


def find_built(frameworks: set[str], environment: Environment) -> dict[str, Environment]:
    """Return by framework the given environment, and those of other frameworks that are built."""
    available = {environment.framework: environment}
    for framework in frameworks - {environment.framework}:
        other = environments.describe(framework)
        if environments.is_built(other):
            available[framework] = other
    return {name: available[name] for name in FRAMEWORKS if name in available}
