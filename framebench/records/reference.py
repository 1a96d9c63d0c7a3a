"""Tell what a record was verified against."""

from __future__ import annotations

from typing import Literal

from framebench.records.record import Record

Reference = Literal["float64", "float32", "none"]


def classify_reference(record: Record) -> Reference:
    """Return which kind of reference a record's values were compared with.

    "float64" are the values of golden.json. "float32" is another case of the same session, which
    stands in for them at sizes that have none. "none" means that the values had no reference and
    were only checked to be finite.
    """
    verification = record.verification
    if verification is None or not verification.relative_error:
        return "none"
    names_a_case = "/" in (verification.against or "")
    return "float32" if names_a_case else "float64"
