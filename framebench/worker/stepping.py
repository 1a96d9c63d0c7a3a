"""One step and its clock, and the turns that a block asks for."""

from __future__ import annotations

import time
from collections import defaultdict

from framebench.adapters.base import Adapter, Events
from framebench.instruments.counters import Counter
from framebench.suite.protocol import TimeResult, Turn

SETTLED = 2  # steps after which none compiles any more
STEPS = 16  # about as many as a case makes: verified ones, warm-up, a step in each round


class OverBudget(Exception):
    """A step takes so long that the case would take longer than it may."""


def step(adapter: Adapter) -> None:
    """One step. How often it sets its output is counted: one that does nothing leaves the last one's."""
    before = adapter.outputs
    adapter.step()
    adapter.answers[adapter.outputs - before] += 1


def timed_step(adapter: Adapter, events: Events | None = None, device_s: list[float] | None = None) -> float:
    """Wall-clock seconds of one whole step; those between its events on the device are added to `device_s`. Raises
    OverBudget."""
    start = time.perf_counter()
    if events:
        events.start()
    step(adapter)
    if events:
        events.stop()
    adapter.synchronize()
    seconds = time.perf_counter() - start
    if events and device_s is not None:
        device_s.append(events.seconds())
    if adapter.steps > SETTLED and seconds * STEPS > adapter.budget_s:
        raise OverBudget(f"a step takes {seconds:.1f} s, so that the case would take over {adapter.budget_s:.0f} s")
    return seconds


class Timing:
    """A case's timed steps, turn by turn. `spin`: a share of each step's own time by which it is lengthened, waiting busily;
    only studies ask for that."""

    def __init__(self, adapter: Adapter, instructions: Counter | None = None, spin: float = 0.0) -> None:
        self.adapter, self.instructions, self.spin = adapter, instructions, spin
        self.events = adapter.events()
        self.losses: list[float] = []  # in training that of each step, read when its clock has stopped
        self.steps, self.wall_s, self.cpu_s = 0, 0.0, 0.0
        self.spent: dict[str, float] = defaultdict(float)  # seconds of these steps, without those between the turns

    def turn(self, steps: int) -> Turn:
        """So many steps: seconds, CPU seconds and instructions of one of them. On a device they are queued together and waited
        for once, as a training loop does."""
        at_once = steps if self.adapter.device() != "cpu" else 1
        before = dict(self.adapter.spent)
        measurements = [self.measured(at_once) for _ in range(steps // at_once)]
        wall, cpu, count, device = (sum(column) for column in zip(*measurements))
        self.steps, self.wall_s, self.cpu_s = self.steps + steps, self.wall_s + wall, self.cpu_s + cpu
        for purpose, seconds in self.adapter.spent.items():
            self.spent[purpose] += seconds - before.get(purpose, 0.0)
        return {
            "wall_s": wall / steps,
            "cpu_s": cpu / steps,
            "instructions": round(count / steps) if self.instructions else None,
            "device_s": device / steps if self.events else None,
        }

    def synced(self, steps: int) -> float:
        """Seconds of a step that is waited for: beside those of `turn` they show what launching costs on a device."""
        return sum(timed_step(self.adapter) for _ in range(steps)) / steps

    def measured(self, steps: int) -> tuple[float, float, int, float]:
        """Of some steps together: seconds, CPU seconds, instructions, and seconds by the device's clock."""
        device: list[float] = []
        count, cpu, start = self.counted(), time.process_time(), time.perf_counter()
        if self.events:
            self.events.start()
        for _ in range(steps - 1):
            step(self.adapter)
        timed_step(self.adapter)
        if self.spin:
            until(time.perf_counter() + self.spin * (time.perf_counter() - start))
        if self.events:
            self.events.stop()
            self.adapter.synchronize()
            device.append(self.events.seconds())
        totals = time.perf_counter() - start, time.process_time() - cpu, self.counted() - count, sum(device)
        if self.adapter.case.stage.trains:
            self.losses.append(self.adapter.loss())
        return totals

    def counted(self) -> int:
        return self.instructions.read() if self.instructions else 0

    def summary(self) -> TimeResult:
        """What a record has of all turns together."""
        if not self.steps:
            return {"timed_steps": 0, "timed_s": 0.0}
        shares = {purpose: seconds / self.wall_s for purpose, seconds in self.spent.items()}
        per_step = self.cpu_s / self.steps
        return {"cpu_s_per_step": per_step, "shares": shares, "timed_steps": self.steps, "timed_s": self.wall_s}


def until(moment: float) -> None:
    while time.perf_counter() < moment:
        pass
