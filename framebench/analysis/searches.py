"""Results of searches for the largest batch under an enforced limit of memory (`framebench
max-batch`, `results/fits/`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

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
    """Yield every search of all machines, by file; those that cannot be read are named in a
    RecordWarning.
    """
    for path in store.list_files(results / "fits"):
        try:
            fit = Fit.model_validate_json(Path(path).read_bytes())
            parse_case(fit.case)
        except (OSError, ValidationError, UnknownCase, ValueError) as error:
            warnings.warn(
                f"skipped {path}: {str(error).splitlines()[0]}", RecordWarning, stacklevel=2
            )
        else:
            yield fit


def select_newest(fits: Iterable[Fit]) -> list[Fit]:
    """Return the last search of each case and budget, on each machine and in each version of the
    framework.
    """
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
    """What was tried of one case on one machine, in one version of its framework."""

    fits: Sequence[Fit] = ()

    def fitting(self, budget: int) -> int:
        """Return the largest batch (samples) that ran within so many bytes or less; 0 if none
        did.
        """
        batches = []
        for fit in self.fits:
            if fit.budget_bytes <= budget:
                batches += list_batches(fit, "fits")
        return max(batches, default=0)

    def failing(self, budget: int) -> int | None:
        """Return the smallest batch that ran out of memory within so many bytes or more."""
        batches = []
        for fit in self.fits:
            if fit.budget_bytes >= budget:
                batches += list_batches(fit, "memory")
        return min(batches, default=None)

    def verdict(self, batch: int, budget: int) -> bool | None:
        """Return whether a batch fits into so many bytes; None if no search tells.

        Where two disagree the worse counts.
        """
        failing = self.failing(budget)
        if failing is not None and batch >= failing:
            return False
        return True if batch <= self.fitting(budget) else None

    def ran(self, batch: int) -> Probe | None:
        """Return a process that ran to its end with this batch."""
        for fit in self.fits:
            for probe in list_probes(fit):
                if probe.batch == batch and probe.outcome == "fits":
                    return probe
        return None


class Searches:
    """All searches that were made."""

    def __init__(self, all_fits: Iterable[Fit] = ()) -> None:
        self.fits = select_newest(all_fits)

    def of_case(self, case: Case, machine: str) -> list[CaseSearches]:
        """Return each search of any batch of this case.

        A model that is only described was never searched.
        """
        return [
            CaseSearches([fit])
            for fit in self.everywhere(case)
            if fit.provenance.machine == machine
        ]

    def everywhere(self, case: Case) -> list[Fit]:
        """Return the searches of any batch of this case on all machines."""
        names = ("workload", "framework", "scenario", "strategy", "size")
        return [fit for fit in self.fits if is_similar(fit, case, names)]

    def tried(
        self, case: Case, machine: str, framework_version: str | None, device: str | None = None
    ) -> CaseSearches:
        """Return all searches of the case in one version of the framework.

        Where this machine has made none, those of others on a `device` of its kind.
        """
        same = [
            fit for fit in self.everywhere(case) if get_framework_version(fit) == framework_version
        ]
        own = [fit for fit in same if fit.provenance.machine == machine]
        if own or not device:
            return CaseSearches(own)
        return CaseSearches(
            [fit for fit in same if fit.provenance.hardware.get("device") == device]
        )

    def kept(self, case: Case) -> int | None:
        """Return the bytes that a process keeps next to its tensors: workspaces and generated
        kernels.

        They are the most that searches of the same strategy saw, or else of the workload, or of the
        framework; None if there are none of the framework.
        """
        for names in SIMILAR:
            sizes = []
            for fit in self.fits:
                if is_similar(fit, case, names):
                    sizes += [
                        probe.kept_bytes
                        for probe in list_probes(fit)
                        if probe.kept_bytes is not None
                    ]
            if sizes:
                return max(sizes)
        return None


def list_batches(fit: Fit, outcome: str) -> list[int]:
    """Return the batches of a search that came out so."""
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
