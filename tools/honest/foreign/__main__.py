"""Tries other people's models beside a plain loop: `python -m tools.honest.foreign --torch PYTHON --jax PYTHON`.

Each file of `models` has a model of a package as it is, with its dropout. `framebench try` reads the baseline's peak, and
`plain.py` reads it in a fresh process by another instrument. Writes results/study/foreign_models.json, one model after the other;
`framebench report --docs docs/try.md` shows it. The interpreters need the packages that the files import, which no environment
here pins; a model whose package is missing keeps the row it has.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from framebench.engine import environments
from framebench.instruments.host import MALLOC_ENV
from framebench.records import provenance
from framebench.records.provenance import ROOT
from framebench.suite.registry import BASELINES
from framebench.suite.user_file import imported

HERE = Path(__file__).parent
MODELS = HERE / "models"
RECORD = ROOT / "results/study/foreign_models.json"
BATCH = 8
LONGEST_S = 1800
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
Row = dict[str, Any]


def main(
    torch: Annotated[str | None, typer.Option(help="an interpreter with the packages that the PyTorch files import")] = None,
    jax: Annotated[str | None, typer.Option(help="one with those that the Flax files import")] = None,
    models: Annotated[str | None, typer.Option(help="some, such as hf_bert,tv_swin")] = None,
    scenarios: Annotated[str, typer.Option(help="train, eval or both")] = "train,eval",
    strategies: Annotated[str, typer.Option(help="that are verified in training, beside the baseline")] = "",
    to: Annotated[Path, typer.Option(help="the record")] = RECORD,
) -> None:
    """Each model in each scenario; what the record has of others stays."""
    pythons = {"torch": torch, "jax": jax, "jittor": None}
    rows: dict[str, Row] = {key(row): row for row in json.loads(to.read_text())["rows"]} if to.exists() else {}
    for name in models.split(",") if models else sorted(file.stem for file in MODELS.glob("*.py")):
        for scenario in scenarios.split(","):
            file = MODELS / f"{name}.py"
            framework = "jax" if "jax" in imported(str(file)) else "jittor" if "jittor" in imported(str(file)) else "torch"
            python = pythons[framework] or str(environments.ensure(framework, say=print).python)
            row = tried(file, framework, scenario, python, strategies)
            print(json.dumps(row), flush=True)
            if "No module named" not in row.get("failed", ""):
                rows[key(row)] = row
            to.write_text(json.dumps({"rows": [rows[at] for at in sorted(rows)]}, indent=1) + "\n")


def key(row: Row) -> str:
    return f"{row['model']}/{row['scenario']}"


def tried(file: Path, framework: str, scenario: str, python: str, strategies: str) -> Row:
    """The row of one model: both peaks, and what became of each strategy, or why there are none."""
    about = {
        "model": file.stem, "scenario": scenario, "what": file.read_text().split('"""')[1], "batch": BATCH,
        "measured_at": datetime.now(UTC).replace(microsecond=0).isoformat(), "commit": provenance.commit(),
        "dirty": provenance.dirty(), "machine": provenance.machine_name(),
    }  # fmt: skip
    baseline = BASELINES[scenario]
    try:
        plain = printed([python, str(HERE / "plain.py"), framework, str(file), scenario, str(BATCH)])
        with tempfile.TemporaryDirectory() as results:
            rows = printed([
                sys.executable, "-m", "framebench.cli", "try", str(file), "--batch", str(BATCH), "--scenario", scenario,
                "--rounds", "0", "--blocks", "1", "--json", "--results", results, "--env", python,
                "--strategies", strategies if strategies and scenario == "train" else baseline,
            ])  # fmt: skip
    except RuntimeError as error:
        return about | {"failed": str(error)}
    first = next(row for row in rows if row["strategy"] == baseline)
    return about | {
        "packages": plain["packages"], "plain": plain["peak"], "kept": plain["kept"], "peak": first["peak_bytes"],
        "instrument": first["peak_instrument"], "verdicts": {row["strategy"]: row["status"] for row in rows},
    }  # fmt: skip


def printed(command: list[str]) -> Any:
    """What the command's last line of output says. Raises RuntimeError with what it complained of."""
    plain = Path(command[1]).name == "plain.py"
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": "" if plain else str(ROOT), **ONE_THREAD, **(MALLOC_ENV if plain else {})}
    done = subprocess.run(command, capture_output=True, text=True, env=variables | home(), timeout=LONGEST_S)
    try:
        return json.loads(done.stdout if not plain else done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        raise RuntimeError(done.stderr.strip().splitlines()[-1][:300] if done.stderr.strip() else "no output") from None


def home() -> dict[str, str]:
    """Where caches lie."""
    import os

    return {name: os.environ[name] for name in ("HOME", "FRAMEBENCH_CACHE", "FRAMEBENCH_MACHINE") if name in os.environ}


if __name__ == "__main__":
    typer.run(main)
