"""`framebench`, and `python -m framebench.cli`."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence

import typer

from framebench.cli.shared import app, fail, problem, say
from framebench.engine.environments import SetupError
from framebench.engine.session import Busy
from framebench.models.spec import UnknownName
from framebench.records.provenance import BadMachine
from framebench.suite.case import UnknownCase

# The module that adds a command to the application when it is imported, then those that add subcommands. They are imported
# when they are asked for, and in this order for the list of commands: so the help does not wait for what a command needs.
COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("framebench.cli.run",),
    "list": ("framebench.cli.reading",),
    "show": ("framebench.cli.reading",),
    "answer": ("framebench.cli.reading",),
    "report": ("framebench.cli.report",),
    "setup": ("framebench.cli.upkeep",),
    "dev": (
        "framebench.cli.upkeep",
        "framebench.devices.plans.command",
        "framebench.devices.releases.command",
        "framebench.doctor.command",
        "framebench.references.command",
    ),
    "advise": ("framebench.budget.advise.command",),
    "claims": ("framebench.claims.command",),
    "plan": ("framebench.cluster.command",),
    "collect": ("framebench.cluster.command",),
    "check-results": ("framebench.cluster.command",),
    "compare": ("framebench.compare.command",),
    "devices": ("framebench.devices.command",),
    "doctor": ("framebench.doctor.command",),
    "explain": ("framebench.explain.command",),
    "grow": ("framebench.growth.command",),
    "max-batch": ("framebench.budget.max_batch.command",),
    "evaluate": ("framebench.budget.max_batch.command",),
    "predict": ("framebench.budget.predict.command",),
    "try": ("framebench.user_model.command",),
    "versions": (
        "framebench.versions.command",
        "framebench.versions.bisect_command",
        "framebench.versions.newest_command",
        "framebench.versions.publish_command",
        "framebench.versions.add_command",
    ),
}


def load_commands(arguments: Sequence[str]) -> None:
    """Import the command that these arguments name, or every command where they name none: for the help, or a mistake."""
    name = next((argument for argument in arguments if not argument.startswith("-")), "")
    modules = COMMANDS.get(name) or [defining for defining, *_ in COMMANDS.values()]
    for module in modules:
        importlib.import_module(module)


def main() -> None:
    """Users' mistakes end in a sentence, not in a traceback."""
    warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")  # type: ignore[assignment]
    try:
        load_commands(sys.argv[1:])
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
