"""How many steps `grow` makes, and how its worker says on standard error how far it is."""

from __future__ import annotations

PROGRESS = "framebench grow: "  # begins such a line
LEAST_STEPS = 52  # that are read: framebench.growth.table has the reason
WARM_UP = 20  # steps before the first reading: compilers, pools and caches settle
STEPS_PER_HALF = 12  # that are watched; what the second half leaves behind is named


def count_steps(steps: int) -> int:
    """Return how many steps are made where so many are read."""
    return WARM_UP + steps + 2 * STEPS_PER_HALF


def describe_progress(steps_made: int, steps_needed: int, elapsed_s: float) -> str:
    """Return how many steps were made in these seconds, and about how long the others take."""
    remaining_s = elapsed_s / steps_made * (steps_needed - steps_made)
    return f"step {steps_made} of {steps_needed}, about {remaining_s:.0f} s left"


def find_progress(errors: str) -> str:
    """Return how far the worker said it was, in the last such line of its standard error.

    Other lines are a script's own. The text is empty where it has said nothing yet.
    """
    for line in reversed(errors.splitlines()):
        if line.startswith(PROGRESS):
            return line.removeprefix(PROGRESS)
    return ""
