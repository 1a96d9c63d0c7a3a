"""Every model given, with every seed, under every strategy that applies:

`python -m studies.user_models.worker ORDERS`.

Runs in PyTorch's environment and prints a line of JSON for each verdict. Each model and seed has a
process of its own, forked before anything was computed.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which optimizers import: once, before processes are forked

from framebench import adapters
from framebench.adapters import user_functions as functions
from framebench.adapters.base import Adapter
from framebench.models.user_model import FOLDER_VARIABLE
from framebench.suite.case import Case
from framebench.suite.result import to_json
from framebench.suite.user_file import list_definitions
from framebench.user_file import strategies as applicable
from framebench.user_file.reference import survey
from framebench.worker import mathematics
from framebench.worker.verification import make_verified_steps
from studies.user_models.bugs import BUGS

BATCH = 8
PLAIN = "fp32", "amp_bf16", "accumulate"  # what bugs are planted in: each kind of rounding


def main(orders: dict[str, Any]) -> None:
    for file in orders["files"]:
        runpy.run_path(file)  # what it imports is imported once
        for seed in orders["seeds"]:
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                torch.set_num_threads(1)
                try:
                    tried(Path(file), seed, orders)
                except BaseException as error:
                    traceback.print_exc()
                    say(file, seed, "", status=f"{type(error).__name__}: {error}")
                sys.stdout.flush()
                os._exit(0)
            os.waitpid(child, 0)


def say(file: Path | str, seed: int, strategy: str, **said: Any) -> None:
    print(
        json.dumps({"model": Path(file).stem, "seed": seed, "strategy": strategy} | said),
        flush=True,
    )


def tried(file: Path, seed: int, orders: dict[str, Any]) -> None:
    """The survey, then verdicts."""
    functions.SEED = seed  # type: ignore[misc]
    names = [name for name in ("optimizer", "blocks") if name in list_definitions(str(file))]
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = folder
        (Path(folder) / "own.json").write_text(
            json.dumps({"file": str(file), "framework": "torch", "batch": BATCH, "defined": names})
        )
        began = time.monotonic()
        found = survey(case_of("fp32", file), lambda message: None)
        say(
            file,
            seed,
            "",
            status="surveyed",
            seconds=time.monotonic() - began,
            lost=found["facts"]["undetermined"],
            accumulation=found["facts"]["accumulation"],
            without_gradient=found["facts"]["without_gradient"],
        )
        bugs = ["", *(BUGS if seed < orders["bug_seeds"] else ())]
        baseline = mathematics.Baseline(case_of("fp32", file))
        for case in cases(file, orders["compile"]):
            for bug in bugs:
                if not bug or case.strategy in PLAIN:
                    verdict(case, file, seed, bug, baseline)


def case_of(strategy: str, file: Path) -> Case:
    return Case.from_id(f"own/torch/train/{strategy}/b{BATCH}/{file.stem}")


def cases(file: Path, compiled: bool) -> list[Case]:
    """The default strategies of `framebench try` here."""
    every = [case_of(name, file) for name in applicable.list_general_strategies("train")]
    here = [case for case in every if case.support.supported and not case.support.gpu]
    return [case for case in here if compiled or not case.strategy_spec.compiles]


def verdict(case: Case, file: Path, seed: int, bug: str, baseline: mathematics.Baseline) -> None:
    """Verify a strategy in float64 and in its own precision, with a bug planted if one is named."""

    def plant(adapter: Adapter) -> bool:
        return not bug or bool(BUGS[bug](adapter))

    in_float64 = mathematics.check_in_float64(case, baseline, prepare=plant)
    adapter = adapters.load(case)
    try:
        adapter.build()
        if not plant(adapter):
            return
        verification = make_verified_steps(adapter)[1]
    except Exception as error:
        say(file, seed, case.strategy, bug=bug, status=f"{type(error).__name__}: {error}"[:300])
        return
    tensors = verification.tensors
    worst_kind = max(tensors, key=lambda kind: tensors[kind].margin)
    right = verification.passed and in_float64.passed
    say(
        file,
        seed,
        case.strategy,
        bug=bug,
        status="right" if right else "wrong",
        margin=verification.margin,
        float64=to_json(in_float64),
        in_its_precision=verification.passed,
        compared=sum(each.count for each in tensors.values()),
        kind=worst_kind,
        worst=to_json(tensors[worst_kind]),
        reason=in_float64.reason or verification.reason or "",
        values=verification.relative_error,
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
