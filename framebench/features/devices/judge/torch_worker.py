"""The peaks of one measured row's program on a simulated card, in the environment of requirements/judge.txt:
`python -m framebench.features.devices.judge.torch_worker PROGRAM`. Prints one JSON object."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from typing import Any

from framebench.features.devices import catalog, torch_simulate
from framebench.features.devices.allocator import OutOfMemory
from framebench.features.devices.judge import torch_programs
from framebench.features.devices.judge.programs import Program
from framebench.worker.worker import own_stdout

PACKAGES = ("torch", "torchvision", "transformers")


def predict(program: Program) -> dict[str, Any]:
    """The largest values over the run, by counter."""
    try:
        peaks = torch_simulate.simulate(
            torch_programs.made(program),
            catalog.find(program.device),
            steps=program.steps,
            release=program.release,
        )
    except OutOfMemory as error:
        return {"failed": f"does not fit: {error}"}
    return {"allocated_bytes": max(peaks.by_step), "reserved_bytes": peaks.reserved}


if __name__ == "__main__":
    out = own_stdout()
    said = json.loads(sys.argv[1])
    answer = predict(Program(**{**said, "release": tuple(said["release"])}))
    print(json.dumps(answer | {"versions": {name: metadata.version(name) for name in PACKAGES}}), file=out)
