"""The page of a machine that has the ledger of claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from framebench.analysis.comparison import Comparison
from framebench.extensions import Page
from framebench.features.claims.entries import Entry
from framebench.features.claims.ledger import ledger
from framebench.features.claims.show import detail, table


@dataclass(frozen=True)
class Claim:
    """One claim with the table of its arms, and its records: the file, and the case if the machine has a page of it."""

    entry: Entry
    arms: Comparison
    records: tuple[tuple[str, str], ...]


def pages(machine: Any) -> Iterator[Page]:
    """All claims in a table, and one by one."""
    yield Page("claims", "Claims", "claims/page.html", lambda: context(machine))


def context(machine: Any) -> dict[str, Any]:
    entries = ledger(machine.results, machine.name)
    cases = {case.replace("/", "."): case for case in machine.records_by_case}

    def case_of(file: str) -> str:
        return cases.get(PurePosixPath(file).parent.name, "")

    claims = [Claim(e, detail(e), tuple((file, case_of(file)) for file in e.records)) for e in entries]
    verdicts = Counter(claim.entry.verdict for claim in claims).most_common()
    return {"ledger": table(entries), "claims": claims, "verdicts": verdicts}
