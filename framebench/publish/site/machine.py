"""What one machine measured, as the pages need it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from framebench.analysis import frames, tables
from framebench.analysis.comparison import Comparison, Shown
from framebench.analysis.reports.page import Page
from framebench.analysis.results import Results
from framebench.analysis.selection import counting, measured_at, of_one_version
from framebench.claims import pages as claims
from framebench.models import spec
from framebench.publish.site import casepage, drawn, headlines
from framebench.publish.site.titles import SCENARIO_ORDER, TRYING, title
from framebench.records.record import Record
from framebench.versions import pages as versions


@dataclass(frozen=True)
class Machine:
    """What one machine measured: its records by case, newest first, and as tables."""

    name: str
    records_by_case: dict[str, list[Record]]
    results: Results  # that the records are from

    @cached_property
    def records(self) -> list[Record]:
        return [r for several in self.records_by_case.values() for r in several]

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each case and framework version."""
        return frames.frame(self.records)

    @cached_property
    def shown(self) -> pd.DataFrame:
        """The rows of one version of each framework."""
        return frames.frame(of_one_version(counting(self.records)))

    @cached_property
    def with_a_page(self) -> dict[str, pd.Series]:
        """Cases by name, with the row that the page shows: of the pinned version, where there are several. A case over ranks
        is in no table and has no page."""
        return {line["case"]: line for table in (self.table, self.shown) for _, line in table.iterrows()}

    @cached_property
    def headlines(self) -> tuple[Comparison, ...]:
        return tuple(headlines.headlines(self.shown))

    @property
    def doubt(self) -> int:
        """About the instruments, by any of its calibrations: 0 for passed, 1 for not done, 2 for failed."""
        instrument_checks = [r.provenance.calibration for r in self.records]
        return 2 if any(c and not c.passed for c in instrument_checks) else 0 if any(instrument_checks) else 1

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
                ("calibration", frames.describe_calibration(newest.calibration)),
                ("threads", newest.threads),
            ],
        )

    @cached_property
    def workloads(self) -> list[str]:
        return [name for name in spec.names() if name in set(self.table["workload"])]

    @cached_property
    def pages(self) -> list[tuple[str, str]]:
        """File names without ending, and titles."""
        others = [
            ("figures", "Figures"),
            *((page.name, page.title) for page in self.more_pages if page.title),
            ("cases", "All cases"),
        ]
        return [("index", "Summary"), *((w, title(w)) for w in self.workloads), *others]

    @cached_property
    def drawn(self) -> dict[str, list[drawn.Drawn]]:
        """By workload its scenarios as pictures, training first; without those that have nothing to compare."""
        return {w: drawn.drawn(self.shown[self.shown["workload"] == w], SCENARIO_ORDER) for w in self.workloads}

    @cached_property
    def more_pages(self) -> list[Page]:
        """The pages of claims and of versions."""
        return [*claims.pages(self), *versions.pages(self)]

    @property
    def side_by_side(self) -> tuple[Comparison, ...]:
        return tuple(tables.make_framework_tables(self.shown))

    @property
    def headline_keys(self) -> list[str]:
        return [c.key for c in self.headlines]

    @property
    def summary(self) -> str:
        """Where, with what and when, in one line."""
        newest = max(self.records, key=measured_at).provenance
        named = zip(self.shown["framework"], self.shown["framework_version"])
        versions = sorted({f"{title(framework)} {version}" for framework, version in named if isinstance(version, str)})
        days = dict.fromkeys(f"{end(map(measured_at, self.records)):%Y-%m-%d}" for end in (min, max))
        device = newest.hardware.get("device", "cpu")
        place = newest.hardware.get("cpu", "unknown processor") if device == "cpu" else device
        return f"{place}; {', '.join(versions)}; measured {' to '.join(days)}."


def machines(records: list[Record], results: Results) -> list[Machine]:
    """One for each machine's name: one that was not calibrated comes late, one that failed last; then the one with most
    records, which the ledger of claims shows too."""
    by_machine: dict[str, dict[str, list[Record]]] = {}
    for record in sorted(records, key=measured_at, reverse=True):
        by_machine.setdefault(record.provenance.machine, {}).setdefault(record.case, []).append(record)
    return sorted(
        (Machine(name, cases, results) for name, cases in by_machine.items()), key=lambda m: (m.doubt, -len(m.records))
    )


def all_cases(machine: Machine) -> Comparison:
    """Every case of the machine in one table, for sorting and filtering."""
    sizes = ["size"] if machine.table["size"].nunique() > 1 else []
    place = {name: Shown(name) for name in ("workload", "scenario", "batch", *sizes)} | {"framework_version": Shown("version")}
    first = {name: tables.SHOWN[name] for name in ("framework", "strategy")}
    caption = (
        f"One record per case and version: the current one. {tables.describe_instruments(machine.table)} "
        "The page of a case has "
        "the framework's own counter, errors, blocks and the first step."
    )
    return Comparison(
        "All cases",
        caption,
        tables.make_cells(machine.table),
        first | place | tables.select_columns(machine.table, {name: tables.SHOWN[name] for name in OF_ALL}),
        left=len(first) + len(place),
        cases=tuple(machine.table["case"]),
    )


OF_ALL = ("shared_bytes", "relative_peak", "step_time_s", "relative", "effect_proven")
CHOSEN = ("scenario", "batch")  # what a reader chooses of a workload's table
WORKLOAD = ("shared_bytes", "relative_peak", "step_time_s", "range", "relative", "throughput", "worst_error", "effect_proven")


def of_workload(machine: Machine, workload: str) -> Comparison:
    """Every case of a workload that people use, in one table: the first scenario at its usual batch comes first."""
    mine = tables.select_in_use(machine.shown[machine.shown["workload"] == workload])
    scenarios = [*SCENARIO_ORDER, *sorted(set(mine["scenario"]) - set(SCENARIO_ORDER))]
    trying = mine["size"] == TRYING
    usual = mine.groupby(["scenario", trying])["batch"].transform(lambda batches: batches.mode().min())
    order = mine.assign(place=mine["scenario"].map(scenarios.index), trying=trying, other=mine["batch"] != usual)
    mine = mine.loc[order.sort_values(["place", "trying", "other", "batch", "size"], kind="stable").index]
    sizes = ["size"] if mine["size"].nunique() > 1 else []
    names = ["framework", "strategy", *CHOSEN, *sizes]
    lost = mine[mine["status"] != "ok"]
    told = [f"{r.framework} {r.strategy}: {r.status}: {r.reason}" for r in lost.itertuples()]
    conditions = f"{tables.timing(mine)} {tables.conditions(mine)}"
    return Comparison(
        "Every case",
        f"x base: over the baseline strategy of the same framework and batch. {tables.describe_instruments(mine)} {conditions}",
        tables.make_cells(mine),
        {name: Shown(name) for name in names} | tables.select_columns(mine, {name: tables.SHOWN[name] for name in WORKLOAD}),
        left=len(names),
        notes=tuple(dict.fromkeys(told)),
        machine=machine.name,
        cases=tuple(mine["case"]),
    )
