"""What `framebench try` found out about a model of the user's own: one table, and what fits a budget."""

from __future__ import annotations

import pandas as pd

from analysis.comparison import Comparison, Shown
from analysis.tables import SHOWN, cells, conditions, timing
from framebench.suite.registry import BASELINES

COLUMNS = ("strategy", "peak_bytes", "peak_ratio", "cold_peak_bytes", "step_time_s", "range", "relative", "first_step_s")
CHECKS = ("worst_error", "effect_proven", "peak_instrument")


def table(df: pd.DataFrame, left_out: dict[str, str]) -> Comparison:
    """`df`: the cases of one model. Those without numbers have their reason in the notes, with what does not apply."""
    first = df.iloc[0]
    lost = [f"{r.strategy}: {r.status}: {r.reason}" for r in df[df["status"] != "ok"].itertuples()]
    return Comparison(
        f"{first['size']} in {first['framework']}, {first['scenario']}, batch {first['batch']}",
        f"base = {BASELINES[first['scenario']]}; MiB = 2^20 bytes; peak = the most that a steady step has in use, cold = "
        f"that of the first step, with compilation. verified = largest relative error of the losses and the gradient's norm "
        f"against your float32 baseline; every tensor was compared too. effect = whether the strategy was seen to be on. "
        f"{timing(df)} "
        f"{conditions(df)}",
        cells(df),
        {name: SHOWN[name] for name in COLUMNS} | {"worst_error": Shown("verified", ".0e")} | {n: SHOWN[n] for n in CHECKS[1:]},
        left=1,
        notes=(*lost, *(f"left out: {', '.join(names)}: {why}" for why, names in by_reason(left_out).items())),
        machine=first["machine"],
        cases=tuple(df["case"]),
    )


def by_reason(left_out: dict[str, str]) -> dict[str, list[str]]:
    """The strategies that do not apply. What needs a GPU needs it for one reason."""
    found: dict[str, list[str]] = {}
    for name, why in left_out.items():
        found.setdefault("they need a GPU" if why.startswith("needs a GPU") else why, []).append(name)
    return found
