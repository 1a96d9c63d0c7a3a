"""Show predicted peaks of compiled steps next to measured ones, or predict them:

`python -m studies.compiled_steps [predict]`.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import typer

from framebench.analysis.rendering import Table, format_mib
from framebench.cli.shared import say
from framebench.engine import environments
from framebench.records.provenance import ROOT
from studies.tables import IntoReadme, show_tables

STUDY = Path(__file__).parent
ROWS = STUDY / "data/rows.csv"
PREDICTED = STUDY / "data/predicted.json"
app = typer.Typer(add_completion=False)


def read_rows() -> list[dict[str, str]]:
    """Return the measured peaks."""
    with ROWS.open(newline="") as lines:
        return list(csv.DictReader(lines))


def read_predictions() -> dict[str, dict[str, Any]]:
    """Return the predictions by the name of their row; none where nothing was predicted."""
    if not PREDICTED.exists():
        return {}
    predictions: dict[str, dict[str, Any]] = json.loads(PREDICTED.read_text())
    return predictions


def tabulate() -> Table:
    """Return the table of all rows."""
    predictions = read_predictions()
    cells = []
    for row in read_rows():
        measured = int(row["measured_bytes"])
        predicted = predictions.get(row["name"], {})
        compiled = predicted.get("compiled_bytes")
        error = "-" if compiled is None else f"{compiled / measured - 1:+.1%}"
        cells.append(
            (
                row["optimizer"],
                row["gpu"],
                format_mib(measured),
                format_mib(compiled),
                error,
                format_mib(predicted.get("eager_bytes")),
            )
        )
    return Table.of_text(
        "Compiled steps",
        "ViT-H/14, batch 8, bfloat16 autocast, `torch.compile`: most bytes in use, in MiB. error: "
        "predicted / measured - 1. eager: predicted for the same step without torch.compile.",
        ("optimizer", "GPU", "measured", "predicted", "error", "eager"),
        cells,
        left=2,
    )


@app.callback(invoke_without_command=True)
def show(context: typer.Context, readme: IntoReadme = False) -> None:
    """Print the table, or write it into README.md."""
    if context.invoked_subcommand is None:
        show_tables([tabulate()], STUDY, readme)


@app.command()
def predict() -> None:
    """Predict the rows that have no prediction yet, in PyTorch's environment."""
    environment = environments.ensure("torch", say=say)
    predictions = read_predictions()
    for row in read_rows():
        if row["name"] in predictions:
            continue
        printed = environments.run_module(
            environment,
            "studies.compiled_steps.torch_vit",
            row["name"],
            row["device"],
            variables={
                "PYTHONPATH": str(ROOT),
                "OMP_NUM_THREADS": "1",
                "CUDA_VISIBLE_DEVICES": "",
            },
        )
        predictions[row["name"]] = json.loads(printed.splitlines()[-1])
        PREDICTED.write_text(json.dumps(predictions, indent=1) + "\n")
        say(f"{row['name']}: {predictions[row['name']]['compiled_bytes']:,} bytes")


if __name__ == "__main__":
    app()
