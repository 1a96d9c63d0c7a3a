"""How many processes may be alive at once, by what memory the machine and its card have."""

from __future__ import annotations

from pathlib import Path

import psutil

from framebench.engine.timed_process import TimedProcess
from framebench.instruments import nvml

SHARE = 0.6  # of what is free when a block begins: the rest is for steps, and for whoever else is there
OF_CARD = 0.85  # of a card, where pools keep what a step took
CGROUP = Path("/sys/fs/cgroup")


class Capacity:
    """What was free before any arm was alive, and what each has taken since."""

    def __init__(self) -> None:
        self.host, self.card = free_memory(), free_on_card()
        self.on_card: list[int] = []

    def enter(self, pid: int | None = None) -> None:
        """One more is ready. Where the card does not tell what the process holds, it is what is free no more."""
        if self.card is None or (free := free_on_card()) is None:
            return
        own = None if pid is None else nvml.used_by(pid)
        self.on_card.append(max(0, self.card - free - sum(self.on_card)) if own is None else own)

    def fits_more(self, alive: list[TimedProcess], more: int = 1) -> bool:
        """Whether so many more, each as large as the largest alive, would fit."""
        return fits([live.held() for live in alive], self.host, more) and (
            self.card is None or fits(self.on_card, self.card, more, OF_CARD)
        )


def fits(held: list[int], free: int, more: int = 1, share: float = SHARE) -> bool:
    return sum(held) + more * max(held, default=0) <= share * free


def free_memory(cgroup: Path = CGROUP) -> int:
    """Bytes that the machine, or the control group if that is tighter, still has."""
    free = psutil.virtual_memory().available
    try:
        limit, used = ((cgroup / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return free if limit == "max" else min(free, max(0, int(limit) - int(used)))
    except (OSError, ValueError):
        return free


def free_on_card() -> int | None:
    """Bytes; None without a card, or where it does not tell."""
    state = nvml.state()
    return state["memory_bytes"] - state["used_bytes"] if {"memory_bytes", "used_bytes"} <= state.keys() else None
