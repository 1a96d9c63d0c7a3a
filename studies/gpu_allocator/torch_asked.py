"""What cuDNN's heuristics, asked without a card, choose for each convolution of a simulated step:

`python -m studies.gpu_allocator.torch_asked CASE DEVICE FILE`, by a PyTorch that has the card's
release of cuDNN.

`workspaces.py` lays the answers beside what the card's own history shows.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from framebench.devices.catalog import Device, find
from framebench.devices.simulation import cudnn, torch_plan
from framebench.devices.simulation.cudnn import Convolution
from framebench.devices.simulation.torch_device import replace_attribute
from framebench.devices.simulation.torch_simulate import Simulation, simulate
from framebench.devices.simulation.torch_watch import Watch
from framebench.suite.case import Case
from framebench.suite.hypothetical import parse_any_batch

STEPS = 3  # of which the last is told


class Listener:
    """Follows a simulation: which of its requests is the result of which convolution, and where the
    last step begins.
    """

    def __init__(self) -> None:
        self.watch: Watch | None = None
        self.began = 0
        self.asked: list[tuple[Convolution, int]] = []  # by the operator that runs
        self.found: list[tuple[int, Convolution, int]] = []
        self.ask, self.watched = cudnn.find_workspace_bytes, Watch.track_operator

    def workspace(self, asked: Convolution, card: str, largest: bool) -> int:
        """In place of `cudnn.find_workspace_bytes`."""
        self.asked.append((asked, self.ask(asked, card, largest)))
        return self.asked[-1][1]

    def ran(self, watch: Watch, operator: str, args: Any, out: Any) -> None:
        """In place of `Watch.track_operator`: the results have their blocks, and the questions
        follow in the results' order.
        """
        results = [result for result in tree_leaves(out) if isinstance(result, torch.Tensor)]
        self.watch = watch
        self.watched(watch, operator, args, out)
        if self.asked:
            places = [watch.alive[result.untyped_storage()._cdata].number for result in results]
            self.found += [(place, *told) for place, told in zip(places, self.asked)]
        self.asked.clear()

    def steps(self, case: Case) -> Callable[[torch.device], Callable[[], None]]:
        def make(where: torch.device) -> Callable[[], None]:
            step = torch_plan.make_step_builder(case)(where)

            def told() -> None:
                self.began = len(self.watch.lives) if self.watch else 0
                step()

            return told

        return make

    def last_step(self) -> dict[str, Any]:
        """`requests`: bytes of each, without the temporaries of kernels.

        `convolutions`: the result's place among them.
        """
        assert self.watch
        kept = [
            at
            for at in range(self.began, len(self.watch.lives))
            if self.watch.lives[at].kind != "temporaries"
        ]
        places = {at: place for place, at in enumerate(kept)}
        convolutions = [
            (places[at], one.kind, one.x.shape, one.weight.shape, one.stride, size)
            for at, one, size in self.found
            if at in places
        ]
        return {
            "requests": [self.watch.lives[at].size for at in kept],
            "convolutions": convolutions,
        }


def record(case: Case, card: Device) -> dict[str, Any]:
    """Raises SystemExit where this environment's cuDNN cannot be asked."""
    if not (version := cudnn.read_version()):
        sys.exit(
            "cuDNN is not installed here, or is older than 9.8: use a build of PyTorch for cards"
        )
    listener = Listener()
    with ExitStack() as stack:
        stack.enter_context(replace_attribute(cudnn, "find_workspace_bytes", listener.workspace))
        stack.enter_context(
            replace_attribute(Watch, "track_operator", lambda *args: listener.ran(*args))
        )
        found: Simulation = simulate(
            listener.steps(case),
            card,
            steps=STEPS,
            settings=torch_plan.make_settings(case, card),
            release=torch_plan.read_release(),
        )
    told = {
        "case": case.id,
        "device": card.name,
        "torch": torch.__version__,
        "cudnn": version,
        "reserved": found.reserved,
    }
    return told | listener.last_step()


if __name__ == "__main__":
    told = record(parse_any_batch(sys.argv[1]), find(sys.argv[2]))
    Path(sys.argv[3]).write_bytes(gzip.compress(json.dumps(told).encode(), mtime=0))
