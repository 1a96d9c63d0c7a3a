"""Names that articles about Jittor recommend and that do not exist, looked up in the Jittor that is
installed; and a flag that exists and breaks it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.claims.ledger import list_names
from framebench.claims.measure import look_up_names
from framebench.claims.registry import REGISTRY
from framebench.engine.environments import Environment
from tests.processes import run_inside

ABSENT = (
    "jittor.ops.optimized_attention",
    "jittor.nn.VolumeBatchNorm3d",
    "jittor.misc.set_memory_limit",
    "jittor.amp",
    "jittor.amp.GradScaler",
    "jittor.GradScaler",
    "jittor.optim.GradScaler",
    "jittor.nn.GradScaler",
    "jittor.flags.use_cuda_managed_allocator",  # in builds with CUDA only
    # of checkpointing (claim A13): in no module that the package imports
    "jittor.checkpoint",
    "jittor.**checkpoint**",
    "jittor.**recompute**",
    "jittor.**remat**",
)
PRESENT = (
    "jittor.ops",
    "jittor.nn.BatchNorm3d",
    "jittor.misc",
    "jittor.optim.AdamW",
    "jittor.flags.amp_level",
)
pytestmark = pytest.mark.slow


def test_recommended_names_do_not_exist(environment: dict[str, Environment]) -> None:
    is_there = look_up_names((*ABSENT, *list_names(REGISTRY.claims)), environment["jittor"])
    assert is_there == dict.fromkeys((*ABSENT, *list_names(REGISTRY.claims)), False)


def test_existing_names_are_found(environment: dict[str, Environment]) -> None:
    is_there = look_up_names(PRESENT, environment["jittor"])
    assert is_there == dict.fromkeys(PRESENT, True)


PROGRAMS = Path(__file__).parent / "programs"
WITHOUT_POOL = PROGRAMS / "absent_names_without_pool.py"


def test_without_its_pool_jittor_computes_wrong(environment: dict[str, Environment]) -> None:
    """When this fails, `pool_off` has become possible."""
    pooled, unpooled = run_inside(environment["jittor"], WITHOUT_POOL)
    assert pooled == [1, 2, 3, 4, 5, 6]
    assert unpooled != [1, 2, 3, 4, 5, 6]
