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
        "framebench.features.devices.plans.command",
        "framebench.features.devices.releases.command",
        "framebench.features.doctor.command",
        "framebench.features.references.command",
    ),
    "advise": ("framebench.features.advise.command",),
    "claims": ("framebench.features.claims.command",),
    "plan": ("framebench.features.cluster.command",),
    "collect": ("framebench.features.cluster.command",),
    "check-results": ("framebench.features.cluster.command",),
    "compare": ("framebench.features.compare.command",),
    "devices": ("framebench.features.devices.command",),
    "doctor": ("framebench.features.doctor.command",),
    "explain": ("framebench.features.explain.command",),
    "grow": ("framebench.features.growth.command",),
    "max-batch": ("framebench.features.max_batch.command",),
    "evaluate": ("framebench.features.max_batch.command",),
    "predict": ("framebench.features.predict.command",),
    "try": ("framebench.features.user_model.command",),
    "versions": (
        "framebench.features.versions.command",
        "framebench.features.versions.bisect_command",
        "framebench.features.versions.newest_command",
        "framebench.features.versions.publish_command",
        "framebench.features.versions.add_command",
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
