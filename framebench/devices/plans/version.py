"""Count the versions of the planners, which tell whether a cached prediction is current."""

from __future__ import annotations

PLANNER_VERSION = 2
# The first version that predicts the same sizes as PLANNER_VERSION. Set it to the new version when
# a change of a planner, an adapter or a device's figures makes predictions differ: cached ones of
# earlier versions are then recomputed when somebody asks for them. Do not change it for a version
# that only answers what was refused before, as 2 does for compiled steps.
SAME_SIZES_SINCE = 1
# Predictions from before versions were counted are marked with a hash of the sources, which has at
# least so many digits.
HASH_DIGITS = 12
# beginnings of reasons for which an earlier version refused a case that this one answers
ANSWERED_NOW = ("only eager execution is simulated",)


def is_current(code: str) -> bool:
    """Return whether a prediction with this mark was made by the current version.

    Another version predicts other sizes. A hash in the place of a version counts as version 1.
    """
    version = "1" if len(code) >= HASH_DIGITS else code
    return version.isdigit() and SAME_SIZES_SINCE <= int(version) <= PLANNER_VERSION


def is_refusal_current(code: str, reason: str) -> bool:
    """Return whether the current version would refuse what version `code` refused for a reason."""
    return is_current(code) and not reason.startswith(ANSWERED_NOW)
