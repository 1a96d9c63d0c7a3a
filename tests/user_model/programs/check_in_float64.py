"""Check a strategy in float64 behind its eager baseline, as one process does, and count what was
compiled.
"""

import json
import os
import sys
from pathlib import Path

from torch._dynamo.utils import counters

from framebench.suite.case import Case
from framebench.worker.mathematics import Baseline, check_in_float64

file = Path(sys.argv[1])
os.environ["FRAMEBENCH_OWN"] = str(file.parent)
facts = {"file": str(file), "framework": "torch", "batch": 4, "defined": ["loss"]}
(file.parent / "own.json").write_text(json.dumps(facts))

baseline = Baseline(Case.from_id("own/torch/train/fp32/b4/mine"))
baseline.get_reference(deterministic=False)
outcome = check_in_float64(Case.from_id(f"own/torch/train/{sys.argv[2]}/b4/mine"), baseline)
graphs = counters["stats"].get("unique_graphs", 0)
print(
    json.dumps(
        {
            "passed": outcome.passed,
            "computed": outcome.computed,
            "reason": outcome.reason,
            "graphs": graphs,
        }
    )
)
