"""Users' files of many kinds, as tables of TOML have them, and how a program makes them known."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from framebench.models.spec import load_workload
from framebench.suite.case import Case
from framebench.suite.user_file import list_definitions

HERE = Path(__file__).parent
BASELINES = {"train": "fp32", "eval": "no_grad"}
OPTIONAL = ("optimizer", "blocks", "loss", "split", "step")


@dataclass(frozen=True)
class TriedFile:
    """A file for `framebench try`, and what its answer should be."""

    name: str
    code: str
    strategies: tuple[str, ...]
    scenario: str = "train"
    left_out: tuple[str, ...] = ()
    why: str = ""  # words of the reason, if asked about
    unproven: tuple[str, ...] = ()
    deterministic: tuple[str, ...] = ()  # verified without random numbers
    block: str | None = None  # the class that is recomputed, if asked about
    period: int | None = None  # steps that are verified before an update, if asked about
    moves: bool = True  # whether each step's loss is another one
    often: bool = False
    in_float64: bool = False  # must be verified in float64, too


def read_files(table: str, kind: str = "file") -> dict[str, TriedFile]:
    """Return the files of a table by name; each begins with the table's `beginning`."""
    content = tomllib.loads((HERE / table).read_text())
    files = {}
    for row in content[kind]:
        code = f"{content['beginning']}\n{row.pop('code')}"
        files[row["name"]] = TriedFile(code=code, **row)
    return files


def use_file(file: Path, batch: int, framework: str = "torch", scenario: str = "train") -> Case:
    """Make a file known to this process, as `framebench try` does, and return its baseline."""
    os.environ["FRAMEBENCH_OWN"] = str(file.parent)
    names = list_definitions(str(file))
    defined = [name for name in OPTIONAL if name in names]
    facts = {"file": str(file), "framework": framework, "batch": batch, "defined": defined}
    (file.parent / "own.json").write_text(json.dumps(facts))
    module = load_workload("own").import_model(framework)
    for function in vars(module).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()
    return Case("own", framework, scenario, BASELINES[scenario], batch, "mine")
