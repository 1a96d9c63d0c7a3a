"""The planted bugs' table: `python -m analysis.studies.mutants docs/faults.md` puts it where the document has its markers.

`make mutants` plants them and writes what came of each.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.comparison import Comparison
from framebench.records.provenance import ROOT
from framebench.suite.strategy import FRAMEWORKS

SOURCE = ROOT / "results/study/mutants.json"
NAMES = {"torch": "PyTorch", "jax": "JAX", "jittor": "Jittor"}
Line = dict[str, Any]


def framework(line: Line) -> str:
    return str(line["case"].split("/")[1])


def planted(found: Line) -> list[Line]:
    """Without the cases that were tried without any bug."""
    return [line for line in found["bugs"] if line["bug"]]


def comparisons(found: Line) -> list[Comparison]:
    """The count, then each framework's bugs."""
    return [counts(found), *listed(found)]


def counts(found: Line) -> Comparison:
    lines = planted(found)
    kinds = sorted({(framework(line), line["precision"]) for line in lines})
    alike = [[line for line in lines if (framework(line), line["precision"]) == kind] for kind in kinds]
    rows = [(NAMES[name], precision, *count(group)) for (name, precision), group in zip(kinds, alike)]
    controls = [line for line in found["bugs"] if not line["bug"]]
    unharmed = f"{sum(line['status'] == 'ok' for line in controls)} ok, the largest error {largest(controls)} of its tolerance"
    where = f"protocol {found['protocol']}, {found['machine']}, {found['measured_at'][:10]}"
    commit = f"at {(found['commit'] or 'no commit')[:10]}{' with uncommitted changes' if found['dirty'] else ''}"
    caption = (
        "smallest: the smallest error of those that were caught, in units of its tolerance. Their "
        f"{len(controls)} cases without any bug: {unharmed}. {where[0].upper()}{where[1:]}, {commit}."
    )
    head = ("framework", "precision", "planted", "wrong", "equivalent", "survived", "smallest")
    return Comparison.of_text("Bugs that were planted in the source", caption, head, (*rows, ("all", "", *count(lines))))


def count(lines: list[Line]) -> tuple[str, ...]:
    wrong = [line for line in lines if line["status"] == "wrong"]
    equivalent = [line for line in lines if line["equivalent"] and line["status"] == "ok"]
    margins = [line["margin"] for line in wrong if line["margin"] is not None]
    smallest = times(min(margins)) if margins else "-"
    return str(len(lines)), str(len(wrong)), str(len(equivalent)), str(len(lines) - len(wrong) - len(equivalent)), smallest


def times(margin: float) -> str:
    return f"{margin:,.0f}" if margin >= 100 else f"{margin:.3g}"


def largest(controls: list[Line]) -> str:
    return f"{max(line['margin'] or 0.0 for line in controls):.2g}"


def listed(found: Line) -> Iterator[Comparison]:
    head = ("bug", "case", "came out", "seen in", "error / tolerance")
    for name in FRAMEWORKS:
        lines = [line for line in planted(found) if framework(line) == name]
        notes = tuple(f"{line['bug']}: equivalent, since {line['equivalent']}" for line in lines if line["equivalent"])
        yield Comparison.of_text(f"Bugs planted in {NAMES[name]}", "", head, tuple(map(row, lines)), left=4, notes=notes)


def row(line: Line) -> tuple[str, ...]:
    seen = line["by"] if line["status"] == "wrong" else ""
    margin = "" if not seen else "no number" if line["margin"] is None else times(line["margin"])
    status = "ok (equivalent)" if line["equivalent"] and line["status"] == "ok" else line["status"]
    return line["bug"], line["case"].removesuffix("/b4/tiny"), status, seen, margin


def document(text: str, found: Line) -> str:
    body = "\n".join(c.markdown() for c in comparisons(found))
    return re.sub("(<!-- mutants -->\n).*?(<!-- end -->)", lambda m: m[1] + body + m[2], text, flags=re.S)


def main(arguments: list[str]) -> None:
    found = json.loads(SOURCE.read_text())
    for file in map(Path, arguments):
        file.write_text(document(file.read_text(), found))
    print(counts(found).markdown())


if __name__ == "__main__":
    main(sys.argv[1:])
