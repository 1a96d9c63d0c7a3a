"""What searches for the largest batch found under an enforced limit (`framebench max-batch`, `results/fits/`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from framebench.records import store
from framebench.records.record import case_of
from framebench.records.search import Fit, Probe
from framebench.records.store import RecordWarning
from framebench.suite.case import Case, UnknownCase

# what of a case is the same in a search that can say what its process keeps: the first that has one does
RESEMBLES = (("framework", "workload", "scenario", "strategy"), ("framework", "workload"), ("framework",))


def read(results: Path) -> Iterator[Fit]:
    """Every search, of all machines, by file; those that cannot be read are named in a RecordWarning."""
    for path in store.files(results / "fits"):
        try:
            fit = Fit.model_validate_json(Path(path).read_bytes())
            case_of(fit.case)
        except (OSError, ValidationError, UnknownCase, ValueError) as error:
            warnings.warn(f"skipped {path}: {str(error).splitlines()[0]}", RecordWarning, stacklevel=2)
        else:
            yield fit


def newest(fits: Iterable[Fit]) -> list[Fit]:
    """The last search of each case and budget, on each machine and in each version of the framework."""
    ordered = sorted(fits, key=lambda fit: fit.provenance.measured_at)
    return list({(fit.case, fit.budget_bytes, fit.provenance.machine, version(fit)): fit for fit in ordered}.values())


def version(fit: Fit) -> str | None:
    """Without the build's label, as `Record.framework_version`."""
    full_version = fit.provenance.versions.get(case_of(fit.case).framework)
    return full_version and full_version.split("+")[0]


@dataclass(frozen=True)
class Tried:
    """What was tried of one case on one machine, in one version of its framework."""

    fits: Sequence[Fit] = ()

    def batches(self, outcome: str, within: Callable[[int], bool]) -> list[int]:
        return [p.batch for fit in self.fits if within(fit.budget_bytes) for p in fit.probes if p.outcome == outcome]

    def fitting(self, budget: int) -> int:
        """The largest batch (samples) that ran within so many bytes or less; 0 if none did."""
        return max(self.batches("fits", lambda tried: tried <= budget), default=0)

    def failing(self, budget: int) -> int | None:
        """The smallest batch that ran out of memory within so many bytes or more."""
        return min(self.batches("memory", lambda tried: tried >= budget), default=None)

    def verdict(self, batch: int, budget: int) -> bool | None:
        """Whether a batch fits into so many bytes; None if no search tells. Where two disagree the worse counts."""
        failing = self.failing(budget)
        if failing is not None and batch >= failing:
            return False
        return True if batch <= self.fitting(budget) else None

    def ran(self, batch: int) -> Probe | None:
        """A process that ran to its end with this batch."""
        return next((p for fit in self.fits for p in probes(fit) if p.batch == batch and p.outcome == "fits"), None)


class Searches:
    """All that were made."""

    def __init__(self, all_fits: Iterable[Fit] = ()) -> None:
        self.fits = newest(all_fits)

    def of_case(self, case: Case, machine: str) -> list[Tried]:
        """Each search of any batch of this case. What is only described by its parameters was never searched."""
        return [Tried([fit]) for fit in self.everywhere(case) if fit.provenance.machine == machine]

    def everywhere(self, case: Case) -> list[Fit]:
        """On all machines."""
        return [fit for fit in self.fits if _alike(fit, case, ("workload", "framework", "scenario", "strategy", "size"))]

    def tried(self, case: Case, machine: str, framework_version: str | None, device: str | None = None) -> Tried:
        """All of them in one version of the framework; where this machine has made none, those on a `device` of its kind."""
        same = [fit for fit in self.everywhere(case) if version(fit) == framework_version]
        own = [fit for fit in same if fit.provenance.machine == machine]
        return Tried(own or [fit for fit in same if device and fit.provenance.hardware.get("device") == device])

    def kept(self, case: Case) -> int | None:
        """Bytes that a process takes beside its tensors and keeps, workspaces and generated kernels: the most that searches of
        the same strategy saw, or else of the workload, or of the framework. None if there are none of the framework."""
        for names in RESEMBLES:
            ran = (p for fit in self.fits if _alike(fit, case, names) for p in probes(fit))
            if seen := [p.kept_bytes for p in ran if p.kept_bytes is not None]:
                return max(seen)
        return None


def probes(fit: Fit) -> Iterator[Probe]:
    """Those under the limit, and the one without."""
    return (p for p in (*fit.probes, fit.confirmation) if p)


def _alike(fit: Fit, case: Case, names: Iterable[str]) -> bool:
    other = case_of(fit.case)
    return all(getattr(other, name) == getattr(case, name) for name in names)
