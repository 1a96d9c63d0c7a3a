"""Workspaces of convolutions by cuDNN's own heuristics: what it is asked, and a GPU's peaks that
depend on the answer.
"""

from pathlib import Path

import pytest

from framebench.analysis.results import Results
from framebench.engine import environments
from tests.processes import ROOT, run_inside

PROGRAMS = Path(__file__).parent / "programs"
WITH_CUDNN = environments.describe("torch", "2.12.1")  # a build for GPUs


def test_each_gradient_has_its_workspace_before_the_next_is_there(environment):
    """The copy of the weight, 2304 bytes, is for the gradient of the input alone."""
    result = run_inside(environment["torch"], PROGRAMS / "convolutions.py")
    data, weight = ["input", "+2304", "+7000", "-7000", "-2304"], ["weight", "+9000", "-9000"]
    assert result == [[*data, *weight, "bias"], weight, data]


@pytest.mark.slow
@pytest.mark.skipif(
    not environments.is_built(WITH_CUDNN),
    reason="no environment here has cuDNN: framebench setup torch==2.12.1",
)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param("unet3d/torch/train/checkpoint/b2/full", marks=pytest.mark.all_cases),
        pytest.param("unet3d/torch/train/fp32/b2/full", marks=pytest.mark.all_cases),
        "resnet50/torch/train/checkpoint/b64/full",
    ],
)
def test_reserved_peaks_agree_with_a_gpu(case):
    """An H200's, whose release of cuDNN is one older.

    Without the workspaces the first two are 13 % and more too low.
    """
    records = Results(ROOT / "results").get_records("nvidia-h200")
    (measured,) = {r.peaks["allocator.reserved"] for r in records if r.case == case}
    place = f"{case}@h200-141gb"
    answers = run_inside(WITH_CUDNN, PROGRAMS / "torch_plans.py", place)
    assert answers[place]["versions"]["cudnn"]
    assert answers[place]["peak_bytes"] == pytest.approx(measured, rel=0.02)
