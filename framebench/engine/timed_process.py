"""One arm of a block: its process, from the first line to the last, and what its turns took."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from framebench.engine import page_cache as pages
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.runner import Options, passed, worker_variables
from framebench.engine.supervisor import Outcome, Worker
from framebench.instruments import nvml
from framebench.records.record import Turns
from framebench.suite.case import Case
from framebench.suite.protocol import Message, Reference, Turn

TURN_S = 0.05  # a turn has as many steps as take this long: shorter ones are noise
SYNCED = 4  # steps that follow a turn on a device, each waited for
PATIENCE = 20.0  # times as long as expected a turn may take,
LEAST_S = 60.0  # and at least so long
LONGEST_S = 120.0  # of all turns of an arm, where that leaves it LEAST_ROUNDS
LEAST_ROUNDS = 4
CONTROL = Environment("numpy", "", Path(sys.executable))  # what the reference product runs in


@dataclass(frozen=True)
class Arm:
    """A case in an environment. `spin` and `extra` plant a known slowdown and more memory: see `Task`."""

    case: Case
    environment: Environment
    spin: float = 0.0
    extra: float = 0.0

    @property
    def planted(self) -> dict[str, float]:
        return {name: share for name, share in (("spin", self.spin), ("extra", self.extra)) if share}


@dataclass
class Timed:
    """What became of an arm's time. `cold`: nothing that it compiles had been compiled in this session."""

    arm: Arm
    turns: Turns
    outcome: Outcome
    cold: bool
    load: float | None  # one-minute load average when the block began


@dataclass
class TimedProcess:
    """Life: `start`, `get_ready`, then turns while it is `ready`, then `finish` and `end`. Whatever goes wrong ends this arm
    alone, and becomes its `outcome`. Between the first two and between the last two it works by itself."""

    arm: Arm
    options: Options
    scratch: Path  # of this session and case: what is compiled lies there
    on_phase: Callable[[str], None]
    worker: Worker | None = None
    outcome: Outcome | None = None
    verification: dict[str, Any] = field(default_factory=dict)
    steps: int = 1  # in a turn
    rounds: int = 0  # that it takes part in
    round: list[int] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    seconds: float = 0.0
    joules: float = 0.0
    queues: bool = False  # its steps on a device
    synced_s: list[float] = field(default_factory=list)

    def start(self, reference: Reference | None, core: int | None = None) -> None:
        """The process, on this core, or on that of its turns."""
        self.cold = not self.scratch.exists()
        self.scratch.mkdir(parents=True, exist_ok=True)
        arm, self.began = self.arm, time.monotonic()
        variables = worker_variables(arm.environment, arm.case, "time", self.options) | arm.environment.scratch(self.scratch)
        self.options = runner.limited(arm.case, self.options)
        options = self.options.on(arm.environment)
        other = core if options.pin and core != options.core() else None
        task = options.task(arm.case, "time", reference, other, arm.spin).as_dict()
        log = self.scratch / f"time-{time.monotonic_ns()}.log"
        self.worker = Worker(arm.environment, "framebench.worker.worker", task, variables, log, live=True)

    def get_ready(self) -> None:
        """Build the case and warm it up."""
        if message := self.answer("ready", self.options.time_limit_s):
            told = message["ready"]
            self.verification, self.queues = told["verification"], told["queues"]
            self.steps = max(1, math.ceil(TURN_S / told["step_s"]))
            self.turn_s = self.steps * told["step_s"]
            self.rounds = max(min(LEAST_ROUNDS, self.options.rounds), min(self.options.rounds, int(LONGEST_S / self.turn_s)))
        self.seconds += time.monotonic() - self.began

    @property
    def ready(self) -> bool:
        return self.outcome is None

    def answer(self, name: Literal["ready", "turn", "synced"], limit_s: float) -> Message | None:
        """What the worker says, if it has this name; None when it says something else instead, which is its end."""
        assert self.worker
        message = self.worker.hear(self.on_phase, min(limit_s, self.options.time_limit_s))
        if message is not None and name in message:
            return message
        self.outcome = self.worker.outcome()
        return None

    def turn(self, number: int, since: float) -> None:
        """Its steps of round `number`; `since` is when the block's rounds began."""
        assert self.worker
        joules, began = nvml.energy(), time.monotonic()
        self.worker.tell({"turn": self.steps})
        message = self.answer("turn", max(LEAST_S, PATIENCE * self.turn_s))
        self.seconds += time.monotonic() - began
        if message is not None:
            self.round.append(number)
            self.at.append(began - since)
            self.turns.append(message["turn"])
            spent = nvml.energy()
            self.joules += 0.0 if spent is None or joules is None else spent - joules
            if self.queues:
                self.wait_for_each()

    def wait_for_each(self) -> None:
        """A few steps that are not queued: how much longer they take is what launching costs."""
        assert self.worker
        began = time.monotonic()
        self.worker.tell({"synced": min(self.steps, SYNCED)})
        message = self.answer("synced", max(LEAST_S, PATIENCE * self.turn_s))
        if message is not None:
            self.synced_s.append(message["synced"])
        self.seconds += time.monotonic() - began

    def finish(self, core: int | None = None) -> None:
        """Verify what was timed, on this core."""
        assert self.worker
        self.began, self.most = time.monotonic(), self.held()
        pinned = self.options.on(self.arm.environment).pin
        self.worker.tell({"finish": True, "core": core} if pinned and core is not None else {"finish": True})

    def end(self) -> None:
        """Have the result, with the times in it if it is right."""
        assert self.worker
        self.outcome = self.worker.end(self.on_phase, self.options.time_limit_s)
        self.seconds += time.monotonic() - self.began
        self.outcome.joules, self.outcome.held = self.joules or None, self.most
        if self.outcome.status == "ok" and passed(self.outcome):
            self.outcome.result |= {
                "step_s": [told["wall_s"] for told in self.turns],
                "device_step_s": [told["device_s"] for told in self.turns if told["device_s"] is not None],
                "synced_step_s": self.synced_s,
                "instructions": [told["instructions"] for told in self.turns if told["instructions"] is not None],
            }

    def held(self) -> int:
        """The most bytes that the process has held by now."""
        return _resident(self.worker.process.pid) if self.worker else 0

    def files(self) -> set[Path]:
        """Those that the process maps."""
        return pages.mapped(self.worker.process.pid) if self.worker else set()

    def kill(self) -> None:
        if self.worker:
            self.worker.kill()


def _resident(pid: int) -> int:
    """The high-water mark of its resident memory in bytes; 0 where there is no such process, or no Linux."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


class ReferenceProduct:
    """The reference process of a block: how long a fixed product takes, asked in every round. Use as a context."""

    def __init__(self, options: Options, scratch: Path) -> None:
        one = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        self.worker = Worker(
            CONTROL, "framebench.worker.reference", {"core": options.core()}, one, scratch / "reference.log", live=True
        )
        self.flop, self.seconds = 0.0, dict[int, float]()
        if told := self.worker.hear(lambda _: None, LEAST_S):
            self.flop = told.get("flop", 0.0)

    def __enter__(self) -> ReferenceProduct:
        return self

    def __exit__(self, *error: object) -> None:
        self.worker.kill()

    def turn(self, number: int) -> None:
        """One that died has no times from then on."""
        self.worker.tell({"turn": 1})
        told = self.worker.hear(lambda _: None, LEAST_S)
        if told and "turn" in told:
            self.seconds[number] = told["turn"]["wall_s"]
