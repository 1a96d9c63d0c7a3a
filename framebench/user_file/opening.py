"""A file of the user's own where a command asks about one case: its baseline comes out right first, then the case is known. Or
it is known by its shapes alone, and nothing is run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from framebench.cli.shared import err, say
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.suite.case import Case
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.shapes import look_into


@contextmanager
def open_model(
    file: Path, scenario: str, strategies: list[str], batch: int, env: str | None, results: Path
) -> Iterator[tuple[list[Case], Environment, Path]]:
    """In here workers know the file: the cases of these strategies, or of its baseline, where they run, and where their records
    go. Raises Fault."""
    model = trial.look(file, batch, scenario=scenario)
    strategies = strategies or [model.baseline.strategy]
    trial.cases(model, strategies)  # a strategy that does not exist is told before anything runs
    environment = trial.environment(model, env, say)
    with trial.known(model):
        with err.status(f"{file.name}: reference") as status:
            seen = trial.reference(model, environment, runner.Options(), lambda phase: status.update(f"{file.name}: {phase}"))
        say(trial.in_short(model, seen["facts"]))
        found, left_out = trial.cases(model, strategies)
        if wanted := [name for name in strategies if name in left_out]:
            raise Fault(f"{file.name}: {wanted[0]}: {left_out[wanted[0]]}")
        where = results if results != runner.RESULTS else results / "own" / model.folder
        yield [case for case in found if case.strategy in strategies], environment, where


@contextmanager
def open_shapes(
    file: Path, scenario: str, strategies: list[str], batch: int, env: str | None
) -> Iterator[tuple[list[Case], dict[str, str], Environment]]:
    """In here workers know the file, of which nothing was run: its cases, why others are left out, and where they would run.
    Raises Fault."""
    model = trial.look(file, batch, scenario=scenario)
    if model.framework != "torch":
        raise Fault(
            f"{file.name} is in {model.framework}, and only PyTorch has tensors without numbers: `framebench explain {file}` "
            f"and `max-batch {file} --budget 4GiB` run it"
        )
    strategies = strategies or [model.baseline.strategy]
    trial.cases(model, strategies)  # a strategy that does not exist is told before anything runs
    environment = trial.environment(model, env, say)
    with trial.known(model) as folder:
        with err.status(f"{file.name}: shapes"):
            look_into(model, environment, folder)
        cases, left_out = trial.cases(model, strategies)
        yield [case for case in cases if case.strategy in strategies], left_out, environment
