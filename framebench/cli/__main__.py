"""`framebench`, and `python -m framebench.cli`."""

from __future__ import annotations

import warnings
from typing import Any

from framebench.cli import advice, claims, figures, measuring, reading, upkeep, versions  # noqa: F401  # importing a room adds its commands
from framebench.cli.shared import app, fail, say
from framebench.measure.environments import SetupError
from framebench.measure.session import Busy
from framebench.records import pins
from framebench.records.provenance import BadMachine
from framebench.suite.case import UnknownCase
from models.spec import UnknownName


def main() -> None:
    """Users' mistakes end in a sentence, not in a traceback."""
    warnings.showwarning = plain_warning  # type: ignore[assignment]
    if not pins.REQUIREMENTS.is_dir():
        fail("this copy has no requirements/: framebench is used from a checkout; clone it, and call `make setup` there", 2)
    try:
        app()
    except (UnknownCase, UnknownName, SetupError, Busy, BadMachine) as error:
        fail(str(error), 2)
    except OSError as error:
        said = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        fail(f"{said}; what was measured so far is kept", 1)


def plain_warning(message: Any, *_: Any, **__: Any) -> None:
    say(f"warning: {message}")


if __name__ == "__main__":
    main()
