"""Commands of a study that predicts published peaks of PyTorch, each by a program of its own.

`data/rows.csv` has what was measured, `data/predicted.json` what was predicted, by name.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from framebench.analysis.rendering import Table
from framebench.cli.shared import say
from framebench.engine import environments
from framebench.records.provenance import ROOT
from studies.tables import IntoReadme, show_tables

# one thread, and no GPU: nothing is measured
VARIABLES = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True)
class RowStudy:
    """A study's folder, and the program that predicts one of its rows.

    `arguments` are the columns that the program takes, `predicted` is the size that it is about.
    """

    folder: Path
    program: str
    arguments: tuple[str, ...]
    predicted: str

    def read_rows(self) -> list[dict[str, str]]:
        """Return the measured peaks."""
        with (self.folder / "data/rows.csv").open(newline="") as lines:
            return list(csv.DictReader(lines))

    @property
    def predictions_file(self) -> Path:
        return self.folder / "data/predicted.json"

    def read_predictions(self) -> dict[str, dict[str, Any]]:
        """Return the predictions by the name of their row; none where nothing was predicted."""
        if not self.predictions_file.exists():
            return {}
        predictions: dict[str, dict[str, Any]] = json.loads(self.predictions_file.read_text())
        return predictions

    def predict_rows(self) -> None:
        """Predict the rows that have no prediction yet, in PyTorch's environment."""
        environment = environments.ensure("torch", say=say)
        predictions = self.read_predictions()
        for row in self.read_rows():
            name = row["name"]
            if name in predictions:
                continue
            arguments = [row[column] for column in self.arguments]
            printed = environments.run_module(
                environment, self.program, *arguments, variables=VARIABLES
            )
            predictions[name] = json.loads(printed.splitlines()[-1])
            self.predictions_file.write_text(json.dumps(predictions, indent=1) + "\n")
            say(f"{name}: {predictions[name][self.predicted]:,} bytes")


def make_app(study: RowStudy, tabulate: Callable[[], Table]) -> typer.Typer:
    """Return the study's command line: its table, and `predict`."""
    app = typer.Typer(add_completion=False)

    @app.callback(invoke_without_command=True)
    def show(context: typer.Context, readme: IntoReadme = False) -> None:
        """Print the table, or write it into README.md."""
        if context.invoked_subcommand is None:
            show_tables([tabulate()], study.folder, readme)

    @app.command()
    def predict() -> None:
        """Predict the rows that have no prediction yet."""
        study.predict_rows()

    return app
