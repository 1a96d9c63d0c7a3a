"""Try other people's models next to a plain loop: `python -m studies.foreign_models --help`.

Each file of `models` has a model of a package as it is, with its dropout. The process by which
`framebench try` reads the baseline's peak is run, and `plain.py` reads it in a fresh process by
another instrument.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from framebench.engine import environments, installed, runner
from framebench.engine.environments import Environment
from framebench.instruments.host import MALLOC_ENV
from framebench.records import provenance
from framebench.records.record import Record
from framebench.suite.user_file import Fault, list_imports
from framebench.user_file import trial
from framebench.user_file.strategies import list_general_strategies
from framebench.user_model.session import TrialPlan, measure_strategies
from studies.foreign_models import tables
from studies.foreign_models.tables import RIGHT, UNPROVEN, UNSUPPORTED
from studies.tables import IntoReadme, show_tables

HERE = Path(__file__).parent
MODELS = HERE / "models"
RECORD = HERE / "data/foreign_models.json"
BATCH = 4
LONGEST_S = 1800
OWN = {"jittor": "allocator.in_use"}  # what `try` shows
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
Row = dict[str, Any]
app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def show(context: typer.Context, readme: IntoReadme = False) -> None:
    """Print the table, or write it into README.md."""
    if context.invoked_subcommand is None:
        show_tables([tables.foreign(json.loads(RECORD.read_text())["rows"])], HERE, readme)


@app.command()
def measure(
    torch: Annotated[
        str | None,
        typer.Option(help="an interpreter with the packages that the PyTorch files import"),
    ] = None,
    jax: Annotated[
        str | None, typer.Option(help="one with those that the Flax files import")
    ] = None,
    models: Annotated[str | None, typer.Option(help="some, such as hf_bert,tv_swin")] = None,
    scenarios: Annotated[str, typer.Option(help="train, eval or both")] = "train,eval",
    verdicts: Annotated[
        bool, typer.Option(help="verdicts alone, of those that have peaks and none yet")
    ] = False,
    compiled: Annotated[
        bool, typer.Option(help="verdicts of what compiles alone, likewise, beside the others")
    ] = False,
    to: Annotated[Path, typer.Option(help="the record")] = RECORD,
) -> None:
    """Measure each model in each scenario, one after the other; what the record has of others
    stays.

    With --verdicts every default strategy that compiles nothing is tried instead, for models that
    have none yet; with --compiled those that compile, each for a minute or more. A model whose
    package is missing keeps its row.
    """
    pythons = {"torch": torch, "jax": jax}
    rows: dict[str, Row] = (
        {key(row): row for row in json.loads(to.read_text())["rows"]} if to.exists() else {}
    )
    for scenario in scenarios.split(","):
        for name in (
            models.split(",") if models else sorted(file.stem for file in MODELS.glob("*.py"))
        ):
            file = MODELS / f"{name}.py"
            framework = next(
                (name for name in ("jax", "jittor") if name in list_imports(str(file))), "torch"
            )
            python = pythons.get(framework) or str(environments.ensure(framework, say=print).python)
            row = rows.get(f"{name}/{scenario}", {})
            if (verdicts and (row.get("verdicts") or "peak" not in row)) or (
                compiled and not lacks_compiled(row, framework)
            ):
                continue
            if verdicts or compiled:
                row = judged(row, file, framework, scenario, python, compiled)
            else:
                row = tried(file, framework, scenario, python)
            print(json.dumps(row), flush=True)
            if "No module named" not in row.get("failed", ""):
                rows[key(row)] = row
            to.write_text(json.dumps({"rows": [rows[at] for at in sorted(rows)]}, indent=1) + "\n")


def key(row: Row) -> str:
    return f"{row['model']}/{row['scenario']}"


def tried(file: Path, framework: str, scenario: str, python: str) -> Row:
    """The row of one model: both peaks, or why there are none."""
    about = {
        "model": file.stem,
        "scenario": scenario,
        "what": file.read_text().split('"""')[1],
        "batch": BATCH,
        "measured_at": datetime.now(UTC).replace(microsecond=0).isoformat(),
        "commit": provenance.find_commit(),
        "dirty": provenance.is_dirty(),
        "machine": provenance.read_machine_name(),
    }
    try:
        plain = plain_loop(file, framework, scenario, python)
        row = (
            about | {name: plain[name] for name in ("packages", "kept")} | {"plain": plain["peak"]}
        )
        return row | by_try(file, framework, scenario, python) | {"verdicts": {}}
    except (RuntimeError, Fault, subprocess.TimeoutExpired) as error:
        return about | {"failed": str(error)[:300]}


