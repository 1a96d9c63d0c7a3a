"""The bytes that are alive before a step of a user's Flax model, and those that the step needs."""

import json
import os
import sys
from pathlib import Path

from framebench import adapters
from framebench.suite.case import Case

file = Path(sys.argv[1])
os.environ["FRAMEBENCH_OWN"] = str(file.parent)
result = {"file": str(file), "framework": "jax", "batch": 4, "defined": ["optimizer"], "params": []}
(file.parent / "own.json").write_text(json.dumps(result))
adapter = adapters.load(Case.from_id(f"own/jax/train/fp32/b4/{file.stem}"))
adapter.build()
adapter.step()
adapter.release()
weights = sum(array.nbytes for array in adapter.case.weights.values())
inputs = sum(array.nbytes for array in adapter.inputs)
print(json.dumps({"live": adapter.live_bytes(), "weights": weights, "inputs": inputs}))
