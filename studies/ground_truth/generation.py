"""What a cache of keys and values takes for each token, counted from its arrays, beside the
formula.
"""

from __future__ import annotations

from collections.abc import Iterable

from framebench.analysis.rendering import Table, format_mib
from framebench.analysis.selection import select_current, select_one_version
from framebench.records.record import Record
from framebench.suite.case import Case


def bytes_of_a_token(case: Case) -> int:
    """A key and a value in every layer, each as wide as the model, in float32."""
    return 2 * case.config.layers * case.config.width * 4


def comparison(records: Iterable[Record]) -> Table:
    newest: dict[tuple[str, str], Record] = {}
    for r in select_one_version(select_current(records)):
        if r.parsed.scenario == "generate" and r.usable and r.effect and r.peaks:
            newest[r.provenance.machine, r.case] = r
    return Table.of_text(
        "Keys and values of generation",
        "Bytes of the cache's arrays when the sequence has all its tokens, counted in the process, "
        "for each token of a sequence; by formula: 2 x layers x width x 4 bytes. Peak: of a step "
        "that generates the last tokens, the prompt's cache being there. MiB = 2^20 bytes.",
        ("machine", "case", "cache MiB", "bytes a token", "by formula", "peak MiB", "instrument"),
        [row(newest[key]) for key in sorted(newest)],
    )


def row(r: Record) -> tuple[str, ...]:
    case = r.parsed
    size = int(r.effect.evidence["cache_bytes"]) if r.effect else 0
    tokens = case.batch * case.config.length
    return (
        r.provenance.machine,
        r.case,
        format_mib(size),
        f"{size / tokens:,.0f}",
        f"{bytes_of_a_token(case):,}",
        format_mib(r.peak_bytes),
        r.peak_instrument or "-",
    )
