"""Article A, `jt.flags.amp_level = 3`: which results of operators are in half precision?

The article prints the setting alone. An array in float32, as weights and data are, is squared. The
control is level 4, so that a level that halves nothing is told from a count that sees nothing.
"""

import json

import jittor as jt
import numpy as np


def count_half(level):
    """Return how many of an operator's two arrays, taken and made, are in half precision."""
    with jt.flag_scope(amp_level=level):
        x = jt.array(np.ones(2, np.float32))
        square = x * x
        return sum(array.dtype in ("float16", "bfloat16") for array in (x, square))


print(json.dumps({f"half_at_level_{level}": count_half(level) for level in (3, 4)}))
