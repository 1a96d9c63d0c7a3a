"""Decide whether an `asv run` has answered, and say why not.

asv ends with status 2 whenever a benchmark failed, whether a case failed verification or nothing
could run. Here a run of which nothing could run ends with status 1 and a sentence. Status 2 then
means that it has answered, except for cases whose records say why they failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.records import provenance, store
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.counting import format_count


@dataclass
class RunOutcome:
    """The outcome of one run, by framework and case."""

    results: Path
    session: str
    failed_setups: dict[str, str] = field(default_factory=dict)  # framework: why
    unrecorded: list[Case] = field(default_factory=list)
    # the last line that the first failed benchmark printed, if cases are unrecorded
    last_line: str = ""
    recorded: list[Record] = field(default_factory=list)

    def add(
        self, planned: list[Case], environment: Environment, stderr: Mapping[str, str | None]
    ) -> None:
        """Look up the session's records of the cases that an environment was to measure.

        `stderr` has what each of its benchmarks printed, as asv kept it.
        """
        machine = provenance.read_machine_name()
        file = store.find_file(self.results, machine, environment.name)
        newest = {record.case: record for record in store.read_session(file, self.session)}
        for case in planned:
            record = newest.get(case.id)
            if record is None:
                self.unrecorded.append(case)
            else:
                self.recorded.append(record)
        if self.unrecorded and not self.last_line:
            last_lines = filter(None, map(find_last_line, stderr.values()))
            self.last_line = next(last_lines, "no reason given")

    @property
    def is_complete(self) -> bool:
        """Return whether every case that was to be measured has a record."""
        return not self.failed_setups and not self.unrecorded

    def explain_problem(self) -> str:
        """Return why the run has no answer with a hint, or "" if it has one."""
        if self.failed_setups:
            return "; ".join(
                explain_setup(framework, why) for framework, why in self.failed_setups.items()
            )
        if self.unrecorded:
            count = len(self.unrecorded)
            cases = format_count(count + len(self.recorded), "case")
            return (
                f"{count} of {cases} could not be measured, {self.unrecorded[0].id} first: "
                f"{self.last_line}; asv run --show-stderr prints all of it, and goes on from there"
            )
        if self.recorded and not any(has_answered(record) for record in self.recorded):
            first_record = self.recorded[0]
            cases = format_count(len(self.recorded), "case")
            return (
                f"none of {cases} passed verification; {first_record.case}: {first_record.status}:"
                f" {first_record.reason}"
            )
        return ""


def find_last_line(stderr: str | None) -> str:
    """Return the last line that a benchmark printed, such as that of a traceback."""
    last = ""
    for line in (stderr or "").splitlines():
        text = line.strip()
        # these lines are asv's own
        if text and not text.startswith(("asv:", "For parameters:")):
            last = text
    return last


def explain_setup(framework: str, why: str) -> str:
    """Return why a framework could not be set up, with the command that does it."""
    last_line = why.strip().splitlines()[-1] if why.strip() else "no reason given"
    # the prefix is that of `framebench setup`, which ran in the background
    reason = last_line.removeprefix("framebench: ")
    return (
        f"{framework} could not be set up: {reason}; when that is repaired, `framebench setup "
        f"{framework}` builds it, and the same run goes on"
    )


def has_answered(record: Record) -> bool:
    """Return whether a record has numbers, or is known to have none on this machine."""
    return record.status == "ok" or runner.is_expected_failure(record)
