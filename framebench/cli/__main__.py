"""`framebench`, and `python -m framebench.cli`."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import typer

from framebench.cli import measuring, reading, report, upkeep  # noqa: F401  # importing a room adds its commands
from framebench.cli.shared import app, fail, problem, say
from framebench.engine.environments import SetupError
from framebench.engine.session import Busy
from framebench.features.advise import command as advice  # noqa: F401  # importing a room adds its commands
from framebench.features.claims import command as claims  # noqa: F401  # importing a room adds its commands
from framebench.features.cluster import command as cluster  # noqa: F401  # importing a room adds its commands
from framebench.features.explain import command as explain  # noqa: F401  # importing a room adds its commands
from framebench.features.growth import command as growth  # noqa: F401  # importing a room adds its commands
from framebench.features.user_model import command as own  # noqa: F401  # importing a room adds its commands
from framebench.features.versions import bisect_command as bisect  # noqa: F401  # importing a room adds its commands
from framebench.features.versions import newest_command as newest  # noqa: F401  # importing a room adds its commands
from framebench.models.spec import UnknownName
from framebench.records import pins
from framebench.records.provenance import BadMachine
from framebench.suite.case import UnknownCase


def main() -> None:
    """Users' mistakes end in a sentence, not in a traceback."""
    warnings.showwarning = plain_warning  # type: ignore[assignment]
    if not pins.REQUIREMENTS.is_dir():
        fail("this copy has no requirements/: framebench is used from a checkout; clone it, and call `make setup` there", 2)
    try:
        code = app(standalone_mode=False, prog_name="framebench")
    except typer.TyperException as error:
        fail(mistake(error), 2)
    except (typer.Abort, KeyboardInterrupt):
        fail("interrupted", 130)
    except (UnknownCase, UnknownName, SetupError, Busy, BadMachine) as error:
        fail(str(error), 2)
    except OSError as error:
        fail(problem(error), 1)
    sys.exit(code)


def mistake(error: typer.TyperException) -> str:
    """What was wrong on the command line, and where all of it is explained. Ends the command where the help was shown."""
    context: typer.Context | None = getattr(error, "ctx", None)
    if not (said := error.format_message().strip().rstrip(".")):
        sys.exit(2)
    return f"{said}; `{context.command_path if context else 'framebench'} --help` has all of it"


def plain_warning(message: Any, *_: Any, **__: Any) -> None:
    say(f"warning: {message}")


if __name__ == "__main__":
    main()
