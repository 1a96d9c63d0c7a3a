"""Survey files of several kinds, and verify them under strategies, as workers do, in one process.

The argument has a list of [file, framework, scenario, strategies] as JSON. Printed is by file what
was found in it, or its fault, and a row for each strategy.
"""

import gc
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

from framebench import adapters
from framebench.suite.user_file import DoesNotApply
from framebench.user_file.reference import survey
from framebench.worker.mathematics import Baseline, check_in_float64
from framebench.worker.stepping import make_timed_step
from framebench.worker.verification import make_verified_steps, verify_again
from framebench.worker.worker import describe_failure
from tests.user_model.user_files import use_file

BATCH = 4
gc.unfreeze = lambda: None  # which each adapter calls


def verify(case, baseline):
    """Return what came of a strategy in float64, in its own precision, and after timed steps."""
    if not case.support.supported:
        return {"left_out": case.support.why}
    mathematics = check_in_float64(case, baseline)
    adapter = adapters.load(case)
    adapter.build()
    first, verification = make_verified_steps(adapter)
    losses = []
    for _ in range(4):
        make_timed_step(adapter)
        losses.append(adapter.loss())
    later = verify_again(adapter, losses, first.tolerances)
    gradients = verification.tensors.get("gradient")
    return {
        "passed": mathematics.passed and verification.passed and later.passed,
        "in_float64": mathematics.computed,
        "reason": f"{mathematics.reason} | {verification.reason} | {later.reason}",
        "proven": adapter.judge_effect().proven,
        "gradients": gradients and gradients.count,
        "key": case.golden_key,
        "losses": losses,
    }


def try_file(file, framework, scenario, strategies):
    """Return the facts of a file and a row for each strategy, or its fault."""
    try:
        case = use_file(file, BATCH, framework, scenario)
        found = {"facts": survey(case, lambda message: None)["facts"]}
        baseline = Baseline(case) if strategies else None
        for name in strategies:
            try:
                found[name] = verify(replace(case, strategy=name), baseline)
            except DoesNotApply as error:  # it may show in a step only
                found[name] = {"left_out": str(error)}
        return found
    except (Exception, SystemExit) as error:
        failure = describe_failure(error)
        return {"fault": failure["blamed"] or failure["message"], "oom": failure["oom"]}


orders = json.loads(sys.argv[1])
importlib.import_module(f"framebench.adapters.{orders[0][1]}")
# what is imported is no file's: it need not be looked through for tensors after every step
gc.freeze()
print(json.dumps({file: try_file(Path(file), *order) for file, *order in orders}))
