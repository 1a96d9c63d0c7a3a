"""Undo strategies of users' files behind their proofs, and print which are proven all the same.

The argument has by file a list of [name, scenario, strategy, code] as JSON. The code runs once the
adapter of the case is built, before its first step. Printed is by name whether it is proven, and
why not; null in place of whether, where this processor lacks the kernel.
"""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

from framebench import adapters
from framebench.suite.case import Case
from framebench.user_file.reference import survey
from tests.user_model.user_files import use_file

BATCH = 4


NO_KERNEL = "could not create a primitive descriptor"  # oneDNN, of an LSTM in bfloat16 on AVX2


def judge(case: Case, code: str) -> tuple[bool | None, str]:
    """Return whether a strategy is proven after this code has run, and the evidence.

    None stands for a step that this processor has no kernel for.
    """
    adapter = adapters.load(case)
    adapter.build()
    exec(code, {"adapter": adapter})
    try:
        adapter.step()
        effect = adapter.judge_effect()
    except RuntimeError as error:
        if NO_KERNEL in str(error):
            return None, str(error)
        raise
    return effect.proven, str(effect.reason or effect.evidence)


importlib.import_module("framebench.adapters.torch")
verdicts = {}
for file, orders in json.loads(sys.argv[1]).items():
    surveyed = ""
    for name, scenario, strategy, code in orders:
        if scenario != surveyed:
            baseline = use_file(Path(file), BATCH, scenario=scenario)
            survey(baseline, lambda message: None)
            surveyed = scenario
        verdicts[name] = judge(replace(baseline, strategy=strategy), code)
print(json.dumps(verdicts))
