"""Time one variant of a block in a process of its own, next to the block's reference process."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from framebench.engine import page_cache as pages
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.runner import (
    CaseOutcome,
    Options,
    Variant,
    make_worker_variables,
    read_case_outcome,
)
from framebench.engine.supervisor import Worker
from framebench.instruments import nvml
from framebench.instruments.host import read_status
from framebench.records.record import read_result
from framebench.suite.protocol import Command, Message, Reference, Turn, VerifiedBlock
from framebench.suite.result import Verification

TURN_S = 0.05  # a turn has as many steps as take this long: shorter turns are noise
SYNCED_STEPS = 4  # steps after a turn on a device that are waited for one by one
PATIENCE = 20.0  # a turn is given up after so many times its expected seconds,
MIN_TIMEOUT_S = 60.0  # and not before so many seconds, which also limit the reference matmul
# seconds for all turns of a variant, unless fewer than LEAST_ROUNDS rounds fit
LONGEST_S = 120.0
LEAST_ROUNDS = 4
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
CONTROL = Environment("numpy", "", Path(sys.executable))  # of the reference process


@dataclass
class TimedProcess:
    """The process in which a variant's steps are timed.

    Call `start`, `wait_until_ready`, then `turn` while it `is_alive`, then `finish` and `end`.
    Between the first two and between the last two it works next to other processes. A failure ends
    only this variant and becomes its `outcome`.
    """

    variant: Variant
    options: Options
    scratch: Path  # the folder of the compiled programs of this session and case
    on_phase: Callable[[str], None]
    worker: Worker | None = None
    outcome: CaseOutcome | None = None  # once it has ended
    verification: Verification | None = None  # of its first steps, once it is ready
    is_cold: bool = False  # whether its programs were not compiled before in this session
    steps: int = 1  # in a turn
    rounds: int = 0  # as many as it takes part in
    expected_turn_s: float = 0.0
    queues: bool = False  # a step returns before the device has done it
    # one entry for each turn that it has made
    turn_rounds: list[int] = field(default_factory=list)
    turn_began_s: list[float] = field(default_factory=list)  # since the first turn of the block
    turns: list[Turn] = field(default_factory=list)
    synced_s: list[float] = field(default_factory=list)
    seconds: float = 0.0  # of work, without waiting for its turns
    joules: float = 0.0  # of the whole GPU during its turns
    resident_bytes: int = 0

    def start(
        self,
        reference: Reference | None,
        verified: VerifiedBlock | None,
        core: int | None = None,
    ) -> None:
        """Start the process on this core, or on that of its turns.

        `verified` is the block of the session, if any, that has verified the variant's tensors.
        """
        self.is_cold = not self.scratch.exists()
        self.scratch.mkdir(parents=True, exist_ok=True)
        case, environment = self.variant.case, self.variant.environment
        self.working_since = time.monotonic()
        variables = make_worker_variables(environment, case, "time", self.options)
        variables.update(environment.list_scratch_variables(self.scratch))
        self.options = runner.limit_time(case, self.options)
        options = self.options.adapt_to(environment)
        core_until_ready = None
        if options.pin and core != options.choose_core():
            core_until_ready = core
        task = options.make_task(case, "time", reference, core_until_ready, verified)
        self.worker = Worker(
            environment, "framebench.worker.worker", task.as_dict(), variables, live=True
        )

    def wait_until_ready(self) -> None:
        """Wait until the case is built, verified and warmed up; choose its steps and rounds.

        If it fails before, `outcome` says how.
        """
        message = self.receive("ready", self.options.time_limit_s)
        if message is not None:
            report = message["ready"]
            # as a part of a result, whose reader validates it
            result = read_result({"verification": report["verification"]})
            self.verification = result.verification
            self.queues = report["queues"]
            self.steps = max(1, math.ceil(TURN_S / report["step_s"]))
            self.expected_turn_s = self.steps * report["step_s"]
            within_limit = max(LEAST_ROUNDS, int(LONGEST_S / self.expected_turn_s))
            self.rounds = min(self.options.rounds, within_limit)
        self.seconds += time.monotonic() - self.working_since

    @property
    def is_alive(self) -> bool:
        """Return whether it is alive."""
        return self.outcome is None

    def receive(self, name: Literal["ready", "turn", "synced"], limit_s: float) -> Message | None:
        """Return the worker's answer of this name.

        None: the worker gave another answer or none, and `outcome` says how it ended.
        """
        assert self.worker
        message = self.worker.receive(self.on_phase, min(limit_s, self.options.time_limit_s))
        if message is not None and name in message:
            return message
        self.outcome = read_case_outcome(self.worker, self.worker.read_outcome())
        return None

    def turn(self, number: int, block_began: float) -> None:
        """Time its steps of round `number`; on a device, also a few steps that are waited for.

        The difference between the two times is the cost of launching.
        """
        joules_before = nvml.read_energy()
        began = time.monotonic()
        message = self.ask({"turn": self.steps}, "turn")
        if message is None:
            return
        self.turn_rounds.append(number)
        self.turn_began_s.append(began - block_began)
        self.turns.append(message["turn"])
        joules_after = nvml.read_energy()
        if joules_before is not None and joules_after is not None:
            self.joules += joules_after - joules_before
        if self.queues:
            message = self.ask({"synced": min(self.steps, SYNCED_STEPS)}, "synced")
            if message is not None:
                self.synced_s.append(message["synced"])

    def ask(self, command: Command, name: Literal["turn", "synced"]) -> Message | None:
        """Send a command, and return the answer of this name, as `receive` does."""
        assert self.worker
        began = time.monotonic()
        self.worker.send(command)
        message = self.receive(name, max(MIN_TIMEOUT_S, PATIENCE * self.expected_turn_s))
        self.seconds += time.monotonic() - began
        return message

    def finish(self, core: int | None = None) -> None:
        """Read the worker's peak of resident memory, then tell it to verify its timed steps.

        It moves to `core` for that, if one is given and processes are pinned.
        """
        assert self.worker
        self.working_since = time.monotonic()
        # now, since the process ends after its answer
        self.resident_bytes = self.read_resident_peak()
        command: Command = {"finish": True}
        if core is not None and self.options.adapt_to(self.variant.environment).pin:
            command["core"] = core
        self.worker.send(command)

    def end(self) -> None:
        """Wait for the result, which becomes the outcome."""
        assert self.worker
        ended = self.worker.end(self.on_phase, self.options.time_limit_s)
        self.outcome = read_case_outcome(self.worker, ended)
        self.seconds += time.monotonic() - self.working_since

    def read_resident_peak(self) -> int:
        """Return the peak of resident memory in bytes, or 0 without a process."""
        if self.worker is not None:
            with contextlib.suppress(OSError):
                return read_status("VmHWM", self.worker.process.pid)
        return 0

    def list_mapped_files(self) -> set[Path]:
        """Return the files that the process maps, or none if it is gone."""
        return pages.list_mapped_files(self.worker.process.pid) if self.worker else set()

    def kill(self) -> None:
        """Kill it if it is still alive."""
        if self.worker:
            self.worker.kill()

    def complete_outcome(self) -> CaseOutcome:
        """Return the outcome of a process that has ended, with what was measured from outside."""
        assert self.outcome
        self.outcome.seconds = self.seconds
        self.outcome.turns = self.turns
        self.outcome.synced_s = self.synced_s
        self.outcome.joules = self.joules or None
        self.outcome.resident_bytes = self.resident_bytes
        return self.outcome


class ReferenceMatmul:
    """The reference process of a block, which times a fixed matmul in every round.

    Use as a context.
    """

    def __init__(self, options: Options) -> None:
        """Start the reference worker, and wait until it says how many operations a matmul has."""
        self.worker = Worker(
            CONTROL,
            "framebench.worker.control_matmul",
            {"core": options.choose_core()},
            ONE_THREAD,
            live=True,
        )
        self.flop = 0.0  # of one matmul
        self.seconds: dict[int, float] = {}  # by round
        message = self.worker.receive(ignore_phase, MIN_TIMEOUT_S)
        if message:
            self.flop = message.get("flop", 0.0)

    def __enter__(self) -> ReferenceMatmul:
        """Return the reference, whose process is ready."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the process."""
        self.worker.kill()

    def turn(self, number: int) -> None:
        """Time the matmul in this round. If the process has died, the round has no time."""
        self.worker.send({"turn": 1})
        message = self.worker.receive(ignore_phase, MIN_TIMEOUT_S)
        if message and "turn" in message:
            self.seconds[number] = message["turn"]["wall_s"]


def ignore_phase(phase: str) -> None:
    """Ignore the phase that a process is in."""
