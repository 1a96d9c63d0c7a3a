"""The version of the planners, by which a cached prediction is known to be current."""

from __future__ import annotations

# Raise it when a change of a planner, an adapter or a device's figures makes predictions differ.
# Cached ones of an earlier version are then recomputed when somebody asks for them.
PLANNER_VERSION = 1
# at least; predictions from before versions were counted are marked with a hash of the sources
HASH_DIGITS = 12


def is_current(code: str) -> bool:
    """Return whether a prediction that is marked with this `code` is of the current version.

    A hash in the place of a version counts as version 1.
    """
    version = "1" if len(code) >= HASH_DIGITS else code
    return version == str(PLANNER_VERSION)
