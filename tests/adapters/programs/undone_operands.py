import json
import sys
from types import SimpleNamespace

from framebench.adapters.jax.program import compiled_operands

print(json.dumps(compiled_operands(SimpleNamespace(as_text=lambda: sys.argv[1]))))
