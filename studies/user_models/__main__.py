"""Try right models with other seeds, and bugs planted in them:

`python -m studies.user_models --help`.

No right model may be called wrong, and no bug right.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from framebench.engine import environments
from framebench.records import provenance
from framebench.records.provenance import ROOT
from studies.tables import IntoReadme, show_tables
from studies.user_models import tables

STUDY = Path(__file__).parent
MODELS = STUDY / "models"
RECORD = STUDY / "data/own_models.json"
app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def show(context: typer.Context, readme: IntoReadme = False) -> None:
    """Print the tables, or write those that README.md shows into it."""
    if context.invoked_subcommand is None:
        found = json.loads(RECORD.read_text())
        show_tables([tables.models(found), tables.bugs(found)], STUDY, readme)


@app.command()
def measure(
    seeds: Annotated[int, typer.Option(min=1, help="of weights and batch, for each model")] = 10,
    bug_seeds: Annotated[
        int, typer.Option(min=0, help="with so many of them bugs are planted, too")
    ] = 2,
    models: Annotated[str | None, typer.Option(help="some, such as gnn,vae")] = None,
    compile: Annotated[
        bool, typer.Option(help="with the strategies that compile, each a minute or two")
    ] = False,
    to: Annotated[Path, typer.Option(help="the record")] = RECORD,
) -> None:
    """Verify every model with every seed under every default strategy.

    It takes some twenty minutes of one core.
    """
    named = models.split(",") if models else sorted(file.stem for file in MODELS.glob("*.py"))
    orders = {
        "files": [str(MODELS / f"{name}.py") for name in named],
        "seeds": list(range(seeds)),
        "bug_seeds": bug_seeds,
        "compile": compile,
    }
    environment = environments.ensure("torch", say=print, package="transformers")
    began = datetime.now(UTC).replace(microsecond=0)
    found = record(list(shown(lines(environment.python, orders))), seeds)
    about = {
        "measured_at": began.isoformat(),
        "commit": provenance.find_commit(),
        "dirty": provenance.is_dirty(),
        "machine": provenance.read_machine_name(),
        "torch": environment.version,
        "minutes": round((datetime.now(UTC) - began).total_seconds() / 60),
    }
    to.write_text(json.dumps(about | found, indent=1) + "\n")


def lines(python: Path, orders: dict[str, Any]) -> Iterable[dict[str, Any]]:
    command = [str(python), "-m", "studies.user_models.worker", json.dumps(orders)]
    variables = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=variables
    ) as worker:
        assert worker.stdout
        yield from (json.loads(line) for line in worker.stdout if line.startswith("{"))


def shown(rows: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    for row in rows:
        if row["status"] not in ("right", "surveyed") and not row.get("bug"):
            print(json.dumps(row))
        yield row


def record(rows: list[dict[str, Any]], seeds: int) -> dict[str, Any]:
    """Per model what came of it; per bug in which strategy it was planted how often, and how often
    it was seen.
    """
    names = dict.fromkeys(row["model"] for row in rows)
    planted = Counter(
        (row["bug"], row["strategy"]) for row in rows if row.get("bug") and verdict(row)
    )
    seen = Counter(
        (row["bug"], row["strategy"]) for row in rows if row.get("bug") and row["status"] == "wrong"
    )
    return {
        "seeds": seeds,
        "models": [of_model(name, [row for row in rows if row["model"] == name]) for name in names],
        "bugs": [
            {"bug": b, "strategy": s, "planted": n, "wrong": seen[b, s]}
            for (b, s), n in sorted(planted.items())
        ],
    }


def verdict(row: dict[str, Any]) -> bool:
    return row["status"] in ("right", "wrong")


def of_model(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    honest = [row for row in rows if not row.get("bug")]
    verdicts = [row for row in honest if verdict(row)]
    return {
        "model": name,
        "what": (MODELS / f"{name}.py").read_text().split('"""')[1],
        "surveyed": sum(row["status"] == "surveyed" for row in honest),
        "accumulation": next(
            (row["accumulation"] for row in honest if row.get("accumulation")), ""
        ),
        "verdicts": len(verdicts),
        "tensors": sum(row["compared"] for row in verdicts),
        "wrong": [
            f"{row['strategy']}, seed {row['seed']}: {row['kind']}"
            for row in verdicts
            if row["status"] == "wrong"
        ],
        "other": sorted(
            {
                f"{r['strategy']}: {r['status']}"
                for r in honest
                if not verdict(r) and r["status"] != "surveyed"
            }
        ),
        "margin": {
            kind: max(
                (
                    row["margin"]
                    for row in verdicts
                    if ("amp" in row["strategy"]) == (kind == "bf16")
                ),
                default=None,
            )
            for kind in ("fp32", "bf16")
        },
    }


if __name__ == "__main__":
    app()
