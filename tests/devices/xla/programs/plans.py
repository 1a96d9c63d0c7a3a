"""What XLA plans for each `CASE@DEVICE`, all in one process; a device may have another memory, as
in `h100-80gb:1000000`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import Any

import jax

from framebench.devices.catalog import find
from framebench.devices.xla.jax_plan import plan
from framebench.suite.hypothetical import parse_any_batch


def planned(asked: str) -> dict[str, Any]:
    case, _, device = asked.partition("@")
    name, _, memory = device.partition(":")
    target = find(name)
    return asdict(
        plan(parse_any_batch(case), replace(target, memory_bytes=int(memory)) if memory else target)
    )


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    print(json.dumps({asked: planned(asked) for asked in sys.argv[1:]}))
