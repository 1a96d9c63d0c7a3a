"""Read the claims from `sources/*.toml`: one file for each source, one `[[claim]]` for each row.

`deciding` and `informational` list measurements. An entry that names no workload or framework
stands for one measurement in each of them in which its cases exist.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from framebench.claims import samples
from framebench.claims.claim import Advice, Claim, Measurement
from framebench.claims.measures import (
    Form,
    Measure,
    OfCases,
    OfProbe,
    Planned,
    PlannedReport,
    PlannedShare,
)
from framebench.claims.needs import Needs
from framebench.claims.places import read_places
from framebench.claims.probed import Read, Reading
from framebench.claims.refs import read_ref
from framebench.claims.rule import Target
from framebench.claims.samples import PEAK
from framebench.claims.store import SNIPPET
from framebench.models import spec
from framebench.strategies.strategy import FRAMEWORKS, Unsupported
from framebench.suite.case import DEFAULT_SIZE, FULL_SIZE, Case, is_declared

FOLDER = Path(__file__).parent / "sources"
PLANNED_FRAMEWORKS = ("torch", "jax")  # whose cases can be planned for a GPU that is not here

# The smallest departures that matter: bytes by 1 %, as everywhere
# (framebench/analysis/statistics.py); times by 5 %, since two processes on a shared machine differ
# by some per cent (studies/noise).
BYTES, SECONDS = 0.01, 0.05
EXPECTED = {
    "less": Target(-1, 1.0, BYTES),
    "more": Target(1, 1.0, BYTES),
    "faster": Target(-1, 1.0, SECONDS),
    "slower": Target(1, 1.0, SECONDS),
    "some": Target(1, 0.0, 0.5),  # a count of one or more
    "none": Target(-1, 0.5),  # a count of zero: one or more is the opposite
}


class Row(BaseModel):
    """One entry of `deciding` or `informational`.

    Cases are written as `refs.read_ref` reads them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal[
        "ratio",
        "value",
        "apart",
        "difference",
        "steepest",
        "flattest",
        "smallest step",
        "fall",
        "planned",
        "planned steps",
        "planned growth",
        "planned share",
        "planned report",
    ] = "ratio"
    expect: str | dict[str, Any]  # a name of `EXPECTED`, or the fields of a Target
    label: str = ""
    name: str = ""  # of a measurement that is of no workload and framework
    workloads: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    quantity: str = PEAK.name
    form: Form | None = None
    case: str = ""
    candidate: str = ""
    base: str | dict[str, str] = ""  # or one by `workload/framework`, with a `default`
    limit_bytes: int = 0  # of a planned share
    releases: tuple[str, ...] = ()  # of JAX, that plan a report
    program: str = ""
    listing: str = ""  # a file of examples/articles
    report: str = ""  # `framework-number` of a program that tries a user's report
    probe: str = ""
    what: str = ""  # that the probe measured
    read: Read | None = None  # these are the fields of a Reading
    of: tuple[str, ...] = ()
    exact: bool = False
    right: float = 1.0
    at_least: float = 0.0
    metric: str = ""


def read_claims() -> tuple[Claim, ...]:
    """Return all claims, in the order of their sources.

    Raises ValueError for a row that is malformed.
    """
    places = read_places()
    claims: list[Claim] = []
    for file in sorted(FOLDER.glob("*.toml")):
        for claim in read_source(file, tomllib.loads(file.read_text())["claim"]):
            claims.append(replace(claim, place=places.get(claim.name)))
    return tuple(claims)


def read_source(file: Path, rows: list[dict[str, Any]]) -> Iterator[Claim]:
    """Yield the claims of a file.

    Raises ValueError with the file and the claim that is malformed.
    """
    for fields in rows:
        try:
            yield read_claim(fields)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file}: claim {fields.get('id')}: {error}") from error


def read_claim(fields: dict[str, Any]) -> Claim:
    """Return the claim that a `[[claim]]` describes."""
    made = dict(fields)
    expect = made.pop("expect", None)  # of all measurements that do not say otherwise
    made["advice"] = tuple(Advice(**one) for one in fields.get("advice", ()))
    made["needs"] = Needs(**fields.get("needs", {}))
    made["absent"] = tuple(fields.get("absent", ()))
    for kind in ("deciding", "informational"):
        measurements: list[Measurement] = []
        for row in fields.get(kind, ()):
            measurements += make_measurements(**{"expect": expect, **row})
        made[kind] = tuple(measurements)
    return Claim(**made)


def make_measurements(**fields: Any) -> tuple[Measurement, ...]:
    """Return the measurements of one entry that is given by its fields."""
    return tuple(expand(Row(**fields)))


