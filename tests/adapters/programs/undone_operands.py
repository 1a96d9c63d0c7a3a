"""`TEXT`: print the operands of the products in the text of an optimised HLO, by type."""

import json
import sys
from types import SimpleNamespace

from framebench.adapters.jax.program import count_operand_types

compiled = SimpleNamespace(as_text=lambda: sys.argv[1])
print(json.dumps(count_operand_types(compiled)))
