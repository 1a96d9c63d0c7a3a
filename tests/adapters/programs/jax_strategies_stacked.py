"""`CASE ...`: print of each whether its identical layers are stacked and looped over."""

import json
import sys

from framebench import adapters
from framebench.adapters.jax.checkpoint import can_stack_layers
from framebench.suite.selectors import parse

answers = []
for name in sys.argv[1:]:
    adapter = adapters.load(parse(name))
    answers.append(can_stack_layers(adapter))
print(json.dumps(answers))
