"""Read the claims from `sources/*.toml`: one file for each source, one `[[claim]]` for each row.

`deciding` and `informational` list measurements. An entry that names no workload or framework
stands for one measurement in each of them in which its cases exist. Of those in `deciding` the ones
of another framework than the row's place is about are informational.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from framebench.claims.claim import Advice, Claim, Measurement, Place
from framebench.claims.measures import (
    FORMS,
    CaseMeasure,
    Form,
    Measure,
    PlannedRatio,
    PlannedReport,
    ProgramMeasure,
    Read,
    read_ref,
)
from framebench.claims.plans import PLANNED_FRAMEWORKS
from framebench.claims.preconditions import Preconditions
from framebench.claims.rule import Target
from framebench.claims.samples import PEAK, find_quantity
from framebench.claims.store import SNIPPET
from framebench.models import spec
from framebench.strategies.strategy import FRAMEWORKS, Unsupported
from framebench.suite.case import DEFAULT_SIZE, Case, is_declared

FOLDER = Path(__file__).parent / "sources"
PLACES = FOLDER / "places.csv"
# the frameworks that an article is about, whose comparisons decide
ABOUT = {"A": ("jittor",), "B": ("torch", "jittor"), "C": ("torch",)}
FIRST_CHAPTER_OF_B = ("一", "1.")  # its title names only PyTorch

# The smallest departures that matter: bytes by 1 %, as everywhere
# (framebench/analysis/statistics.py); times by 5 %, since two processes on a shared machine differ
# by some per cent (studies/noise).
BYTES, SECONDS = 0.01, 0.05
EXPECTED = {
    "less": Target(direction=-1, null=1.0, minimum=BYTES),
    "more": Target(direction=1, null=1.0, minimum=BYTES),
    "faster": Target(direction=-1, null=1.0, minimum=SECONDS),
    "slower": Target(direction=1, null=1.0, minimum=SECONDS),
    # a count of one or more
    "some": Target(direction=1, null=0.0, minimum=0.5),
    # a count of zero: one or more is the opposite
    "none": Target(direction=-1, null=0.5),
}


class Row(BaseModel):
    """One entry of `deciding` or `informational`.

    Cases are written as `measures.read_ref` reads them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["ratio", "value", "difference", "flattest", "slope", "bend", "planned"] = "ratio"
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
    releases: tuple[str, ...] = ()  # of JAX, that plan a report
    program: str = ""
    listing: str = ""  # a file of examples/articles
    report: str = ""  # `framework-number` of a program that tries a user's report
    read: Read | None = None  # these are the fields of a ProgramMeasure
    of: tuple[str, ...] = ()
    exact: bool = False
    right: float = 1.0


def read_claims() -> tuple[Claim, ...]:
    """Return all claims, in the order of their sources.

    Raises ValueError for a row that is malformed.
    """
    places = read_places()
    claims: list[Claim] = []
    for file in sorted(FOLDER.glob("*.toml")):
        claims += read_source(
            file, tomllib.loads(file.read_text(encoding="utf-8"))["claim"], places
        )
    return tuple(claims)


def read_places() -> dict[str, Place]:
    """Return the place of each row by the row's name.

    A test checks that no row has a number or a name that is missing from its place.
    """
    places = {}
    with PLACES.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            places[line["row"]] = Place(
                article=line["article"],
                section=line["section"],
                phrase=line["phrase"],
                numbers=tuple(line["numbers"].split(";")),
                names=tuple(line["names"].split(";")),
                prints=tuple(line["prints"].split("|")) if line["prints"] else (),
            )
    return places


def read_source(
    file: Path, rows: list[dict[str, Any]], places: dict[str, Place]
) -> Iterator[Claim]:
    """Yield the claims of a file.

    Raises ValueError with the file and the claim that is malformed.
    """
    for fields in rows:
        try:
            yield read_claim(fields, places)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file}: claim {fields.get('id')}: {error}") from error


