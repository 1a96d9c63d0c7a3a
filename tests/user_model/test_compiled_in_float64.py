"""A compiled strategy is compiled in float64 too, although its eager baseline precedes it in the process."""

from __future__ import annotations

from pathlib import Path

from framebench.engine.environments import Environment
from tests.processes import ROOT, run_inside

PROGRAM = Path(__file__).parent / "programs" / "compiled_in_float64.py"
# its blocks have batch norms: run a second time eagerly, they would move their running statistics twice
MODEL = ROOT / "studies/user_models/models/cnn_batchnorm.py"


def test_a_compiled_step_is_compiled_behind_an_eager_baseline(tmp_path: Path, environment: dict[str, Environment]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MODEL.read_text())
    outcome = run_inside(environment["torch"], PROGRAM, str(file), variables={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)})
    assert isinstance(outcome, dict)
    assert (outcome["computed"], outcome["passed"]) == (True, True), outcome["reason"]
    assert outcome["graphs"] > 0
