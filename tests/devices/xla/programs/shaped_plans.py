"""The CPU's plan of each case, from real arrays as the adapter makes them and from shapes alone:
plan, and bytes beside it.
"""

from __future__ import annotations

import json
import sys

from framebench import adapters
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.shaped import ShapedAdapter
from framebench.suite.hypothetical import parse_any_batch


def read(adapter: JaxAdapter) -> list[int]:
    adapter.build()
    adapter.compile()
    return [adapter.program.plan, adapter.count_unplanned_bytes()]


def main() -> dict[str, dict[str, list[int]]]:
    cases = map(parse_any_batch, sys.argv[1:])
    return {
        case.id: {"real": read(adapters.load(case)), "shaped": read(ShapedAdapter(case))}
        for case in cases
    }  # type: ignore[arg-type]


if __name__ == "__main__":
    print(json.dumps(main()))
