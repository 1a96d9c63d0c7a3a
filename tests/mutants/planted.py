"""All planted bugs."""

from __future__ import annotations

from tests.mutants import (
    planted_generation,
    planted_jax,
    planted_jittor,
    planted_later,
    planted_narrow,
    planted_torch,
)

BUGS = (
    *planted_torch.BUGS,
    *planted_jax.BUGS,
    *planted_jittor.BUGS,
    *planted_later.BUGS,
    *planted_generation.BUGS,
    *planted_narrow.BUGS,
)
