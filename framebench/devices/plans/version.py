"""Count the versions of the planners, which tell whether a cached prediction is current."""

from __future__ import annotations

PLANNER_VERSION = 4
# The first version that predicts the same sizes as PLANNER_VERSION. Set it to the new version when
# a change of a planner, an adapter or a device's figures makes predictions differ: cached ones of
# earlier versions are then recomputed when somebody asks for them. Do not change it for a version
# that only answers what was refused before, as 2 does for compiled steps.
SAME_SIZES_SINCE = 1
# Predictions from before versions were counted are marked with a hash of the sources, which has at
# least so many digits.
HASH_DIGITS = 12
# by the beginning of a refusal's reason: the first version that answers such a case, or bounds it
ANSWERED_SINCE = {
    "only eager execution is simulated": 2,
    "when a copy on another stream is done": 3,
    "the loader's threads and files are real": 3,
    "without its pool PyTorch asks the driver": 4,  # bounds steps with convolutions from above
}


def read_version(code: str) -> int | None:
    """Return the version that a prediction is marked with, or None if the mark is none.

    A hash in the place of a version counts as version 1.
    """
    if len(code) >= HASH_DIGITS:
        return 1
    return int(code) if code.isdigit() else None


def is_current(code: str) -> bool:
    """Return whether a prediction with this mark has the sizes of the current version."""
    version = read_version(code)
    return version is not None and SAME_SIZES_SINCE <= version <= PLANNER_VERSION


def is_refusal_current(code: str, reason: str) -> bool:
    """Return whether the current version would say no more of what it refused for a reason."""
    version = read_version(code)
    if version is None or not is_current(code):
        return False
    for beginning, since in ANSWERED_SINCE.items():
        if reason.startswith(beginning) and version < since:
            return False
    return True
