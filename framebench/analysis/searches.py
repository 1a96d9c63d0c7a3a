"""Searches for the largest batch under an enforced limit of memory.

`framebench max-batch` makes them; they are lines of files in `results/fits/`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from framebench.records import store
from framebench.records.record import parse_case
from framebench.records.search import Fit, Probe
from framebench.records.store import RecordWarning
from framebench.suite.case import Case, UnknownCase

# What a search shares with a case whose process keeps as much: the first of these that some search
# shares counts.
SIMILAR = (
    ("framework", "workload", "scenario", "strategy"),
    ("framework", "workload"),
    ("framework",),
)


def load_searches(results: Path) -> Iterator[Fit]:
    """Yield every readable search, by file; the others are named in a RecordWarning."""
    for place, fit in store.read_answers(Fit, results / "fits"):
        try:
            parse_case(fit.case)  # raises where the id is no case's
        except (UnknownCase, ValueError) as error:
            reason = str(error).splitlines()[0]
            warnings.warn(f"skipped {place}: {reason}", RecordWarning, stacklevel=2)
        else:
            yield fit


def select_newest(fits: Iterable[Fit]) -> list[Fit]:
    """Return the last search of each case, budget, machine and version of the framework."""
    newest = {}
    for fit in sorted(fits, key=lambda fit: fit.provenance.measured_at):
        newest[fit.case, fit.budget_bytes, fit.provenance.machine, get_framework_version(fit)] = fit
    return list(newest.values())


def get_framework_version(fit: Fit) -> str | None:
    """Return the framework's release without the build's label, as `Record.framework_version`."""
    version = fit.provenance.versions.get(parse_case(fit.case).framework)
    return version.split("+")[0] if version else None


@dataclass(frozen=True)
class CaseSearches:
    """The searches of one case on one machine, in one version of its framework."""

    fits: Sequence[Fit] = ()

    def find_largest_fitting(self, budget: int) -> int:
        """Return the largest batch (samples) that ran within so many bytes or less; 0 if none."""
        batches = []
        for fit in self.fits:
            if fit.budget_bytes <= budget:
                batches += list_batches(fit, "fits")
        return max(batches, default=0)

    def find_smallest_failing(self, budget: int) -> int | None:
        """Return the smallest batch that ran out of memory within so many bytes or more."""
        batches = []
        for fit in self.fits:
            if fit.budget_bytes >= budget:
                batches += list_batches(fit, "memory")
        return min(batches, default=None)

    def check_fits(self, batch: int, budget: int) -> bool | None:
        """Return whether a batch fits into so many bytes; None if no search tells.

        Where two disagree the worse counts.
        """
        failing = self.find_smallest_failing(budget)
        if failing is not None and batch >= failing:
            return False
        if batch <= self.find_largest_fitting(budget):
            return True
        return None

    def find_smallest_holding(self, batch: int) -> int | None:
        """Return the smallest budget (bytes) within which this batch, or a larger one, ran."""
        budgets = []
        for fit in self.fits:
            if max(list_batches(fit, "fits"), default=0) >= batch:
                budgets.append(fit.budget_bytes)
        return min(budgets, default=None)

    def find_largest_failing(self, batch: int) -> int | None:
        """Return the largest budget (bytes) that this batch, or a smaller one, ran out of."""
        budgets = []
        for fit in self.fits:
            if min(list_batches(fit, "memory"), default=math.inf) <= batch:
                budgets.append(fit.budget_bytes)
        return max(budgets, default=None)

    def find_finished(self, batch: int) -> Probe | None:
        """Return a process that ran to its end with this batch."""
        for fit in self.fits:
            for probe in list_probes(fit):
                if probe.batch == batch and probe.outcome == "fits":
                    return probe
        return None


class Searches:
    """The newest searches of all cases, machines and versions."""

    def __init__(self, all_fits: Iterable[Fit] = ()) -> None:
        self.fits = select_newest(all_fits)
        # what was found by the names of a case: every row of a table asks for it several times
        self._untracked: dict[tuple[str, ...], int | None] = {}

    def list_searches(self, case: Case, machine: str) -> list[CaseSearches]:
        """Return each search of any batch of this case on a machine."""
        fits = [fit for fit in self.select_fits(case) if fit.provenance.machine == machine]
        return [CaseSearches([fit]) for fit in fits]

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

        Where this machine has made none, return those of others on a `device` of its kind.
        """
        on_machine = []
        on_device = []
        for fit in self.select_fits(case):
            if get_framework_version(fit) != framework_version:
                continue
            if fit.provenance.machine == machine:
                on_machine.append(fit)
            if fit.provenance.hardware.get("device") == device:
                on_device.append(fit)
        if on_machine or not device:
            return CaseSearches(on_machine)
        return CaseSearches(on_device)

    def find_untracked(self, case: Case) -> int | None:
        """Return the bytes that a process has next to its tensors, such as workspaces.

        They are the most that searches of the same strategy saw, or else of the workload, or of the
        framework; None if there are none of the framework.
        """
        key = (case.framework, case.workload, case.scenario, case.strategy)
        if key not in self._untracked:
            self._untracked[key] = self._find_largest_untracked(case)
        return self._untracked[key]

    def _find_largest_untracked(self, case: Case) -> int | None:
        for names in SIMILAR:
            sizes = []
            for fit in self.fits:
                if not is_similar(fit, case, names):
                    continue
                for probe in list_probes(fit):
                    if probe.kept_bytes is not None:
                        sizes.append(probe.kept_bytes)
            if sizes:
                return max(sizes)
        return None


NO_SEARCHES = Searches()


def list_batches(fit: Fit, outcome: str) -> list[int]:
    """Return the batches of a search that had this outcome."""
    return [probe.batch for probe in fit.probes if probe.outcome == outcome]


def list_probes(fit: Fit) -> Iterator[Probe]:
    """Yield the probes under the limit, and the one without."""
    yield from fit.probes
    if fit.confirmation:
        yield fit.confirmation


def is_similar(fit: Fit, case: Case, names: Iterable[str]) -> bool:
    """Return whether a search and a case agree in these fields."""
    other = parse_case(fit.case)
    return all(getattr(other, name) == getattr(case, name) for name in names)
