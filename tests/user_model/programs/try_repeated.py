"""A model each of whose blocks runs twice in a pass: is checkpointing proven as it is, and where
nothing is recomputed?
"""

import json
import os
import sys
from pathlib import Path

from framebench import adapters
from framebench.adapters.torch import checkpoint
from framebench.suite.case import Case
from framebench.user_file import reference
from framebench.worker.observe import make_first_steps

FILE = Path(sys.argv[1])
os.environ["FRAMEBENCH_OWN"] = str(FILE.parent)
(FILE.parent / "own.json").write_text(
    json.dumps({"file": str(FILE), "framework": "torch", "batch": 4, "defined": ["loss"]})
)
reference.survey(Case.from_id("own/torch/train/fp32/b4/mine"), lambda message: None)


def proven() -> bool:
    adapter = adapters.load(Case.from_id("own/torch/train/checkpoint/b4/mine"))
    adapter.build()
    make_first_steps(adapter)
    return adapter.judge_effect().proven


found = [proven()]
checkpoint.recompute = lambda run, *xs, **options: run(*xs)  # type: ignore[assignment]
found.append(proven())
print(json.dumps(found))
