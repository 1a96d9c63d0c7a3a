"""What a check of the machine has found."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One check.

    What has a figure was measured, and is relative (1 = 100 %) unless its unit says otherwise.
    """

    check: str
    passed: bool
    detail: str  # which version there is, what was measured, or how to get what is missing
    figure: float | None = None
    unit: str | None = None
    optional: bool = False
