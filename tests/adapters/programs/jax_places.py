"""Print as JSON in which layers of the file FILE mixed precision left products in float32."""

import json
import sys
from dataclasses import replace
from pathlib import Path

from framebench import adapters
from framebench.adapters.jax.places import list_widened_layers
from tests.user_model.user_files import use_file

case = use_file(Path(sys.argv[1]), 4, "jax")
found = {}
for strategy in ("amp_bf16", "amp_bf16+checkpoint"):
    adapter = adapters.load(replace(case, strategy=strategy))
    adapter.build()
    found[strategy] = list_widened_layers(adapter)
print(json.dumps(found))
