"""What other packages make for the site: figures and the claims ledger, imported when asked for: loading takes seconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from framebench.analysis.comparison import Comparison
from framebench.features.site.links import case_page, slug
from framebench.features.site.machine import Machine

if TYPE_CHECKING:
    from framebench.analysis.figures import Picture
    from framebench.analysis.results import Results
    from framebench.features.claims import Entry


def pictures(machine: Machine, results: Results) -> dict[str, Picture]:
    """The figures that the machine's rows can fill, by the file beside the machine's pages."""
    from framebench.analysis.figures import pictures

    return {f"figures/{slug(picture.name)}.svg": picture for picture in pictures(machine.shown, results)}


@dataclass(frozen=True)
class Claim:
    """One claim with the table of its arms, and its records: the file, and the page of its case if there is one."""

    entry: Entry
    arms: Comparison
    records: tuple[tuple[str, str], ...]


def claims(machine: Machine, results: Results) -> tuple[Comparison, list[Claim]]:
    """The ledger of one machine: all claims in a table, and one by one."""
    from framebench.features.claims import detail, ledger, table

    entries = ledger(results, machine.name)
    pages = {case.replace("/", "."): case_page(machine.name, case) for case in machine.found}

    def page(file: str) -> str:
        return pages.get(PurePosixPath(file).parent.name, "")

    return table(entries), [Claim(e, detail(e), tuple((file, page(file)) for file in e.records)) for e in entries]
