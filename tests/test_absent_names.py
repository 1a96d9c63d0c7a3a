"""Names that articles about Jittor recommend and that do not exist: looked up in the Jittor that is installed."""

from __future__ import annotations

import pytest

from framebench.environments import Environment
from tests.conftest import run_inside

LOOK_UP = """
import functools, importlib, json, sys
import jittor

def exists(path):
    try:
        functools.reduce(getattr, path.split(".")[1:], jittor)
        return True
    except AttributeError:
        pass
    try:
        importlib.import_module(path)
        return True
    except ModuleNotFoundError:
        return False

print(json.dumps({path: exists(path) for path in sys.argv[1:]}))
"""
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
)
PRESENT = ("jittor.ops", "jittor.nn.BatchNorm3d", "jittor.misc", "jittor.optim.AdamW", "jittor.flags.amp_level")
pytestmark = pytest.mark.slow


def test_recommended_names_do_not_exist(environment: dict[str, Environment]) -> None:
    found = run_inside(environment["jittor"], LOOK_UP, *ABSENT)
    assert found == dict.fromkeys(ABSENT, False)


def test_the_look_up_finds_what_exists(environment: dict[str, Environment]) -> None:
    found = run_inside(environment["jittor"], LOOK_UP, *PRESENT)
    assert found == dict.fromkeys(PRESENT, True)
