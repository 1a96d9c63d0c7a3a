"""Checkpointing in Jittor, which is ours: no model of the suite has dropout in its blocks."""

from pathlib import Path

import pytest

from tests.processes import run_inside

MASK = Path(__file__).parent / "programs/jittor_checkpoint_mask.py"


@pytest.mark.slow
@pytest.mark.all_cases
def test_a_recomputed_block_has_the_dropout_mask_of_its_forward_pass(environment):
    assert run_inside(environment["jittor"], MASK) is True
