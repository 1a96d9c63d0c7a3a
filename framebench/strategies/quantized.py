"""Count what 8-bit optimizers keep, torchao's and bitsandbytes'."""

from __future__ import annotations

BLOCK = 256  # numbers that share a scale
# a weight of fewer numbers keeps its moments in float32
FEWEST_IN_8_BITS = 4096
SCALE = 4  # bytes
TABLE = 1024  # bytes of the codes' table


def count_moment_bytes(numbers: int) -> int:
    """Return the bytes that `adamw_8bit` keeps for one moment of a weight of so many numbers."""
    if numbers < FEWEST_IN_8_BITS or numbers % BLOCK:
        return 4 * numbers
    return numbers + numbers // BLOCK * SCALE + TABLE
