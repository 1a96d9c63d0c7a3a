"""Workspaces of convolutions by cuDNN's own heuristics: what it is asked, and a GPU's peaks that
depend on the answer.
"""

from pathlib import Path

import pytest

from framebench.analysis.results import Results
from framebench.engine import environments
from tests.marks import rarely
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
        rarely("unet3d/torch/train/checkpoint/b2/full"),
        rarely("unet3d/torch/train/fp32/b2/full"),
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


@pytest.mark.parametrize("device", ["t4-16gb", "v100-16gb"])
def test_convolutions_in_bfloat16_are_refused_where_pytorch_leaves_cudnn(environment, device):
    places = {}
    for strategy in ("amp_bf16", "amp_fp16"):
        places[strategy] = f"resnet50/torch/train/{strategy}/b4/tiny@{device}"
    answers = run_inside(environment["torch"], PROGRAMS / "torch_plans.py", *places.values())
    assert answers[places["amp_bf16"]]["outcome"] == "not planned"
    assert "amp_fp16" in answers[places["amp_bf16"]]["reason"]
    assert answers[places["amp_fp16"]]["outcome"] == "planned"


@pytest.fixture(scope="module")
def bounds(environment):
    return run_inside(environment["torch"], PROGRAMS / "bounded_convolutions.py")


@pytest.mark.slow
def test_without_a_pool_each_convolution_takes_the_largest_workspace_that_cudnn_names(bounds):
    """It is 256 MiB, and 1 MiB where cuDNN has one algorithm alone, which takes a page of 2 MiB."""
    two, one = bounds["pool_off"]["parts"], bounds["pool_off with one algorithm"]["parts"]
    assert 0 < two["at_most"] - one["at_most"] - (128 << 20) <= (256 - 2 - 128) << 20
    assert two["at_least"] == one["at_least"] <= bounds["fp32"]["parts"]["allocated"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("pool_off without cuDNN", "cuDNN, which names the workspaces of convolutions"),
        ("autotune", "the pool may reserve more with smaller ones"),
    ],
)
def test_where_no_upper_bound_is_known_the_answer_says_why(bounds, step, reason):
    assert "at_most" not in bounds[step]["parts"]
    assert reason in bounds[step]["notes"][0]
