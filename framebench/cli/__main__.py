"""`framebench`, and `python -m framebench.cli`."""

from __future__ import annotations

import warnings
from typing import Any

from framebench.cases import UnknownCase
from framebench.cli import claims, figures, measuring, reading, upkeep, versions  # noqa: F401  # importing a room adds its commands
from framebench.cli.shared import app, fail, say
from framebench.environments import SetupError
from framebench.session import Busy


def main() -> None:
    """Users' mistakes end in a sentence, not in a traceback."""
    warnings.showwarning = plain_warning  # type: ignore[assignment]
    try:
        app()
    except (UnknownCase, SetupError, Busy) as error:
        fail(str(error), 2)
    except OSError as error:
        fail(f"{error.strerror}: {error.filename}; what was measured so far is kept", 1)


def plain_warning(message: Any, *_: Any, **__: Any) -> None:
    say(f"warning: {message}")


if __name__ == "__main__":
    main()
