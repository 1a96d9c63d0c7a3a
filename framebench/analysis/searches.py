"""Searches for the largest batch under an enforced limit of memory.

`framebench max-batch` makes them; they are lines of files in `results/fits/`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from framebench.models.spec import USER_MODEL
from framebench.records import store
from framebench.records.record_base import parse_case
from framebench.records.search import Fit, Probe
from framebench.records.store import RecordWarning
from framebench.suite.case import Case, UnknownCase

# A process keeps as much as in searches that agree with its case in these fields. The first line
# counts in which some search agrees.
SIMILAR = (
    ("framework", "workload", "scenario", "strategy"),
    ("framework", "workload"),
    ("framework",),
)


def load_searches(results: Path) -> Iterator[Fit]:
    """Yield every readable search for a largest batch, by file; others give a RecordWarning."""
    for place, fit in store.read_answers(Fit, results / "fits"):
        try:
            parse_case(fit.case)  # raises if the id is not that of a case
        except (UnknownCase, ValueError) as error:
            reason = str(error).splitlines()[0]
            warnings.warn(f"skipped {place}: {reason}", RecordWarning, stacklevel=2)
        else:
            yield fit


def get_framework_version(fit: Fit) -> str | None:
    """Return the framework's release without the build's label, or None if it is unknown."""
    version = fit.provenance.versions.get(parse_case(fit.case).framework)
    if not version:
        return None
    return version.split("+")[0]


class CaseSearches(NamedTuple):
    """The searches of one case on one machine, in one version of its framework."""

    fits: list[Fit]

    def list_batches(self, outcome: str) -> list[tuple[int, int]]:
        """Return each batch that had this outcome, with the budget (bytes) of its search."""
        batches = []
        for fit in self.fits:
            # what also fails without a limit is no matter of memory
            is_other_failure = fit.confirmation and fit.confirmation.outcome == "failed"
            if outcome == "memory" and is_other_failure:
                continue
            for probe in fit.probes:
                if probe.outcome == outcome:
                    batches.append((probe.batch, fit.budget_bytes))
        return batches

    def find_largest_fitting(self, budget: int) -> int:
        """Return the largest batch (samples) that ran within so many bytes, or 0 if none did."""
        fitting = [batch for batch, limit in self.list_batches("fits") if limit <= budget]
        return max(fitting, default=0)

    def find_smallest_failing(self, budget: int) -> int | None:
        """Return the smallest batch that ran out of memory within so many bytes or more."""
        failing = [batch for batch, limit in self.list_batches("memory") if limit >= budget]
        return min(failing, default=None)

    def check_fits(self, batch: int, budget: int) -> bool | None:
        """Return whether a batch fits into so many bytes, or None if no search tells.

        If two searches disagree, the worse counts.
        """
        failing = self.find_smallest_failing(budget)
        if failing is not None and batch >= failing:
            return False
        if batch <= self.find_largest_fitting(budget):
            return True
        return None

    def find_smallest_holding(self, batch: int) -> int | None:
        """Return the smallest budget (bytes) within which this batch, or a larger one, ran."""
        limits = [limit for fitting, limit in self.list_batches("fits") if fitting >= batch]
        return min(limits, default=None)

    def find_largest_failing(self, batch: int) -> int | None:
        """Return the largest budget (bytes) that this batch, or a smaller one, ran out of."""
        limits = [limit for failing, limit in self.list_batches("memory") if failing <= batch]
        return max(limits, default=None)

    def find_finished(self, batch: int) -> Probe | None:
        """Return a process that ran to its end with this batch, or None."""
        for fit in self.fits:
            for probe in list_probes(fit):
                if probe.batch == batch and probe.outcome == "fits":
                    return probe
        return None


class KeptBytes(NamedTuple):
    """What a process has next to its tensors, such as workspaces."""

    bytes: int
    is_of_strategy: bool  # and not of other strategies of the workload, or of the framework


class Searches:
    """The newest searches of all cases, machines and versions."""

    def __init__(self, all_fits: Iterable[Fit] = (), published: Searches | None = None) -> None:
        """Keep the newest search of each case, budget, machine and version.

        `published` says what processes keep in frameworks of which `all_fits` has no search.
        """
        newest = {}
        for fit in sorted(all_fits, key=lambda fit: fit.provenance.measured_at):
            key = fit.case, fit.budget_bytes, fit.provenance.machine, get_framework_version(fit)
            newest[key] = fit
        self.fits = list(newest.values())
        # cached, since every row of a table asks for it several times
        self._find_own = cache(self._find_most_kept)
        self.published = published

    def select_fits(self, case: Case) -> list[Fit]:
        """Return the searches of any batch of this case on all machines.

        A model that is only described has none.
        """
        names = ("workload", "framework", "scenario", "strategy", "size")
        return [fit for fit in self.fits if is_similar(fit, case, names)]

    def find_searches(
        self, case: Case, machine: str, framework_version: str | None, device: str | None = None
    ) -> CaseSearches:
        """Return all searches of the case in one version of the framework.

        If this machine has made none, return those of other machines on the same kind of `device`.
        """
        fits = []
        for fit in self.select_fits(case):
            if get_framework_version(fit) == framework_version:
                fits.append(fit)
        on_machine = [fit for fit in fits if fit.provenance.machine == machine]
        if on_machine or not device:
            return CaseSearches(on_machine)
        return CaseSearches(
            [fit for fit in fits if fit.provenance.hardware.get("device") == device]
        )

    def find_kept(self, case: Case) -> KeptBytes | None:
        """Return what a process has next to its tensors, such as workspaces.

        The bytes are the most that searches of the same strategy saw, or else of the workload, or
        of the framework. If the framework has no searches here, published ones count; None if it
        has none there either.
        """
        kept = self._find_own(replace(case, batch=1))
        # what a user's model keeps is counted in its own process
        if kept is None and self.published and case.workload != USER_MODEL:
            return self.published.find_kept(case)
        return kept

    def name_lender(self, case: Case) -> str | None:
        """Return the machines of the published searches that count for the case, or None."""
        is_own = self._find_own(replace(case, batch=1)) is not None
        if is_own or not self.published or self.find_kept(case) is None:
            return None
        machines = set()
        for fit in self.published.fits:
            if is_similar(fit, case, ("framework",)):
                machines.add(fit.provenance.machine)
        return ", ".join(sorted(machines))

    def _find_most_kept(self, case: Case) -> KeptBytes | None:
        """Return the most bytes in the searches that are most similar (SIMILAR), or None."""
        for names in SIMILAR:
            sizes = []
            for fit in self.fits:
                if is_similar(fit, case, names):
                    sizes += [probe.kept_bytes for probe in list_probes(fit)]
            measured = [size for size in sizes if size is not None]
            if measured:
                return KeptBytes(max(measured), is_of_strategy=names == SIMILAR[0])
        return None


NO_SEARCHES = Searches()


def list_probes(fit: Fit) -> Iterator[Probe]:
    """Yield the probes under the limit, and the probe without a limit, if there is one."""
    yield from fit.probes
    if fit.confirmation:
        yield fit.confirmation


def is_similar(fit: Fit, case: Case, names: Iterable[str]) -> bool:
    """Return whether a search and a case agree in these fields."""
    get_fields = attrgetter(*names)
    return bool(get_fields(parse_case(fit.case)) == get_fields(case))
