"""With a CPU's choices the simulation counts what `predict` counts in another way, to the byte."""

from pathlib import Path

import pytest

from tests.marks import rarely
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "as_on_a_cpu.py"
# bytes that `predict` counts and a simulated GPU does not have: Adam's counters lie on the host
HOST_BYTES_PER_WEIGHT = {
    "transformer/torch/train/checkpoint/b4/tiny": 4,
    "unet3d/torch/train/accumulate/b4/tiny": 0,
    "transformer/torch/train/fp32/b4/cpu": 4,
    "transformer/torch/eval/no_grad/b4/cpu": 0,
    "resnet50/torch/train/fp32/b8/cpu": 0,
}
EVERY = tuple(HOST_BYTES_PER_WEIGHT)


@pytest.mark.slow
@pytest.mark.parametrize("cases", [EVERY[:2], rarely(EVERY)], ids=["some", "all"])
def test_the_simulation_agrees_with_predict_to_the_byte(cases, environment):
    peaks = run_inside(environment["torch"], PROGRAM, *cases)
    for case in cases:
        # `predict` counts Adam's counters, which lie on the host of a simulated GPU
        on_host = HOST_BYTES_PER_WEIGHT[case] * peaks[case]["weights"]
        assert peaks[case]["predicted"] == peaks[case]["simulated"] + on_host, case
