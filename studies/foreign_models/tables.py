"""The table of other people's models: their peaks by two instruments, and what came of each
strategy.
"""

from __future__ import annotations

from typing import Any

from framebench.analysis.rendering import Table, format_mib

ALLOWED = 0.03
RIGHT, UNPROVEN, UNSUPPORTED = "right", "right, effect not proven", "left out"
FOREIGN_HEAD = (
    "model",
    "scenario",
    "try MiB",
    "plain loop MiB",
    "apart",
    "strategies",
    "right",
    "not proven",
    "left out",
    "wrong",
    "packages",
)
FRAMEWORK_PACKAGES = "torch", "jax", "optax", "jittor"


def foreign(rows: list[dict[str, Any]]) -> Table:
    """Peaks by two instruments, and what came of strategies where they were verified, too."""
    read = [row for row in rows if "failed" not in row]
    beyond = [row for row in read if abs(off(row)) > ALLOWED]
    made = sorted({(row["commit"] or "no commit")[:10] for row in read})
    widest = max((abs(off(row)) for row in read), default=0.0)
    caption = (
        f"{len({row['model'] for row in rows})} models of packages that nobody here wrote, as "
        f"their authors made them, with a batch of {rows[0]['batch']}. try: the baseline's peak as "
        "`framebench try` reads it. plain loop: the kernel's high-water mark in a fresh process "
        "without framebench, less what the process holds once such a loop was run and thrown away; "
        f"of Jittor, what malloc had handed out. {len(read) - len(beyond)} of {len(read)} agree to "
        f"{ALLOWED:.0%}; the widest is {widest:.1%} apart. strategies: all by default that compile "
        f"nothing{also_compiled(read)}; left out: those that do not apply. "
        f"{in_all(read)}{machines(read)}, at {', '.join(made)}."
    )
    return Table.of_text(
        "Models of other people's packages", caption, FOREIGN_HEAD, [*map(of_foreign, rows)], left=2
    )


def off(row: dict[str, Any]) -> float:
    return float(row["peak"] / row["plain"] - 1)


def also_compiled(rows: list[dict[str, Any]]) -> str:
    number = sum("compiled" in row for row in rows)
    return f", and of {number} models those that compile" if number else ""


def machines(rows: list[dict[str, Any]]) -> str:
    each = sorted({f"{row['machine']}, {row['measured_at'][:10]}" for row in rows})
    return "On " + " and ".join(each)


def in_all(rows: list[dict[str, Any]]) -> str:
    every = [
        verdict for row in rows for verdict in row["verdicts"].values() if verdict != UNSUPPORTED
    ]
    wrong = sum(verdict not in (RIGHT, UNPROVEN) for verdict in every)
    judged = sum(bool(row["verdicts"]) for row in rows)
    return f"{wrong} of {len(every)} verdicts on {judged} models are wrong or none. "


def of_foreign(row: dict[str, Any]) -> tuple[str, ...]:
    if "failed" in row:
        return row["what"], row["scenario"], *["-"] * 8, row["failed"][:120]
    packages = ", ".join(
        f"{name} {version}"
        for name, version in row["packages"].items()
        if name not in FRAMEWORK_PACKAGES
    )
    peaks = format_mib(row["peak"]), format_mib(row["plain"]), f"{off(row):+.1%}"
    return row["what"], row["scenario"], *peaks, *verdicts(row["verdicts"]), packages


def verdicts(found: dict[str, str]) -> tuple[str, ...]:
    """How many strategies were tried, and how many came out in each way; the others by name, with
    the reason.
    """
    if not found:
        return "not tried", *["-"] * 4
    counted = [
        sum(verdict == kind for verdict in found.values())
        for kind in (RIGHT, UNPROVEN, UNSUPPORTED)
    ]
    others = {
        name: verdict
        for name, verdict in found.items()
        if verdict not in (RIGHT, UNPROVEN, UNSUPPORTED)
    }
    wrong = "; ".join(f"{name}: {verdict[:90]}" for name, verdict in others.items())
    return str(len(found) - counted[2]), *map(str, counted), wrong or "0"
