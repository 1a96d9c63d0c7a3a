"""Strategies of a user's file are proven where they are on, and not where they are undone."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_inside

HERE = Path(__file__).parent
PROGRAM = HERE / "programs" / "undo_in_files.py"
TABLE: dict[str, Any] = tomllib.loads((HERE / "undone.toml").read_text())
UNTOUCHED = "untouched"


def list_orders(file: str) -> list[tuple[str, str, str, str]]:
    """Return name, scenario, strategy and code of what is tried with a file.

    Untouched strategies are among them.
    """
    orders = []
    for row in TABLE["sabotage"]:
        if file in row["files"]:
            scenario, strategy = row.get("scenario", "train"), row["strategy"]
            untouched = (f"{UNTOUCHED}: {strategy}", scenario, strategy, "")
            if untouched not in orders:
                orders.append(untouched)
            orders.append((row["name"], scenario, strategy, row["code"]))
    return orders


@pytest.mark.parametrize("name", TABLE["files"])
def test_strategies_of_a_users_file_are_proven_unless_they_are_undone(name, tmp_path, environment):
    path = tmp_path / "mine.py"
    path.write_text(f"{TABLE['beginning']}\n{TABLE['files'][name]}")
    orders = list_orders(name)
    verdicts = run_inside(environment["torch"], PROGRAM, json.dumps({str(path): orders}))
    assert len(verdicts) == len(orders)
    without_kernel = []
    for order, (is_proven, evidence) in verdicts.items():
        if is_proven is None:
            without_kernel.append(order)
        else:
            assert is_proven == order.startswith(UNTOUCHED), (order, evidence)
    if without_kernel:
        pytest.skip(f"this processor has no kernel for: {', '.join(without_kernel)}")
