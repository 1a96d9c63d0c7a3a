"""Print the largest error of each case in float64, or the float32 that Jittor puts into it."""

import gc
import json
import sys

from framebench import adapters
from framebench.adapters.jittor.float64 import NoFloat64
from framebench.suite.profiles import list_cases
from framebench.suite.tensors import measure_errors
from framebench.worker.observe import make_first_steps

CASES = {case.id: case for case in list_cases()}


def largest_error(case):
    adapter = adapters.load(case)
    adapter.float64 = True
    adapter.build()
    observed = make_first_steps(adapter)[1]
    values = case.spec.golden[case.golden_key]
    tensors = case.spec.golden_tensors.get(case.golden_key, {})  # none where no model stays
    assert observed.tensors.keys() == tensors.keys()
    found = [abs(value / values[name] - 1) for name, value in observed.values.items()]
    for kind, summaries in observed.tensors.items():
        assert summaries.keys() == tensors[kind].keys()
        for name, summary in summaries.items():
            found += measure_errors(summary, tensors[kind][name])
    return max(found)


answers = {}
for name in sys.argv[1:]:
    try:
        answers[name] = largest_error(CASES[name])
    except NoFloat64 as error:
        answers[name] = str(error)
    gc.collect()
print(json.dumps(answers))
