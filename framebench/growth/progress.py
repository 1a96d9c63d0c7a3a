"""How the worker of `grow` says on standard error how far it is."""

from __future__ import annotations

PROGRESS = "framebench grow: "  # begins such a line


def find_progress(errors: str) -> str:
    """Return how far the worker said it was, in the last such line of its standard error.

    Other lines are a script's own. The text is empty where it has said nothing yet.
    """
    for line in reversed(errors.splitlines()):
        if line.startswith(PROGRESS):
            return line.removeprefix(PROGRESS)
    return ""
