"""`TEXT`: print the products in the text of an optimised HLO, and their operands, by type."""

import json
import sys
from types import SimpleNamespace

from framebench.adapters.jax.program import count_compiled_products, count_operand_types

compiled = SimpleNamespace(as_text=lambda: sys.argv[1])
print(json.dumps([count_compiled_products(compiled), count_operand_types(compiled)]))
