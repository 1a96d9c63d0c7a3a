"""The bytes that are alive before a step of a user's Flax model, and those that the step needs."""

import json
import sys
from pathlib import Path

from framebench import adapters
from tests.user_model.user_files import use_file

adapter = adapters.load(use_file(Path(sys.argv[1]), 4, "jax"))
adapter.build()
adapter.step()
adapter.release()
weights = sum(array.nbytes for array in adapter.case.weights.values())
inputs = sum(array.nbytes for array in adapter.inputs)
print(json.dumps({"live": adapter.live_bytes(), "weights": weights, "inputs": inputs}))
