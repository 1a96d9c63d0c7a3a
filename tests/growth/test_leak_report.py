"""What steps leave behind is named without a framework, too: what it is, what made it, what holds
it.
"""

import json
import sys
from pathlib import Path

import pytest

from framebench.growth.leak_report import ROOT, choose_line
from framebench.growth.progress import STEPS_PER_HALF
from tests.processes import run_process

PROGRAM = Path(__file__).parent / "programs" / "leak_report_kept.py"


@pytest.mark.parametrize("is_linked", [False, True], ids=["as it is", "by a link"])
def test_leaked_objects_are_named_with_size_line_and_holder(is_linked, tmp_path):
    """They are named also where the environment, with numpy's files, is reached by a link."""
    environment = Path(sys.prefix)
    if is_linked:
        environment = tmp_path / "environment"
        environment.symlink_to(sys.prefix)
    done = run_process([environment / "bin" / "python", "-P", PROGRAM], PYTHONPATH=str(ROOT))
    ((array,), _), ((tensor,), _), (no_kept, (rare,)), nothing = json.loads(done.stdout)
    assert (array["kind"], array["what"]) == ("object", "numpy.ndarray float64[1250]")
    assert (array["per_step"], array["bytes_per_step"]) == (1, 10_000)
    line = PROGRAM.read_text().splitlines().index("    arrays.append(np.full(1250, 0.5))") + 1
    place = f"{PROGRAM.relative_to(ROOT)}:{line}"
    length = 2 * STEPS_PER_HALF
    assert array["note"] == f"held by `arrays`, list of {length}, in __main__, added to at {place}"
    assert array["made_at"] == place
    assert tensor["what"].endswith(".Tensor")
    assert (tensor["per_step"], tensor["bytes_per_step"]) == (1, None), (
        "its bytes are its storage's"
    )
    assert no_kept == []
    assert (rare["what"], rare["per_step"]) == (tensor["what"], 2 / STEPS_PER_HALF)
    assert nothing == [[], []]


def test_the_line_of_a_leak_is_the_innermost_of_the_user():
    library = (json.__file__, 1)
    suite = (str(ROOT / "framebench/worker/worker.py"), 2)
    user = (str(ROOT / "step.py"), 3)
    outer_user = (str(ROOT / "step.py"), 4)
    assert choose_line([library, suite, user, outer_user]) == "step.py:3"
    assert choose_line([library, suite, library]) == "framebench/worker/worker.py:2"
    assert choose_line([library, ("<frozen>", 5)]) == f"{json.__file__}:1"
    assert choose_line([]) == ""
