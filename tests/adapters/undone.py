"""Undo strategies behind their switches' backs, and ask the proofs."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from framebench.engine.environments import Environment
from tests.processes import get_compilation_caches, run_inside

Judged = dict[str, str]  # name -> evidence
Sabotage = dict[str, str]  # its name, case and code
# which precisions are proven, of a device that rounds no products, some of them, or all
FP32_ALONE = {"fp32": True, "tf32": False}
NEITHER = {"fp32": False, "tf32": False}
TF32_ALONE = {"fp32": False, "tf32": True}
PROGRAM = Path(__file__).parent / "programs" / "undone_prove.py"


def read_table(framework: str) -> dict[str, Any]:
    """Return what is done to cases of a framework (`undone_FRAMEWORK.toml`), and `untouched`."""
    file = Path(__file__).with_name(f"undone_{framework}.toml")
    return tomllib.loads(file.read_text())


def judge_undone(environment: Environment, sabotages: list[Sabotage]) -> tuple[Judged, Judged]:
    """Return the proofs that say yes, and those that say no.

    The code of each sabotage runs on its case's adapter once it is built, before its first step.
    """
    orders = json.dumps([(each["name"], each["case"], each["code"]) for each in sabotages])
    verdicts = run_inside(environment, PROGRAM, orders, variables=get_compilation_caches())
    proven, refuted = {}, {}
    for name, (is_proven, evidence) in verdicts.items():
        if is_proven:
            proven[name] = evidence
        else:
            refuted[name] = evidence
    return proven, refuted


def judge_untouched(environment: Environment, cases: Iterable[str]) -> tuple[Judged, Judged]:
    """Return the proofs that say yes, and those that say no, of cases to which nothing is done."""
    return judge_undone(environment, [{"name": case, "case": case, "code": ""} for case in cases])