def expand(row: Row) -> Iterator[Measurement]:
    """Yield the measurements that a row stands for."""
    target = EXPECTED[row.expect] if isinstance(row.expect, str) else Target(**row.expect)
    measures: list[tuple[str, Measure]]
    if row.read:
        measures = [read_probe(row, row.read)]
    elif row.releases:
        measures = list_reports(row)
    elif row.name:  # of two frameworks
        measures = [(row.name, make_measure(row, "", ""))]
    elif row.kind.startswith("planned"):
        measures = list_planned(row)
    else:
        measures = list_measured(row)
    for name, measure in measures:
        yield Measurement(name, measure, target)


def list_reports(row: Row) -> list[tuple[str, Measure]]:
    """Return the plans of a user's program by each release, with their name."""
    measures: list[tuple[str, Measure]] = []
    for release in row.releases:
        report = PlannedReport(release, row.program, row.candidate, str(row.base))
        measures.append((f"{row.name} planned", report))
    return measures


def list_planned(row: Row) -> list[tuple[str, Measure]]:
    """Return the plans of a row in each workload and framework that has its cases."""
    # a batch that the row names is planned whether the size declares it or not
    names_batch = "@b" in row.candidate
    measures: list[tuple[str, Measure]] = []
    for workload, framework in places(row, PLANNED_FRAMEWORKS):
        parts = [f"{workload}/{framework}", row.label, "planned"]
        name = " ".join(part for part in parts if part)
        for measure in make_planned(row, workload, framework):
            if names_batch or all(map(exists, measure.planned_cases())):
                measures.append((name, measure))
    return measures


def list_measured(row: Row) -> list[tuple[str, Measure]]:
    """Return the measures of a row in each workload and framework that has its cases."""
    measures: list[tuple[str, Measure]] = []
    for workload, framework in places(row, FRAMEWORKS):
        measure = make_measure(row, workload, framework)
        cases = measure.cases(DEFAULT_SIZE)
        if cases and all(map(exists, cases)):
            measures.append((f"{workload}/{framework} {row.label}".strip(), measure))
    return measures


def places(row: Row, frameworks: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each workload with each framework.

    Where the row names no workloads, they are all those whose references two frameworks confirm.
    """
    yield from product(
        row.workloads or spec.list_confirmed_workloads(), row.frameworks or frameworks
    )


def exists(case: Case) -> bool:
    """Return whether a case is declared, and not unsupported by nature; what needs a GPU exists."""
    if not is_declared(case) or isinstance(case.support, Unsupported):
        return False
    return case.support.supported


def base_at(row: Row, workload: str, framework: str) -> str:
    """Return what the row compares with in this workload and framework."""
    if isinstance(row.base, str):
        return row.base
    return row.base.get(f"{workload}/{framework}") or row.base["default"]


def make_measure(row: Row, workload: str, framework: str) -> Measure:
    """Return the measure of cases that the row describes, in one workload and framework."""
    texts = [row.case]
    if not row.case:
        texts = [base_at(row, workload, framework), row.candidate]
    refs = tuple(read_ref(text, workload, framework) for text in texts)
    return OfCases(row.kind, samples.find_quantity(row.quantity), refs, row.form)


def make_planned(row: Row, workload: str, framework: str) -> Iterator[Measure]:
    """Yield the measures of plans that the row describes, in one workload and framework."""
    if row.limit_bytes:
        yield PlannedShare(read_ref(row.case, workload, framework), row.limit_bytes)
        return
    if row.kind == "planned steps":
        pairs = list_steps(row.case, workload)
    else:
        pairs = [(row.candidate, base_at(row, workload, framework))]
    for candidate, base in pairs:
        measure = Planned(
            row.quantity,  # type: ignore[arg-type]
            read_ref(candidate, workload, framework),
            read_ref(base, workload, framework),
            is_growth=row.kind != "planned",
        )
        if measure.planned_cases():
            yield measure


def list_steps(case: str, workload: str) -> list[tuple[str, str]]:
    """Return a case at each batch of full size, with the same at the next smaller one."""
    preset = spec.load_workload(workload).sizes.get(FULL_SIZE)
    if preset is None:
        return []
    return [(f"{case}@b{large}", f"{case}@b{small}") for small, large in pairwise(preset.batches)]


def read_probe(row: Row, read: Read) -> tuple[str, OfProbe]:
    """Return the name and the measure of a number that a probe of any kind finds."""
    reading = Reading(read, row.of, row.exact, row.right, row.at_least, row.metric)
    if row.listing:
        probe, what = f"{SNIPPET}{row.listing}", f"{row.listing}.py"
        return row.name, OfProbe(probe, reading, row.form or "count", what)
    if row.report:
        framework = row.report.partition("-")[0]
        measure = OfProbe(
            f"report-{row.report}", reading, row.form or "change", "the report's program, smaller"
        )
        return f"{framework} {row.name}", measure
    return row.name, OfProbe(row.probe, reading, row.form or "number", row.what)
