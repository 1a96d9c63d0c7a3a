"""What other rooms make for the site: figures and the claims ledger, imported when asked for, as they take seconds to load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from analysis.site.links import case_page, slug
from analysis.site.machine import Machine
from analysis.tables import Comparison

if TYPE_CHECKING:
    from analysis.claims import Entry


@dataclass(frozen=True)
class Picture:
    """A figure as it lies beside its page. `finding` is its title, `source` where its numbers come from."""

    name: str
    file: str
    svg: str
    finding: str
    source: str


def pictures(machine: Machine, results: Path) -> Iterator[Picture]:
    """The figures that the machine's rows can fill."""
    from matplotlib.text import Text

    from analysis.figures import draw_all, svg

    for name, figure in draw_all(machine.table, results).items():
        head, *_, foot = figure.subfigs
        finding, source = (" ".join(t.get_text() for t in part.findobj(Text)).replace("\n", " ") for part in (head, foot))
        yield Picture(name, f"figures/{slug(name)}.svg", svg(figure), finding.strip(), source.strip())


@dataclass(frozen=True)
class Claim:
    """One claim with the table of its arms, and its records: the file, and the page of its case if there is one."""

    entry: Entry
    arms: Comparison
    records: tuple[tuple[str, str], ...]


def claims(machine: Machine, results: Path) -> tuple[Comparison, list[Claim]]:
    """The ledger of one machine: all claims in a table, and one by one."""
    from analysis.claims import detail, ledger, table

    entries = ledger(results, machine.name)
    pages = {case.replace("/", "."): case_page(machine.name, case) for case in machine.found}

    def page(file: str) -> str:
        return pages.get(PurePosixPath(file).parent.name, "")

    return table(entries), [Claim(e, detail(e), tuple((file, page(file)) for file in e.records)) for e in entries]
