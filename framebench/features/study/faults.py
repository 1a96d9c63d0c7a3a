"""The fault campaign's count: `python -m framebench.features.study.faults docs/faults.md` puts it where the document has its
markers.

The tests that plant a fault enter its outcome; `pytest --faults results/study/faults.json` writes that down.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from framebench.analysis.comparison import Comparison
from framebench.records.provenance import ROOT

SOURCE = ROOT / "results/study/faults.json"
COUNTS = ("tried", "records_lost", "false_ok")
HEAD = ("fault", "seen as", "tried", "records lost", "false ok", "test")


def table(campaign: dict[str, Any]) -> Comparison:
    """A row for each kind of fault, and their sum."""
    tried = pd.DataFrame(campaign["faults"])
    rows = [line((str(fault), str(seen)), group) for (fault, seen), group in tried.groupby(["fault", "seen"])]
    caption = (
        "records lost: expected after the fault and not there. false ok: records that claim to be right, verified and with "
        "their strategy proven, and should not. Counted by the tests themselves on "
        f"{campaign['machine']}, {campaign['measured_at'][:10]}, "
        f"at {(campaign['commit'] or 'no commit')[:10]}{' with uncommitted changes' if campaign['dirty'] else ''}."
    )
    total = line(("all", ""), tried)
    return Comparison.of_text("Faults that were planted, and what came of them", caption, HEAD, (*rows, total), left=2)


def line(names: tuple[str, str], group: pd.DataFrame) -> tuple[str, ...]:
    sums = (str(group[count].sum()) for count in COUNTS)
    return (*names, *sums, "passed" if group["passed"].all() else "FAILED")


def document(text: str, campaign: dict[str, Any]) -> str:
    return re.sub("(<!-- faults -->\n).*?(<!-- end -->)", lambda m: m[1] + table(campaign).markdown() + m[2], text, flags=re.S)


def main(arguments: list[str]) -> None:
    campaign = json.loads(SOURCE.read_text())
    for file in map(Path, arguments):
        file.write_text(document(file.read_text(), campaign))
    print(table(campaign).markdown())


if __name__ == "__main__":
    main(sys.argv[1:])
