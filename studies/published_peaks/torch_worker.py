"""The peaks of measured rows' programs on a simulated card, in the environment of
requirements/judge.txt: `python -m studies.published_peaks.torch_worker PROGRAMS`, a JSON list.
Prints a JSON object for each, as it comes.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import replace
from importlib import metadata
from typing import Any

from framebench.devices import catalog
from framebench.devices.simulation import torch_simulate
from framebench.devices.simulation.allocator import OutOfMemory
from framebench.worker.worker import reserve_stdout
from studies.published_peaks import torch_programs
from studies.published_peaks.programs import Program

PACKAGES = ("torch", "torchvision", "transformers")


def simulated(program: Program) -> torch_simulate.Simulation:
    return torch_simulate.simulate(
        torch_programs.made(program),
        catalog.find(program.device),
        steps=program.steps,
        release=program.release,
        blas_takes=program.blas_takes,
        ranks=program.ranks,
    )


def predict(program: Program) -> dict[str, Any]:
    """The largest values over the run, by counter; or why there are none.

    Of what a card took, also with cuBLAS set the other way.
    """
    try:
        peaks = simulated(program)
        other = (
            simulated(replace(program, blas_takes=not program.blas_takes))
            if program.loop in ("images", "text")
            else None
        )
    except OutOfMemory as error:
        return {"failed": f"does not fit: {error}"}
    except Exception as error:  # it is an answer, and others follow
        return {"failed": f"{type(error).__name__}: {error}"[:300]}
    weights = peaks.kinds["weights"]
    found = {
        "allocated_bytes": max(peaks.by_step),
        "reserved_bytes": peaks.reserved,
        "weights_bytes": weights,
    }
    return found | ({"blas_otherwise_bytes": other.reserved} if other else {})


if __name__ == "__main__":
    out = reserve_stdout()
    versions = {name: metadata.version(name) for name in PACKAGES}
    for said in json.loads(sys.argv[1]):
        start = time.monotonic()
        tuples = {name: tuple(said[name]) for name in ("release", "clip")}
        answer = predict(Program(**{**said, **tuples}))
        gc.collect()
        wall_s = round(time.monotonic() - start, 1)
        print(json.dumps({**answer, "versions": versions, "wall_s": wall_s}), file=out, flush=True)
