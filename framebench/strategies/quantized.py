"""Count what 8-bit optimizers keep, torchao's and bitsandbytes'."""

from __future__ import annotations

BLOCK = 256  # numbers that share a scale
LEAST = 4096  # numbers of the smallest weight whose moments are kept in 8 bits
SCALE = 4  # bytes
TABLE = 1024  # bytes of the codes' table


def count_moment_bytes(numbers: int) -> int:
    """Return the bytes that `adamw_8bit` keeps for one moment of a weight of so many numbers."""
    if numbers < LEAST or numbers % BLOCK:
        return 4 * numbers
    return numbers + numbers // BLOCK * SCALE + TABLE
