"""What others measured on real accelerators: the rows of data/gpu.csv.

Figures with their sources. Nothing here knows how a row is predicted.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

DATA = Path(__file__).parent / "data"
FILE = "gpu.csv"
ESTIMATORS = {
    "estimate_xmem": "xMem",
    "estimate_dnnmem": "DNNMem",
    "estimate_schedtune": "SchedTune",
    "estimate_llmem": "LLMem",
}
XMEM = "xMem"
AS_THERE = (  # columns whose names and texts a row keeps
    "source",
    "card",
    "framework",
    "framework_version",
    "model",
    "batch",
    "sequence",
    "optimizer",
    "precision",
    "strategy",
    "quantity",
    "note",
)


@dataclass(frozen=True)
class Row:
    """One measured (or, for a compiler, planned) figure. Texts are the source's own."""

    source: str
    link: str
    card: str
    framework: str
    framework_version: str
    model: str
    batch: str
    sequence: str
    optimizer: str
    precision: str
    strategy: str
    quantity: str
    bytes: int
    estimates: Mapping[str, float]  # of other estimators, bytes
    note: str

    @property
    def key(self) -> str:
        """Names the row's prediction: readable, and of no two rows the same."""
        said = "|".join(
            (
                self.source,
                self.link,
                self.model,
                self.batch,
                self.optimizer,
                self.precision,
                self.strategy,
                str(self.bytes),
            )
        )
        words = re.sub(
            r"[^a-z0-9]+", "-", f"{self.source} {self.model} {self.batch}".lower()
        ).strip("-")
        return f"{words[:60].strip('-')}-{sha256(said.encode()).hexdigest()[:8]}"

    @property
    def run_again_bytes(self) -> int | None:
        """xMem's rows: the same run once more, below a limit that its authors had estimated."""
        found = re.search(r"estimate: (\d+) B", self.note)
        return int(found[1]) if found else None

    @property
    def lower_bounds(self) -> set[str]:
        """Estimators that stopped at the card's limit, so that their figure is only a lower
        bound.
        """
        return {
            name for name in ESTIMATORS.values() if f"{name} stopped at the card limit" in self.note
        }


def read(folder: Path = DATA) -> list[Row]:
    """Return all rows in the file's order; none where there is no file."""
    file = folder / FILE
    if not file.exists():
        return []
    with file.open(newline="") as lines:
        return [_row(line) for line in csv.DictReader(lines)]


def _row(line: Mapping[str, str]) -> Row:
    estimates = {name: float(line[column]) for column, name in ESTIMATORS.items() if line[column]}
    return Row(
        **{name: line[name] for name in AS_THERE},
        link=line["link_or_path"],
        bytes=int(line["bytes"]),
        estimates=estimates,
    )


def beside_the_pool(rows: Sequence[Row]) -> dict[str, int]:
    """By card, what xMem's device-wide figures hold beside PyTorch's pool: modules and handles that
    libraries load.

    The authors ran every configuration twice, the second time in a process where they were loaded.
    Most Transformer rows differ by the same number of bytes from their second run: that number.
    (Images have no such pairs: their first sample came late.)
    """
    differences: dict[str, Counter[int]] = {}
    for row in rows:
        if row.source == XMEM and row.sequence and row.run_again_bytes:
            differences.setdefault(row.card, Counter())[row.bytes - row.run_again_bytes] += 1
    return {card: counted.most_common(1)[0][0] for card, counted in differences.items()}
