"""A user's step runs in float64 as a whole: what compiles is compiled, and targets are as wide as
the rest.
"""

from __future__ import annotations

from pathlib import Path

from framebench.engine.environments import Environment
from tests.processes import ROOT, run_inside

PROGRAM = Path(__file__).parent / "programs" / "check_in_float64.py"
MODELS = ROOT / "studies/user_models/models"


def check(model: str, strategy: str, folder: Path, environment: Environment) -> dict[str, object]:
    """Check a strategy of a model in float64, and return what came of it."""
    file = folder / "mine.py"
    file.write_text((MODELS / f"{model}.py").read_text())
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(folder)}
    outcome = run_inside(environment, PROGRAM, str(file), strategy, variables=variables)
    assert isinstance(outcome, dict)
    return outcome


def test_a_compiled_step_is_compiled_behind_an_eager_baseline(
    tmp_path: Path, environment: dict[str, Environment]
) -> None:
    """The model has batch norms: run a second time eagerly, its blocks would move their statistics
    twice.
    """
    outcome = check("cnn_batchnorm", "checkpoint+compile", tmp_path, environment["torch"])
    assert (outcome["computed"], outcome["passed"]) == (True, True), outcome["reason"]
    assert outcome["graphs"] != 0


def test_a_loss_whose_type_is_that_of_its_target_is_computed(
    tmp_path: Path, environment: dict[str, Environment]
) -> None:
    """As a binary cross entropy is, which would be narrower than float64 by a target in float32."""
    outcome = check("vae", "fp32", tmp_path, environment["torch"])
    assert (outcome["computed"], outcome["passed"]) == (True, True), outcome["reason"]
