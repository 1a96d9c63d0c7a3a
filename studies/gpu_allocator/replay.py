"""Replay the requests that a real GPU's allocator got on the model of it: does it reserve the same?

A history (`torch_history.py`) has every request with its size. Its order and its sizes are the
card's, so what is left to be wrong is the model of the allocator. Then the same without what is
asked for and given back before anything else happens: such are the workspaces of convolutions,
which cuDNN chooses on the card and no simulation knows.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from framebench.analysis.rendering import Table, format_mib
from framebench.devices.plans.planned import Planned
from framebench.devices.simulation.addresses import Addresses
from framebench.devices.simulation.allocator import Allocator
from framebench.devices.simulation.blocks import SMALL, Stats

DATA = Path(__file__).parent / "data"
FOLDER = "histories"
HEAD = (
    "card",
    "case",
    "requests",
    "segments",
    "in order",
    "reserved",
    "replayed",
    "workspaces",
    "largest",
    "without them",
    "simulated",
)


@dataclass(frozen=True)
class History:
    """What one process asked its allocator for.

    `events`: action, bytes, address; `steps`: after each step the peak in use, the peak reserved,
    and the number of events.
    """

    case: str
    device: str
    torch: str
    cudnn: int
    steps: list[tuple[int, int, int]]
    events: list[tuple[str, int, int]]

    @property
    def reserved(self) -> int:
        """Bytes, the most that the card gave."""
        return max(reserved for _, reserved, _ in self.steps)

    @property
    def segments(self) -> list[int]:
        """Bytes of each, as the card gave them."""
        return [size for size, _ in self._segments()]

    def in_order(self, place: Callable[[int], int]) -> tuple[int, int]:
        """Pairs of segments of one size: how many lie on the card as their addresses by
        `place(bytes)` do, and of how many.
        """
        placed = [(size, address, place(size)) for size, address in self._segments()]
        pairs = [(one, other) for one, other in combinations(placed, 2) if one[0] == other[0]]
        return sum((a < b) == (ours < its) for (_, a, ours), (_, b, its) in pairs), len(pairs)

    def _segments(self) -> list[tuple[int, int]]:
        return [
            (size, address) for action, size, address in self.events if action == "segment_alloc"
        ]

    def workspaces(self) -> set[int]:
        """Events that ask for a block of the large pool which is given back before any other
        request.
        """
        requests = [
            (i, *event)
            for i, event in enumerate(self.events)
            if event[0] in ("alloc", "free_requested")
        ]
        return {
            i
            for (i, action, size, address), (_, then, _, of) in pairwise(requests)
            if (action, then) == ("alloc", "free_requested") and address == of and size > SMALL
        }


def read(file: Path) -> History:
    told: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return History(**told)


def histories(root: Path = DATA) -> Iterator[History]:
    yield from map(read, sorted((root / FOLDER).glob("*/*.json.gz")))


def replay(history: History, without: Collection[int] = ()) -> Allocator:
    """The model after all requests but those left out."""
    allocator, blocks = Allocator(), {}
    for i, (action, size, address) in enumerate(history.events):
        if action == "alloc" and i not in without:
            blocks[address] = allocator.malloc(size)
        elif action == "free_requested" and address in blocks:
            allocator.free(blocks.pop(address))
    return allocator


def replayed(history: History) -> Stats:
    return replay(history).stats


def table(predictions: Iterable[Planned]) -> Table | None:
    """Every history; None where there is none."""
    simulated = {
        (p.case, p.framework_version): p.peak_bytes for p in predictions if p.framework == "torch"
    }
    rows = [_cells(one, simulated.get((one.case, one.torch.split("+")[0]))) for one in histories()]
    caption = (
        "Sizes in MiB. requests, segments, reserved: what PyTorch's own history of the card's "
        "allocator says. in order: of two segments of one size, how often the one that the card "
        "put lower is lower in the model, too. replayed: the model's reserved memory after the "
        "same requests. workspaces: requests above 1 MiB that are given back before any other; "
        "largest: the largest of them. without them: the model's reserved memory where these are "
        "left out. simulated: the prediction, which knows no workspaces."
    )
    return (
        Table.of_text("A card's requests, replayed", caption, HEAD, rows, left=2) if rows else None
    )


def _cells(history: History, simulated: int | None) -> tuple[str, ...]:
    workspaces = history.workspaces()
    return (
        history.device,
        history.case,
        f"{sum(action == 'alloc' for action, *_ in history.events):,}",
        str(len(history.segments)),
        "{:,} of {:,}".format(*history.in_order(Addresses().take)),
        format_mib(history.reserved),
        format_mib(replayed(history).reserved_peak),
        str(len(workspaces)),
        format_mib(max((history.events[i][1] for i in workspaces), default=None)),
        format_mib(replay(history, workspaces).stats.reserved_peak),
        format_mib(simulated),
    )
