"""The tables of docs/try.md: right models that were tried with other seeds, bugs planted in them, and peaks of other people's
models beside a plain loop (`tools/honest`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from framebench.analysis.comparison import Comparison, mib
from framebench.analysis.results import Results

HEAD = (
    "model",
    "verdicts",
    "wrong",
    "tensors compared",
    "nearest to wrong, fp32",
    "nearest to wrong, bf16",
    "not tried, or otherwise",
)
ALLOWED = 0.03
RIGHT, UNPROVEN, UNSUPPORTED = "right", "right, effect not proven", "left out"
FOREIGN_HEAD = (
    "model", "scenario", "try MiB", "plain loop MiB", "apart", "strategies", "right", "not proven", "left out", "wrong",
    "packages",
)  # fmt: skip
FRAMEWORK_PACKAGES = "torch", "jax", "optax", "jittor"
BUG_HEAD = "bug", "fp32", "amp_bf16", "accumulate"


def documents(results: Results) -> Iterator[Comparison]:
    """From the record, if it was made."""
    file = results.root / "study/own_models.json"
    if file.exists():
        found = json.loads(file.read_text())
        yield models(found)
        yield bugs(found)
    file = results.root / "study/foreign_models.json"
    if file.exists():
        yield foreign(json.loads(file.read_text())["rows"])


def foreign(rows: list[dict[str, Any]]) -> Comparison:
    """Peaks by two instruments, and what came of strategies where they were verified, too."""
    read = [row for row in rows if "failed" not in row]
    beyond = [row for row in read if abs(off(row)) > ALLOWED]
    made = sorted({(row["commit"] or "no commit")[:10] for row in read})
    widest = max((abs(off(row)) for row in read), default=0.0)
    caption = (
        f"{len({row['model'] for row in rows})} models of packages that nobody here wrote, as their authors made them, with a "
        f"batch of {rows[0]['batch']}. try: the baseline's peak as `framebench try` reads it. plain loop: the kernel's "
        f"high-water mark in a fresh process without framebench, less what the process holds once such a loop was run and "
        f"thrown away; of Jittor, what malloc had handed out. "
        f"{len(read) - len(beyond)} of {len(read)} agree to {ALLOWED:.0%}; the widest is {widest:.1%} apart. "
        f"strategies: all by default that compile nothing{also_compiled(read)}; left out: those that do not apply. "
        f"{in_all(read)}{machines(read)}, at {', '.join(made)}."
    )
    return Comparison.of_text("Models of other people's packages", caption, FOREIGN_HEAD, [*map(of_foreign, rows)], left=2)


def off(row: dict[str, Any]) -> float:
    return float(row["peak"] / row["plain"] - 1)


def also_compiled(rows: list[dict[str, Any]]) -> str:
    number = sum("compiled" in row for row in rows)
    return f", and of {number} models those that compile" if number else ""


def machines(rows: list[dict[str, Any]]) -> str:
    each = sorted({f"{row['machine']}, {row['measured_at'][:10]}" for row in rows})
    return "On " + " and ".join(each)


def in_all(rows: list[dict[str, Any]]) -> str:
    every = [verdict for row in rows for verdict in row["verdicts"].values() if verdict != UNSUPPORTED]
    wrong = sum(verdict not in (RIGHT, UNPROVEN) for verdict in every)
    judged = sum(bool(row["verdicts"]) for row in rows)
    return f"{wrong} of {len(every)} verdicts on {judged} models are wrong or none. "


def of_foreign(row: dict[str, Any]) -> tuple[str, ...]:
    if "failed" in row:
        return row["what"], row["scenario"], *["-"] * 8, row["failed"][:120]
    packages = ", ".join(f"{name} {version}" for name, version in row["packages"].items() if name not in FRAMEWORK_PACKAGES)
    peaks = mib(row["peak"]), mib(row["plain"]), f"{off(row):+.1%}"
    return row["what"], row["scenario"], *peaks, *verdicts(row["verdicts"]), packages


def verdicts(found: dict[str, str]) -> tuple[str, ...]:
    """How many strategies were tried, and how many came out in each way; the others by name, with the reason."""
    if not found:
        return "not tried", *["-"] * 4
    counted = [sum(verdict == kind for verdict in found.values()) for kind in (RIGHT, UNPROVEN, UNSUPPORTED)]
    others = {name: verdict for name, verdict in found.items() if verdict not in (RIGHT, UNPROVEN, UNSUPPORTED)}
    wrong = "; ".join(f"{name}: {verdict[:90]}" for name, verdict in others.items())
    return str(len(found) - counted[2]), *map(str, counted), wrong or "0"


def models(found: dict[str, Any]) -> Comparison:
    """A row for each model, and their sum."""
    rows = [row(one) for one in found["models"]]
    verdicts, wrong = (sum(size(one[name]) for one in found["models"]) for name in ("verdicts", "wrong"))
    tensors = sum(one["tensors"] for one in found["models"])
    total = ("all", f"{verdicts:,}", str(wrong), f"{tensors:,}", "", "", "")
    caption = (
        f"{len(found['models'])} models with {found['seeds']} seeds of weights and batch each, under every default strategy "
        f"that compiles nothing. nearest to wrong: the largest error over its tolerance; 1 is wrong. {about(found)}"
    )
    return Comparison.of_text("Right models that were tried", caption, HEAD, (*rows, total), left=1)


def size(counted: Any) -> int:
    return counted if isinstance(counted, int) else len(counted)


def row(one: dict[str, Any]) -> tuple[str, ...]:
    margins = ["-" if one["margin"][kind] is None else f"{one['margin'][kind]:.2f}" for kind in ("fp32", "bf16")]
    accumulation = f"accumulation: {one['accumulation']}" if one["accumulation"] else ""
    beside = "; ".join(filter(None, [accumulation, *(text[:90] for text in one["other"])]))
    return one["what"], f"{one['verdicts']:,}", str(len(one["wrong"])), f"{one['tensors']:,}", *margins, beside


def bugs(found: dict[str, Any]) -> Comparison:
    """Seen of planted, by strategy."""
    rows = []
    for name, each in groupby(found["bugs"], key=lambda one: one["bug"]):
        seen = {one["strategy"]: f"{one['wrong']} of {one['planted']}" for one in each}
        rows.append((name.replace("_", " "), *(seen.get(strategy, "-") for strategy in BUG_HEAD[1:])))
    caption = f"Called wrong, of those that were planted in the models above, in the step of a strategy. {about(found)}"
    return Comparison.of_text("Bugs that were planted in right models", caption, BUG_HEAD, rows, left=1)


def about(found: dict[str, Any]) -> str:
    commit = (found["commit"] or "no commit")[:10]
    return f"PyTorch {found['torch']} on {found['machine']}, {found['measured_at'][:10]}, at {commit}."
