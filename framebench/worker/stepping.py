"""Time one step, and the turns of a block."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

from framebench.adapters.base import Adapter, Stopwatch
from framebench.instruments.counters import Counter
from framebench.suite.protocol import Turn
from framebench.suite.result import TimeResult

SETTLED = 2  # steps after which none compiles any more
STEPS = 16  # about as many as a case makes: verified ones, warm-up, a step in each round


class OverBudget(Exception):
    """A step takes so long that the case would take longer than it may."""


def make_step(adapter: Adapter) -> None:
    """Make one step, and count how often it sets its output.

    A step that does nothing would leave the output of the last one.
    """
    before = adapter.outputs
    adapter.step()
    adapter.outputs_per_step[adapter.outputs - before] += 1


def make_timed_step(adapter: Adapter) -> float:
    """Make one whole step and return its wall-clock seconds. Raises OverBudget."""
    start = time.perf_counter()
    make_step(adapter)
    adapter.synchronize()
    seconds = time.perf_counter() - start
    if adapter.steps > SETTLED and seconds * STEPS > adapter.budget_s:
        raise OverBudget(
            f"a step takes {seconds:.1f} s, so that the case would take over "
            f"{adapter.budget_s:.0f} s"
        )
    return seconds


class Reading(NamedTuple):
    """The readings of the instruments over some steps together."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    instructions: int = 0
    device_s: float = 0.0  # by the device's own clock


def add_readings(readings: list[Reading]) -> Reading:
    """Return the sums of several readings, field by field."""
    return Reading._make(map(sum, zip(*readings)))


class Timing:
    """Times a case's steps, turn by turn."""

    def __init__(self, adapter: Adapter, instructions: Counter | None = None) -> None:
        """Begin without turns; `instructions` counts instructions, if the processor can."""
        self.adapter = adapter
        self.instructions = instructions
        self.stopwatch: Stopwatch | None = adapter.make_stopwatch()
        self.losses: list[float] = []  # of each training step, read after its clock has stopped
        self.steps = 0
        self.total = Reading()
        # seconds of these steps by purpose, without those between turns
        self.seconds_spent: dict[str, float] = defaultdict(float)

    def turn(self, steps: int) -> Turn:
        """Make so many steps, and return the mean readings of one step.

        On a CPU each step is measured by itself. On a device all steps are queued and waited for
        once, as in a training loop. The readings are added to the totals of all turns.
        """
        seconds_before = dict(self.adapter.seconds_spent)
        if self.adapter.device() == "cpu":
            reading = add_readings([self.measure(1) for _ in range(steps)])
        else:
            reading = self.measure(steps)
        self.steps += steps
        self.total = add_readings([self.total, reading])
        for purpose, seconds in self.adapter.seconds_spent.items():
            self.seconds_spent[purpose] += seconds - seconds_before.get(purpose, 0.0)
        instructions = None
        if self.instructions:
            instructions = round(reading.instructions / steps)
        return {
            "wall_s": reading.wall_s / steps,
            "cpu_s": reading.cpu_s / steps,
            "instructions": instructions,
            "device_s": reading.device_s / steps if self.stopwatch else None,
        }

    def time_synced_steps(self, steps: int) -> float:
        """Make `steps` steps, wait for the device after each, and return their mean seconds.

        This mean minus the `wall_s` of `turn`, which queues steps, is the cost of launching a step.
        """
        return sum(make_timed_step(self.adapter) for _ in range(steps)) / steps

    def measure(self, steps: int) -> Reading:
        """Make `steps` steps, wait for the device after the last, and return all readings.

        In training, the last loss is appended to `losses`.
        """
        instructions_before = self.count_instructions()
        cpu_s_before = time.process_time()
        start = time.perf_counter()
        if self.stopwatch:
            self.stopwatch.start()
        for _ in range(steps - 1):
            make_step(self.adapter)
        make_timed_step(self.adapter)
        device_s = 0.0
        if self.stopwatch:
            self.stopwatch.stop()
            self.adapter.synchronize()
            device_s = self.stopwatch.seconds()
        reading = Reading(
            wall_s=time.perf_counter() - start,
            cpu_s=time.process_time() - cpu_s_before,
            instructions=self.count_instructions() - instructions_before,
            device_s=device_s,
        )
        if self.adapter.case.scenario_spec.trains:
            self.losses.append(self.adapter.loss())
        return reading

    def count_instructions(self) -> int:
        """Return the number of instructions executed so far, or 0 if they are not counted."""
        return self.instructions.read() if self.instructions else 0

    def summarize(self, times: TimeResult) -> TimeResult:
        """Return the times of the first step, with the totals of all turns added."""
        if not self.steps:
            return times
        shares = {}
        for purpose, seconds in self.seconds_spent.items():
            shares[purpose] = seconds / self.total.wall_s
        return replace(
            times,
            cpu_s_per_step=self.total.cpu_s / self.steps,
            shares=shares,
            timed_steps=self.steps,
            timed_s=self.total.wall_s,
        )
