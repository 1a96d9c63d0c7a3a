"""Which rows a figure shows, which it leaves out, and the words for both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from analysis.figures.page import NAMES
from analysis.tables import Line, conditions, in_order, missing
from framebench.records.record import case_of
from framebench.suite.case import DEFAULT_SIZE
from framebench.suite.protocol import VERSION
from framebench.suite.registry import BASELINES, names
from framebench.suite.strategy import FRAMEWORKS

NAMED = 12  # so many cases are named in a footer, the others are counted
FOR_ALL = "host.rss"  # the one instrument that every framework has on a CPU


def one_batch(rows: list[Line]) -> list[Line]:
    """Of each framework and strategy the row at the batch that most have, or at the next smallest with numbers."""
    usual = usual_batch(rows)
    ranked = sorted(rows, key=lambda r: (r["batch"] != usual, not usable(r), r["batch"]))
    kept = {(r["framework"], r["strategy"]): r for r in reversed(ranked)}
    return in_order(list(kept.values()))


def usual_batch(rows: list[Line]) -> int:
    """The batch with the most rows, the smallest among equals."""
    counts = Counter(r["batch"] for r in rows)
    return int(min(counts, key=lambda b: (-counts[b], b)))


def batches(rows: list[Line]) -> str:
    """At which batch these rows were measured."""
    usual = usual_batch(rows)
    others = sorted({f"{r['strategy']} at {r['batch']}" for r in rows if r["batch"] != usual})
    return f"Batch {usual}{f' ({shortened(others)})' if others else ''}, size {rows[0]['size']}."


def worth_a_row(group: list[Line]) -> list[Line]:
    """Without the strategies that no framework has numbers for: they are named in the footer alone."""
    seen = {r["strategy"] for r in group if usable(r)}
    return [r for r in group if r["strategy"] in seen]


def in_table_order(group: list[Line]) -> list[str]:
    """The strategies of these rows, each once."""
    present = dict.fromkeys(r["strategy"] for r in group)
    known = [name for name in names(group[0]["scenario"]) if name in present]
    return known + sorted(set(present) - set(known))


def usable(r: Line) -> bool:
    """Whether its numbers may be shown: verified, and the strategy was seen to be on."""
    return r["status"] == "ok" and r["effect_proven"] is True


def outcome(r: Line) -> str:
    """Why a row has no numbers here."""
    return "not proven" if r["status"] == "ok" else str(r["status"])


def same_model(r: Line) -> bool:
    """Whether the strategy leaves the mathematics what it is; another model is no way to run this one in less memory."""
    return case_of(r["case"]).plan.same_loss


def baseline(r: Line) -> bool:
    return bool(r["strategy"] == BASELINES[r["scenario"]])


def of(rows: Iterable[Line], framework: str) -> list[Line]:
    return [r for r in rows if r["framework"] == framework]


def frameworks(rows: Iterable[Line]) -> list[str]:
    """Those that occur, in the order of the table."""
    present = {r["framework"] for r in rows}
    return [f for f in FRAMEWORKS if f in present]


def times(value: float) -> str:
    """A ratio."""
    return f"{value:.2f}x" if value < 10 else f"{value:,.0f}x"


def listed(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def between(values: Iterable[float]) -> str:
    """The range of some ratios, a single one if they agree in what is printed."""
    found = sorted(values)
    return " to ".join(dict.fromkeys((times(found[0]), times(found[-1]))))


def suffix(size: str) -> str:
    """A figure's name says its size unless it is the usual one."""
    return "" if size == DEFAULT_SIZE else f"-{size}"


def heading(framework: str, rows: Iterable[Line]) -> str:
    """A panel's title: framework, version, and who read its peaks."""
    found = of(rows, framework)
    versions = sorted({r["framework_version"] for r in found if not missing(r["framework_version"])})
    return " ".join([NAMES[framework], *versions, f"({', '.join(instruments(found)) or 'no peak'})"])


def instruments(rows: Iterable[Line]) -> list[str]:
    return sorted({r["peak_instrument"] for r in rows if not missing(r["peak_instrument"])})


def shared_peak(rows: Iterable[Line]) -> tuple[str, str] | None:
    """Column and name of the instrument that read all of these peaks; None if there is none: then they share no axis."""
    shown = [r for r in rows if usable(r)]
    if shown and not any(missing(r["host_rss_bytes"]) for r in shown):
        return "host_rss_bytes", FOR_ALL
    found = instruments(shown)
    return ("peak_bytes", found[0]) if len(found) == 1 else None


def footer(rows: list[Line], *more: str, read_by: str = "") -> list[str]:
    """Where the numbers come from, what is missing and why, and what to beware of. `read_by`: the one instrument that the
    figure shows, where it is not each row's own."""
    shown = [r for r in rows if usable(r)]
    known = conditions(shown or rows)
    by = read_by or ", ".join(instruments(shown))
    read = f"Peaks by {by}" if by else ""
    return [*filter(None, [*more, left_out(rows), *cautions(rows), ". ".join(filter(None, [read, known]))])]


def left_out(rows: list[Line]) -> str:
    """By outcome, the rows that have no numbers."""
    by: dict[str, list[str]] = {}
    for r in rows:
        if not usable(r):
            by.setdefault(outcome(r), []).append(f"{r['framework']} {r['strategy']}")
    return f"Without numbers: {'; '.join(f'{why}: {shortened(found)}' for why, found in sorted(by.items()))}." if by else ""


def shortened(found: list[str]) -> str:
    different = list(dict.fromkeys(found))
    more = f" and {len(different) - NAMED} more" if len(different) > NAMED else ""
    return ", ".join(different[:NAMED]) + more


def cautions(rows: list[Line]) -> list[str]:
    """Records of an older protocol, of code that was not committed, and of steps that others disturbed."""
    shown = [r for r in rows if usable(r)]
    old = [r["case"] for r in shown if r["protocol"] != VERSION]
    dirty = [r["case"] for r in shown if r["dirty"] is True]
    late = [r["case"] for r in shown if r["contended"] is True]
    found = {
        f"measured under an older protocol than {VERSION}": old,
        "measured with uncommitted changes": dirty,
        "measured while others used the core, so that times are too long": late,
    }
    return [
        f"All records {what}." if len(cases) == len(shown) > 1 else f"{what.capitalize()}: {shortened(cases)}."
        for what, cases in found.items()
        if cases
    ]
