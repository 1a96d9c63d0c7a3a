"""The tables of right models that were tried with other seeds, and of bugs planted in them."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from framebench.analysis.rendering import Table

HEAD = (
    "model",
    "verdicts",
    "wrong",
    "tensors compared",
    "nearest to wrong, fp32",
    "nearest to wrong, bf16",
    "not tried, or otherwise",
)
BUG_HEAD = "bug", "fp32", "amp_bf16", "accumulate"


def models(found: dict[str, Any]) -> Table:
    """A row for each model, and their sum."""
    rows = [row(one) for one in found["models"]]
    verdicts, wrong = (
        sum(size(one[name]) for one in found["models"]) for name in ("verdicts", "wrong")
    )
    tensors = sum(one["tensors"] for one in found["models"])
    total = ("all", f"{verdicts:,}", str(wrong), f"{tensors:,}", "", "", "")
    caption = (
        f"{len(found['models'])} models with {found['seeds']} seeds of weights and batch each, "
        "under every default strategy that compiles nothing. nearest to wrong: the largest error "
        f"over its tolerance; 1 is wrong. {about(found)}"
    )
    return Table.of_text("Right models that were tried", caption, HEAD, (*rows, total), left=1)


def size(counted: Any) -> int:
    return counted if isinstance(counted, int) else len(counted)


def row(one: dict[str, Any]) -> tuple[str, ...]:
    margins = [
        "-" if one["margin"][kind] is None else f"{one['margin'][kind]:.2f}"
        for kind in ("fp32", "bf16")
    ]
    accumulation = f"accumulation: {one['accumulation']}" if one["accumulation"] else ""
    beside = "; ".join(filter(None, [accumulation, *(text[:90] for text in one["other"])]))
    return (
        one["what"],
        f"{one['verdicts']:,}",
        str(len(one["wrong"])),
        f"{one['tensors']:,}",
        *margins,
        beside,
    )


def bugs(found: dict[str, Any]) -> Table:
    """Seen of planted, by strategy."""
    rows = []
    for name, each in groupby(found["bugs"], key=lambda one: one["bug"]):
        seen = {one["strategy"]: f"{one['wrong']} of {one['planted']}" for one in each}
        rows.append(
            (name.replace("_", " "), *(seen.get(strategy, "-") for strategy in BUG_HEAD[1:]))
        )
    caption = (
        "Called wrong, of those that were planted in the models above, in the step of a "
        f"strategy. {about(found)}"
    )
    return Table.of_text("Bugs that were planted in right models", caption, BUG_HEAD, rows, left=1)


def about(found: dict[str, Any]) -> str:
    commit = (found["commit"] or "no commit")[:10]
    return (
        f"PyTorch {found['torch']} on {found['machine']}, {found['measured_at'][:10]}, at {commit}."
    )
