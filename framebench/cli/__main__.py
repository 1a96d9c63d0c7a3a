"""`framebench`, and `python -m framebench.cli`."""

from __future__ import annotations

import sys
import warnings

import typer

from framebench import extensions
from framebench.cli import reading, report, run, upkeep  # noqa: F401  # importing a module adds its commands
from framebench.cli.shared import app, fail, problem, say
from framebench.engine.environments import SetupError
from framebench.engine.session import Busy
from framebench.models.spec import UnknownName
from framebench.records.provenance import BadMachine
from framebench.suite.case import UnknownCase

FEATURES = [*extensions.every("commands")]  # importing a module adds its commands


def main() -> None:
    """Users' mistakes end in a sentence, not in a traceback."""
    warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")  # type: ignore[assignment]
    try:
        code = app(standalone_mode=False, prog_name="framebench")
    except typer.TyperException as error:
        fail(_mistake(error), 2)
    except (typer.Abort, KeyboardInterrupt):
        fail("interrupted", 130)
    except (UnknownCase, UnknownName, SetupError, Busy, BadMachine) as error:
        fail(str(error), 2)
    except OSError as error:
        fail(problem(error), 1)
    sys.exit(code)


def _mistake(error: typer.TyperException) -> str:
    """What was wrong on the command line, and where all of it is explained. Ends the command where the help was shown."""
    context: typer.Context | None = getattr(error, "ctx", None)
    if not (message := error.format_message().strip().rstrip(".")):
        sys.exit(2)
    return f"{message}; `{context.command_path if context else 'framebench'} --help` has all of it"


if __name__ == "__main__":
    main()
