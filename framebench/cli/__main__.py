"""The program `framebench`, which `python -m framebench.cli` starts too."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence

import typer

from framebench.cli.shared import app, describe_error, fail, say
from framebench.engine.environments import SetupError
from framebench.engine.session import Busy
from framebench.models.spec import UnknownName
from framebench.records.provenance import BadMachine
from framebench.suite.case import UnknownCase

# By command the module that adds it to the application when it is imported, then those that add
# subcommands. They are imported when they are asked for, and for the list of commands in this
# order: so the help does not wait for what a command needs.
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
    """Import the command that these arguments name.

    Where they name none, for the help or by mistake, every command is imported, without what adds
    subcommands.
    """
    words = [argument for argument in arguments if not argument.startswith("-")]
    if words and words[0] in COMMANDS:
        modules = list(COMMANDS[words[0]])
    else:
        modules = [of_command[0] for of_command in COMMANDS.values()]
    for module in modules:
        importlib.import_module(module)


def main() -> None:
    """Run the command line; a user's mistake ends in a sentence, not in a traceback."""
    warnings.showwarning = show_warning  # type: ignore[assignment]
    try:
        load_commands(sys.argv[1:])
        code = app(standalone_mode=False, prog_name="framebench")
    except typer.TyperException as error:
        fail(describe_mistake(error), 2)
    except (typer.Abort, KeyboardInterrupt):
        fail("interrupted", 130)
    except (UnknownCase, UnknownName, SetupError, Busy, BadMachine) as error:
        fail(str(error), 2)
    except OSError as error:
        fail(describe_error(error), 1)
    sys.exit(code)


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as a sentence, in the place of `warnings.showwarning`."""
    say(f"warning: {message}")


def describe_mistake(error: typer.TyperException) -> str:
    """Return what was wrong on the command line, and where all of it is explained.

    Ends the command if there is no message: then the help was shown in its place.
    """
    message = error.format_message().strip().rstrip(".")
    if not message:
        sys.exit(2)
    context: typer.Context | None = getattr(error, "ctx", None)
    command = context.command_path if context else "framebench"
    return f"{message}; `{command} --help` has all of it"


if __name__ == "__main__":
    main()