def read_claim(fields: dict[str, Any], places: dict[str, Place]) -> Claim:
    """Return the claim that a `[[claim]]` describes."""
    values = dict(fields)
    default_expect = values.pop("expect", None)  # of measurements without an `expect` of their own
    name = f"{fields['id']} {fields.get('part', '')}".strip()
    place = places.get(name)
    claimed_frameworks = find_frameworks(fields["id"][0], place)
    deciding: list[Measurement] = []
    informational: list[Measurement] = []
    # an article on Jittor is neither confirmed nor refuted by JAX
    for row in fields.get("deciding", ()):
        for measurement in make_measurements(**{"expect": default_expect, **row}):
            if {ref.framework for ref in measurement.measure.refs} <= claimed_frameworks:
                deciding.append(measurement)
            else:
                informational.append(measurement)
    for row in fields.get("informational", ()):
        informational += make_measurements(**{"expect": default_expect, **row})
    values |= {
        "deciding": tuple(deciding),
        "informational": tuple(informational),
        "advice": tuple(Advice(**row) for row in fields.get("advice", ())),
        "needs": Preconditions(**fields.get("needs", {})),
        "absent": tuple(fields.get("absent", ())),
    }
    return Claim(**values, place=place)


def find_frameworks(source: str, place: Place | None) -> set[str]:
    """Return the frameworks that the place of a row is about."""
    if source == "B" and place is not None and place.section.startswith(FIRST_CHAPTER_OF_B):
        return {"torch"}
    return set(ABOUT.get(source, FRAMEWORKS))


def make_measurements(**fields: Any) -> tuple[Measurement, ...]:
    """Return the measurements that an entry stands for, given by its fields.

    Raises ValueError, KeyError.
    """
    row = Row(**fields)
    target = EXPECTED[row.expect] if isinstance(row.expect, str) else Target(**row.expect)
    measurements = []
    for name, measure in list_measures(row):
        measurements.append(Measurement(name, measure, target))
    return tuple(measurements)


def list_measures(row: Row) -> Iterator[tuple[str, Measure]]:
    """Yield the measures that a row stands for, each with its name."""
    if row.read:
        yield read_program(row, row.read)
    elif row.releases:
        for release in row.releases:
            report = PlannedReport(release, row.program, row.candidate, str(row.base))
            yield f"{row.name} planned", report
    elif row.name:  # of two frameworks
        yield row.name, make_measure(row, "", "")
    else:
        yield from list_in_workloads(row)


def list_in_workloads(row: Row) -> Iterator[tuple[str, Measure]]:
    """Yield the measures of a row in each workload and framework in which its cases exist."""
    frameworks, ending = FRAMEWORKS, ""
    if row.kind == "planned":
        frameworks, ending = PLANNED_FRAMEWORKS, "planned"
    # all workloads are those whose references two frameworks confirm
    workloads = row.workloads or spec.list_confirmed_workloads()
    for workload, framework in product(workloads, row.frameworks or frameworks):
        measure = make_measure(row, workload, framework)
        cases = measure.list_planned_cases() or measure.list_cases(DEFAULT_SIZE)
        # a batch that the row names is planned whether the size declares it or not
        if cases and ("@b" in row.candidate or all(map(is_supported, cases))):
            name = f"{workload}/{framework} {row.label} {ending}"
            yield " ".join(name.split()), measure


def is_supported(case: Case) -> bool:
    """Return whether a case is declared, and its framework supports it on some device."""
    if not is_declared(case) or isinstance(case.support, Unsupported):
        return False
    return case.support.supported


def make_measure(row: Row, workload: str, framework: str) -> Measure:
    """Return the measure of cases that the row describes, in one workload and framework.

    A row is about one `case`, or compares its `candidate` with its `base`, which may be another one
    for some workloads and frameworks.
    """
    base = row.base
    if isinstance(base, dict):
        base = base.get(f"{workload}/{framework}") or base["default"]
    texts = [row.case] if row.case else [base, row.candidate]
    refs = tuple(read_ref(text, workload, framework) for text in texts)
    if row.kind == "planned":
        return PlannedRatio(row.quantity, refs)  # type: ignore[arg-type]
    form = row.form or FORMS[row.kind]
    return CaseMeasure(row.kind, find_quantity(row.quantity), refs, form)


def read_program(row: Row, read: Read) -> tuple[str, ProgramMeasure]:
    """Return the name and the measure of a number that a program prints."""
    name = row.name
    probe = f"{SNIPPET}{row.listing}"
    file = f"{row.listing}.py"
    form: Form = "count"
    if row.report:
        framework, _, _number = row.report.partition("-")
        name = f"{framework} {name}"
        probe = f"report-{row.report}"
        file = "the report's program"
        form = "change"
    measure = ProgramMeasure(
        read,
        probe,
        of=row.of,
        exact=row.exact,
        right=row.right,
        form=row.form or form,
        file=file,
    )
    return name, measure
