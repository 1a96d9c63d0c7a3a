"""Names that articles about Jittor recommend and that do not exist, looked up in the Jittor that is
installed; and a flag that exists and breaks it.
"""

from pathlib import Path

import pytest

from framebench.claims.ledger import list_names
from framebench.claims.measure import look_up_names
from framebench.claims.registry import REGISTRY
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
    "jittor.checkpoint",
)
pytestmark = pytest.mark.slow


def test_recommended_names_do_not_exist(environment):
    names = (*ABSENT, *list_names(REGISTRY.claims))
    is_there = look_up_names((*names, "jittor.flags.amp_level"), environment["jittor"])
    assert is_there.pop("jittor.flags.amp_level"), "a name that does exist is found"
    assert is_there == dict.fromkeys(names, False)


PROGRAMS = Path(__file__).parent / "programs"
OF_RECOMPUTATION = PROGRAMS / "absent_names_of_recomputation.py"
WITHOUT_POOL = PROGRAMS / "absent_names_without_pool.py"


def test_no_name_of_jittor_speaks_of_recomputation(environment):
    """Claim A13 is about names that are in no module that the package imports."""
    assert run_inside(environment["jittor"], OF_RECOMPUTATION) == []


def test_without_its_pool_jittor_computes_wrong(environment):
    """When this fails, `pool_off` has become possible."""
    pooled, unpooled = run_inside(environment["jittor"], WITHOUT_POOL)
    assert pooled == [1, 2, 3, 4, 5, 6]
    assert unpooled != [1, 2, 3, 4, 5, 6]
