"""What one machine measured, as the pages need it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from analysis import frames, tables
from analysis.reports import versions
from analysis.site import casepage, headlines
from analysis.tables import Comparison, Line, in_order
from framebench.records.record import Record
from models import spec


@dataclass(frozen=True)
class Machine:
    """What one machine measured: flat rows, tables, and the records by case, newest first."""

    name: str
    table: pd.DataFrame
    found: dict[str, list[Record]]
    headlines: tuple[Comparison, ...]

    @property
    def facts(self) -> Comparison:
        """Hardware and versions of its records."""
        proofs = [r.provenance for several in self.found.values() for r in several]
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
        return versions.comparisons(r for several in self.found.values() for r in several)

    @property
    def side_by_side(self) -> tuple[Comparison, ...]:
        return tuple(tables.frameworks(frames.current(self.table)))

    @property
    def headline_keys(self) -> list[str]:
        return [c.key for c in self.headlines]

    @property
    def summary(self) -> str:
        """Where and with what, in one line."""
        return tables.conditions(self.table.to_dict("records"))


def machines(found: list[Record], table: pd.DataFrame) -> list[Machine]:
    """One for each machine's name; the one that measured last comes first."""
    by_machine: dict[str, dict[str, list[Record]]] = {}
    for record in sorted(found, key=lambda r: r.provenance.measured_at, reverse=True):
        by_machine.setdefault(record.provenance.machine, {}).setdefault(record.case, []).append(record)
    made = []
    for name, cases in by_machine.items():
        own = table[table["machine"] == name]
        made.append(Machine(name, own, cases, tuple(headlines.headlines(own))))
    return made


def all_cases(machine: Machine, lines: list[Line]) -> Comparison:
    """Every case of the machine in one table, for sorting and filtering."""
    head = ("workload", "scenario", "batch", "size", "version", "status")
    ranked = [r for _, group in tables.groups(lines, "workload", "size", "scenario", "batch") for r in in_order(group)]

    def row(r: Line) -> tuple[str, ...]:
        version = "-" if tables.missing(r["framework_version"]) else r["framework_version"]
        place = (r["workload"], r["scenario"], str(r["batch"]), r["size"], version, r["status"])
        framework, strategy, *rest = tables.cells(r)
        return framework, strategy, *place, *(["-"] * len(rest) if r["status"] != "ok" else rest)

    caption = "The record that counts of each case and framework version. Peaks of different instruments are not comparable."
    return Comparison(
        "All cases", caption, ("framework", "strategy", *head, *tables.HEAD[2:]), tuple(row(r) for r in ranked), left=8,
        cases=tuple(r["case"] for r in ranked),
    )  # fmt: skip
