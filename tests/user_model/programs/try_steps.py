"""Files of several kinds, each surveyed and then verified under strategies, as workers do it, in
one process.
"""

import gc
import importlib
import json
import os
import sys
from pathlib import Path

from framebench import adapters
from framebench.models.spec import load_workload
from framebench.suite.case import Case
from framebench.suite.user_file import DoesNotApply
from framebench.user_file.reference import survey
from framebench.worker.mathematics import Baseline, check_in_float64
from framebench.worker.stepping import make_timed_step
from framebench.worker.verification import make_verified_steps, verify_again
from framebench.worker.worker import describe_failure

BASE = {"train": "fp32", "eval": "no_grad"}
FRAMEWORK = sys.argv[2] if len(sys.argv) > 2 else "torch"
gc.unfreeze = lambda: None  # which each adapter calls


def tried(case: Case, baseline: Baseline) -> dict[str, object]:
    if not case.support.supported:
        return {"left_out": case.support.why}
    try:
        return verified(case, baseline)
    except DoesNotApply as error:
        return {"left_out": str(error)}


def verified(case: Case, baseline: Baseline) -> dict[str, object]:
    mathematics = check_in_float64(case, baseline)
    adapter = adapters.load(case)
    adapter.build()
    first, verification = make_verified_steps(adapter)
    losses = []
    for _ in range(4):
        make_timed_step(adapter)
        losses.append(adapter.loss())
    later = verify_again(adapter, losses, first.tolerances)
    reason = (
        mathematics.reason,
        verification.reason,
        later.reason,
        later.passed,
        verification.margin,
    )
    effect = adapter.judge_effect()
    return {
        "passed": mathematics.passed and verification.passed and later.passed,
        "in_float64": mathematics.computed,
        "reason": str(reason),
        "proven": effect.proven,
        "products": effect.evidence.get("products"),
        "gradients": verification.tensors["gradient"].count
        if "gradient" in verification.tensors
        else None,
        "margin": verification.margin,
        "key": case.golden_key,
        "losses": losses,
    }


def all_of(file: Path, scenario: str, strategies: list[str]) -> dict[str, object]:
    os.environ["FRAMEBENCH_OWN"] = str(file.parent)
    text = file.read_text()
    names = [name for name in ("loss", "optimizer", "blocks", "split", "step") if name in text]
    facts = {"file": str(file), "framework": FRAMEWORK, "batch": 4, "defined": names}
    (file.parent / "own.json").write_text(json.dumps(facts))
    module = load_workload("own").import_model(FRAMEWORK)  # type: ignore[attr-defined]
    for cached in vars(module).values():
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()
    found: dict[str, object] = {}
    try:
        survey(
            Case.from_id(f"own/{FRAMEWORK}/{scenario}/{BASE[scenario]}/b4/mine"),
            lambda message: None,
        )
        baseline = Baseline(Case.from_id(f"own/{FRAMEWORK}/{scenario}/{BASE[scenario]}/b4/mine"))
        for name in (BASE[scenario], *strategies):
            found[name] = tried(
                Case.from_id(f"own/{FRAMEWORK}/{scenario}/{name}/b4/mine"), baseline
            )
    except (Exception, SystemExit) as error:
        result = describe_failure(error)
        found["fault"] = result["blamed"] or result["message"]
        if "-v" in sys.argv:
            raise
    return found


importlib.import_module(f"framebench.adapters.{FRAMEWORK}")
# what is imported is no file's: it need not be looked through for tensors after every step
gc.freeze()
print(json.dumps({str(file): all_of(Path(file), *rest) for file, *rest in json.loads(sys.argv[1])}))
