"""Releases of PyTorch that are not the pinned one: the rules that differ by release are of theirs,
the rest is said.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "torch_releases.py"
BEFORE, LATER = "2.8.0+cu128", "2.12.1"  # cuDNN is preferred from 2.11 on


@pytest.mark.slow
def test_attention_kernels_follow_the_release(environment: dict[str, Environment]) -> None:
    """On an H100 PyTorch prefers cuDNN's kernel in half precision since 2.11, and not in 2.8."""
    case = "transformer/torch/train/amp_bf16/b4/tiny"
    result = run_inside(environment["torch"], PROGRAM, case, "h100-80gb", BEFORE, LATER)
    assert isinstance(result, dict)
    assert {one["outcome"] for one in result.values()} == {"planned"}
    before, later = (result[release]["flags"]["attention"] for release in (BEFORE, LATER))
    assert (before, later) == ("flash_attention", "cudnn_attention")
    # the note that the other rules are the pinned release's
    assert all("those of PyTorch 2.13 for all" in " ".join(one["notes"]) for one in result.values())
