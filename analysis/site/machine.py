"""What one machine measured, as the pages need it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from analysis import frames, tables
from analysis.comparison import Comparison, Shown
from analysis.reports import versions
from analysis.selection import measured_at, of_one_version, unlimited
from analysis.site import casepage, headlines
from framebench.records.record import Record
from models import spec


@dataclass(frozen=True)
class Machine:
    """What one machine measured: its records by case, newest first, and as tables."""

    name: str
    found: dict[str, list[Record]]

    @cached_property
    def records(self) -> list[Record]:
        return [r for several in self.found.values() for r in several]

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each case and framework version."""
        return frames.frame(self.records)

    @cached_property
    def shown(self) -> pd.DataFrame:
        """The rows of one version of each framework."""
        return frames.frame(of_one_version(unlimited(self.records)))

    @cached_property
    def headlines(self) -> tuple[Comparison, ...]:
        return tuple(headlines.headlines(self.shown))

    @property
    def facts(self) -> Comparison:
        """Hardware and versions of its records."""
        proofs = [r.provenance for r in self.records]
        newest = max(proofs, key=lambda p: p.measured_at)
        versions = {f"{f} {v}" for f, v in zip(self.table["framework"], self.table["framework_version"]) if isinstance(v, str)}
        states = self.table["status"].value_counts().sort_index()
        return casepage.pairs(
            "The machine",
            "As its newest record has it.",
            [
                *newest.hardware.items(),
                ("frameworks", sorted(versions)),
                ("cases by status", {str(k): int(v) for k, v in states.items()}),
                ("records", len(proofs)),
                ("measured (UTC)", f"{min(p.measured_at for p in proofs):%Y-%m-%d} to {newest.measured_at:%Y-%m-%d}"),
                ("calibration", frames.calibrated(newest.calibration)),
                ("threads", newest.threads),
            ],
        )

    @cached_property
    def workloads(self) -> list[str]:
        return [name for name in spec.NAMES if name in set(self.table["workload"])]

    @cached_property
    def pages(self) -> list[tuple[str, str]]:
        """File names without ending, and titles."""
        compared = [("versions", "Versions")] if self.versions else []
        others = [("figures", "Figures"), ("claims", "Claims"), *compared, ("cases", "All cases")]
        return [("index", "Summary"), *((w, w) for w in self.workloads), *others]

    @cached_property
    def versions(self) -> list[Comparison]:
        """Each version of a framework against the one before it, where both have a case."""
        return versions.comparisons(self.records)

    @property
    def side_by_side(self) -> tuple[Comparison, ...]:
        return tuple(tables.frameworks(self.shown))

    @property
    def headline_keys(self) -> list[str]:
        return [c.key for c in self.headlines]

    @property
    def summary(self) -> str:
        """Where and with what, in one line."""
        return tables.conditions(self.table)


def machines(found: list[Record]) -> list[Machine]:
    """One for each machine's name; the one that measured last comes first."""
    by_machine: dict[str, dict[str, list[Record]]] = {}
    for record in sorted(found, key=measured_at, reverse=True):
        by_machine.setdefault(record.provenance.machine, {}).setdefault(record.case, []).append(record)
    return [Machine(name, cases) for name, cases in by_machine.items()]


def all_cases(machine: Machine) -> Comparison:
    """Every case of the machine in one table, for sorting and filtering."""
    place = {name: Shown(name) for name in ("workload", "scenario", "batch", "size")}
    place |= {"framework_version": Shown("version"), "status": Shown("status")}
    first = {name: tables.SHOWN[name] for name in ("framework", "strategy")}
    found = tables.cells(machine.table)
    found["peak_bytes"] = found["peak_bytes"].where(found["status"] == "ok", None)  # the status has a column of its own
    caption = "The record that counts of each case and framework version. Peaks of different instruments are not comparable."
    return Comparison(
        "All cases", caption, found, first | place | tables.SHOWN, left=8, cases=tuple(machine.table["case"])
    )  # fmt: skip
