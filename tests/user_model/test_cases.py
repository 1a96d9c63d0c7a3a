"""Kinds of models that users reported, and that were answered wrongly once: peaks beside another
instrument, what is held elsewhere, and which strategies are right. `cases/` has a small file of
each kind; how they grow is in tests/growth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from framebench.engine.environments import Environment
from framebench.instruments.host import MALLOC_ENV
from tests.conftest import asked
from tests.processes import framebench, run_inside

HERE = Path(__file__).parent
MIB = 2**20
STRATEGIES = ("fp32", "amp_bf16", "checkpoint", "accumulate", "optimizer_in_backward")
RIGHT = dict.fromkeys(STRATEGIES, "right")
NO_BLOCKS = {"checkpoint": "left out: there is no class of which the model has several modules"}


@dataclass(frozen=True)
class Known:
    """What is right of a file."""

    verdicts: dict[str, str] = field(default_factory=lambda: RIGHT)
    holder: str = ""
    held: int = 0  # bytes
    least: int = 0  # bytes that are there by hand: weights, gradients, states, and what is held
    accumulation: str = ""
    first: int = 0  # weights without a gradient in the first step
    random: bool = False
    optimizer: str = ""
    blocks: int = 0  # 0: not checked


HOOKED = "left out: hooks of the optimizer get all weights at once"
NO_SAMPLES = "left out: no input of batch(8) has 8 samples along its first axis"
PADDED = "tokens are unequal: in the batch's loss its halves count"
CASES = {
    "distillation": Known(
        holder="the global `TEACHER` of distillation.py",
        held=4 * 768 * 769 * 4,
        least=4 * 768 * 769 * 4,
    ),
    "factors": Known(RIGHT | NO_BLOCKS, least=80_000 * 32 * 4),
    "padded": Known(
        RIGHT | {"accumulate": f"left out: {PADDED}"},
        accumulation=PADDED,
        optimizer="AdamW at its full rate of 5e-05",
    ),
    "zero_head": Known(first=22, random=True),
    "recurrent": Known(RIGHT | NO_BLOCKS),
    "clipping": Known(RIGHT | NO_BLOCKS | {"optimizer_in_backward": HOOKED}, optimizer="Adam"),
    "detection": Known(),
    "graphs": Known(RIGHT | {"accumulate": NO_SAMPLES}, optimizer="Adam"),
    "teacher_and_student": Known(RIGHT, blocks=8),
}


# what is held, and what is left out; the others in `make test-all`
OFTEN = ("distillation", "padded", "clipping", "graphs")
NAMES = [pytest.param(name, marks=() if name in OFTEN else pytest.mark.all_cases) for name in CASES]


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    environment: dict[str, Environment],
) -> dict[str, Any]:
    """Of the files that are asked for."""
    folder = tmp_path_factory.mktemp("cases")
    names = asked(request)
    files = [str(HERE / "cases" / f"{name}.py") for name in CASES if name in names]
    variables = MALLOC_ENV | {"FRAMEBENCH_OWN": str(folder)}
    result = run_inside(
        environment["torch"],
        HERE / "programs/try_cases.py",
        ",".join(STRATEGIES),
        *files,
        variables=variables,
    )
    assert isinstance(result, dict)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_peaks_agree_with_the_high_water_mark(name: str, found: dict[str, Any]) -> None:
    """Beside the kernel's high-water mark; what is held has its name."""
    known, tried = CASES[name], found[name]["tried"]
    assert "fault" not in tried, tried["fault"]
    assert tried["peak"] == pytest.approx(found[name]["plain"], rel=0.03, abs=2 * MIB)
    assert tried["peak"] >= max(known.least, tried["saved"])
    if known.holder:
        assert sum(tried["holders"].values()) == pytest.approx(known.held, rel=0.01)
    else:
        assert sum(tried["holders"].values()) < MIB


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_strategies_of_reported_models_have_the_expected_verdicts(
    name: str, found: dict[str, Any]
) -> None:
    known, tried = CASES[name], found[name]["tried"]
    for strategy, verdict in known.verdicts.items():
        assert tried["verdicts"][strategy].startswith(verdict), (
            strategy,
            tried["verdicts"][strategy],
        )
    assert tried["accumulation"].startswith(known.accumulation)
    assert bool(tried["accumulation"]) == bool(known.accumulation)
    assert (tried["random"], tried["without_gradient"]["first"]) == (known.random, known.first)
    assert tried["optimizer"].startswith(known.optimizer)
    assert not tried["level"]
    assert known.blocks in (0, tried["blocks"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "right", "wrong", "reason"),
    [
        pytest.param(
            "masked",
            "compile",
            "memory_budget",
            "dropout has another mask in the backward pass (pytorch issue 190758)",
            marks=pytest.mark.all_cases,
        ),
        pytest.param(
            "interpolated",
            "compile",
            "amp_bf16+checkpoint+compile",
            "loses gradients below `interpolate` in a compiled step",
            marks=pytest.mark.all_cases,
        ),
        (
            "gated",
            "checkpoint",
            "checkpoint_dots",
            "changes a product of its GRU in place, which selective checkpointing has",
        ),
    ],
)
def test_known_faults_of_pytorch_are_named(
    case: str, right: str, wrong: str, reason: str, tmp_path: Path
) -> None:
    """As https://github.com/pytorch/pytorch/issues/190758 reports, and as docs/try.md does of the
    others.
    """
    asked = (
        "--strategies",
        f"fp32,{right},{wrong}",
        "--rounds",
        "0",
        "--blocks",
        "1",
        "--results",
        str(tmp_path),
    )
    done = framebench("try", str(HERE / "cases" / f"{case}.py"), *asked)
    assert done.returncode, done.stderr
    assert "2 of 3 strategies compute the same" in done.stderr
    assert f"; wrong: {wrong}" in done.stderr
    assert reason in " ".join(done.stdout.split())
