"""The version of the planners, by which a cached prediction is known to be current."""

from __future__ import annotations

PLANNER_VERSION = 2
# The first version whose sizes are those of PLANNER_VERSION: set it to the new version when a
# change of a planner, an adapter or a device's figures makes predictions differ. Cached ones of an
# earlier version are then recomputed when somebody asks for them. A version that only answers what
# was refused before, as 2 does for compiled steps, leaves it.
SAME_SIZES_SINCE = 1
# at least; predictions from before versions were counted are marked with a hash of the sources
HASH_DIGITS = 12
# how the reasons begin for which an earlier version refused a case, and this one does not
ANSWERED_NOW = ("only eager execution is simulated",)


def is_current(code: str) -> bool:
    """Return whether a prediction with this mark was made by the current version.

    Another version predicts other sizes. A hash in the place of a version counts as version 1.
    """
    version = "1" if len(code) >= HASH_DIGITS else code
    return version.isdigit() and SAME_SIZES_SINCE <= int(version) <= PLANNER_VERSION


def is_refusal_current(code: str, reason: str) -> bool:
    """Return whether the current version would refuse what one marked with this `code` did."""
    return is_current(code) and not reason.startswith(ANSWERED_NOW)
