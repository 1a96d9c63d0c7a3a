"""Reference values in float64: `make` by torch, `confirm` by JAX. Run through `framebench golden`.

Each key holds the loss before any update, the loss after three, the gradient norm, and for evaluation the loss and two
summaries of the logits. Where micro-batches change the mathematics (batch norm), they have values of their own.
"""

from __future__ import annotations

import json
import sys

from framebench import adapters
from framebench.cases import Case
from framebench.worker import first_steps
from models.spec import MICRO_BATCHES, workload


def cases(name: str, framework: str, size: str) -> dict[str, Case]:
    """One fp32 case per golden key."""
    found: dict[str, Case] = {}
    for batch in workload(name).preset(size).batches:
        for scenario, strategy in (("train", "fp32"), ("eval", "no_grad"), ("train", "accumulate")):
            case = Case(name, framework, scenario, strategy, batch, size)
            if strategy != "accumulate" or batch % MICRO_BATCHES == 0:
                found.setdefault(case.golden_key, case)
    return found


def main() -> None:
    """`python -m framebench.golden WORKLOAD FRAMEWORK SIZE` prints {key: {name: value}}."""
    name, framework, size = sys.argv[1:]
    values = {}
    for key, case in cases(name, framework, size).items():
        adapter = adapters.load(case)
        adapter.float64 = True
        adapter.build()
        values[key] = first_steps(adapter)[1]
        print(key, file=sys.stderr)
    json.dump(values, sys.stdout)


if __name__ == "__main__":
    main()