def by_try(file: Path, framework: str, scenario: str, python: str) -> dict[str, Any]:
    """The peak of the baseline, from the process by which `framebench try` reads it.

    Raises RuntimeError.
    """
    model = trial.inspect_file(file, BATCH, framework, scenario)
    with trial.use_model(model), tempfile.TemporaryDirectory() as scratch:
        variant = runner.Variant(model.baseline, interpreter(framework, python))
        process = runner.MemoryProcess(variant, runner.DEFAULT_OPTIONS, Path(scratch))
        outcome = process.end(lambda phase: None)
    if outcome.status != "ok":
        raise RuntimeError(f"try: {outcome.status}: {outcome.reason}")
    memory = outcome.result.memory
    assert memory is not None
    peak = memory.peaks[OWN.get(framework, "host.rss")]
    return {"peak": peak, "elsewhere": memory.elsewhere, "known": memory.live_bytes}


@cache
def interpreter(framework: str, python: str) -> Environment:
    return installed.find_environments([framework], python, print)[framework]


def plain_loop(file: Path, framework: str, scenario: str, python: str) -> dict[str, Any]:
    """Raises RuntimeError."""
    variables = MALLOC_ENV | interpreter(framework, python).list_variables()
    if framework == "jittor":
        variables |= {"LD_PRELOAD": counter()}
    said = printed(
        [python, str(HERE / "plain.py"), framework, str(file), scenario, str(BATCH)], variables
    )
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


@cache
def counter() -> str:
    """The library that counts malloc's calls, compiled."""
    library = Path(tempfile.mkdtemp()) / "malloc_count.so"
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "malloc_count.c"], check=True
    )
    return str(library)


def lacks_compiled(row: Row, framework: str) -> bool:
    """Whether it has verdicts, but none of a strategy that compiles.

    Only PyTorch has such strategies.
    """
    return framework == "torch" and bool(row.get("verdicts")) and "compile" not in row["verdicts"]


def judged(row: Row, file: Path, framework: str, scenario: str, python: str, compiled: bool) -> Row:
    """The row with what became of every default strategy that compiles, or of every one that does
    not; or with why nothing did.
    """
    model = trial.inspect_file(file, BATCH, framework, scenario)
    names = [
        name
        for name in list_general_strategies(scenario)
        if model.make_case(name).strategy_spec.compiles == compiled
    ]
    about = {
        "commit": provenance.find_commit(),
        "measured_at": datetime.now(UTC).replace(microsecond=0).isoformat(),
    }
    with trial.use_model(model), tempfile.TemporaryDirectory() as folder:
        try:
            options = runner.Options(rounds=0)
            environment = trial.choose_environment(model, python, print)
            plan = TrialPlan(names, options, blocks=1, seconds=0.0)
            outcome = measure_strategies(model, plan, Path(folder), environment)
        except Fault as error:
            return row | {"verdicts": {"fp32": f"fault: {str(error)[:200]}"}, "judged": about}
    found = {record.parsed.strategy: verdict(record) for record in outcome.records} | dict.fromkeys(
        outcome.left_out, UNSUPPORTED
    )
    if compiled:
        return row | {
            "verdicts": row["verdicts"] | {name: found[name] for name in names if name in found},
            "compiled": about,
        }
    return row | {"verdicts": found, "judged": about}


def verdict(record: Record) -> str:
    if record.status == "unsupported":
        return UNSUPPORTED
    if record.status != "ok":
        return f"{record.status}: {(record.reason or '')[:200]}"
    return RIGHT if record.effect and record.effect.proven else UNPROVEN


def printed(command: list[str], variables: dict[str, str]) -> str:
    """Raises RuntimeError with what the command complained of, where it printed nothing."""
    environment = (
        {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        | ONE_THREAD
        | variables
    )
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=LONGEST_S
    )
    if not done.stdout.strip():
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1])
    return done.stdout


if __name__ == "__main__":
    app()
