"""Read memory after each step of a case, or of a user's own script. Linux only.

`python -m framebench.growth.worker FRAMEWORK TARGET STEPS STEP [ARG ...]`

TARGET is a case; STEP is a file with a function `step(adapter)`, which is called in place of the
case's own step, or empty. Or TARGET is a script, which runs as it is with these arguments. Its step
ends where its optimizer's does, in JAX where its compiled function returns, in a PyTorch script
that only evaluates where its outermost module does, or where the function STEP returns. Where a
script has several optimizers, the first counts.

First each step is followed by readings of every meter, with nothing else in the process; then some
more steps are watched, which names what they leave behind. It prints one JSON object, the fields of
`framebench.growth.record.Growth`, or `{"fault": why}`. On standard error it says how far it is.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.growth.leak_report import LeakWatch, Source
from framebench.growth.meters import MeterReadings, make_host_meters, make_rise_meters
from framebench.growth.progress import (
    LEAST_STEPS,
    PROGRESS,
    STEPS_PER_HALF,
    WARM_UP,
    count_steps,
    describe_progress,
)
from framebench.growth.step_marks import MARK, MarkedStep, choose_functions, parse_marked
from framebench.suite.hypothetical import parse_any_batch
from framebench.suite.user_file import (
    Fault,
    describe_fault,
    load_file,
    load_without_byte_code,
)
from framebench.worker.worker import reserve_stdout

REPORT_EVERY_S = 2.0  # between two lines about progress


class EnoughSteps(BaseException):
    """All steps were made. No script catches it by `except Exception`."""


class StepFollower:
    """Read memory after some steps, then watch what later steps leave behind.

    The steps are the warm-up, those that are read, and both halves of the watch.
    """

    def __init__(self, steps: int, counters: ModuleType) -> None:
        """Watch compilations from now on, and choose the meters."""
        self.counters = counters
        self.programs: list[Source] = counters.watch_compilations()
        self.bytes = counters.make_byte_meters() | make_host_meters()
        self.counts = counters.make_count_meters(self.programs)
        self.rises = make_rise_meters()
        # A rise is what resident memory rose by within a step. Rises are read first, since other
        # meters would add to them.
        self.readings = MeterReadings(self.rises | self.bytes | self.counts, steps)
        self.leaks: list[dict[str, Any]] = []
        self.rare_leaks: list[dict[str, Any]] = []
        self.steps_made = 0
        self.last_read_step = WARM_UP + steps
        self.steps_needed = count_steps(steps)
        self.stepper: Any = None  # whose steps are counted, such as an optimizer
        self.began = time.monotonic()
        self.reported_at = self.began

    def end_step(self, stepper: Any = None) -> None:
        """Count, read or watch a step. Raises EnoughSteps after the last."""
        if self.stepper is None:
            self.stepper = stepper
        if stepper is not self.stepper:
            return
        self.steps_made += 1
        self.tell_progress()
        if self.steps_made == WARM_UP:
            for meter in self.rises.values():
                meter()  # which begins the first step that is read
            gc.freeze()  # what is there already need not be looked through after every step
        elif WARM_UP < self.steps_made <= self.last_read_step:
            self.readings.take(self.steps_made - WARM_UP - 1)
        if self.steps_made == self.last_read_step:
            gc.unfreeze()
            self.watch = LeakWatch(self.counters.Tracker(), self.programs)
        elif self.steps_made == self.last_read_step + STEPS_PER_HALF:
            self.watch.begin_second_half()
        elif self.steps_made == self.steps_needed:
            self.leaks, self.rare_leaks = self.watch.finish()
            raise EnoughSteps

    def tell_progress(self) -> None:
        """Say on standard error how many steps were made, now and then."""
        now = time.monotonic()
        if now - self.reported_at > REPORT_EVERY_S:
            self.reported_at = now
            progress = describe_progress(self.steps_made, self.steps_needed, now - self.began)
            line = f"{PROGRESS}{progress}\n"
            os.write(2, line.encode())  # a script may have put something else for sys.stderr

    def mark(self, function: Any) -> Any:
        """Return a function of the script whose calls are its steps."""
        return MarkedStep(function, self.end_call) if callable(function) else function

    def end_call(self, result: Any) -> None:
        """Wait for what a marked function returned, and end its step."""
        self.counters.wait_for(result)
        self.end_step()

    def report(self, name: str, file: str | None) -> dict[str, Any]:
        """Return readings and leftovers, as fields of `framebench.growth.record.Growth`."""
        readings = self.readings.as_lists()
        process = self.counters.describe_process()
        # the memory of a GPU's steps is not the host's
        rises = readings.get("rise", []) if process["device"] == "cpu" else []
        return {
            "case": name,
            "file": file,
            "warm_up": WARM_UP,
            "bytes": {name: readings[name] for name in self.bytes},
            "rises": rises,
            "counts": {name: readings[name] for name in self.counts},
            "watched": STEPS_PER_HALF,
            "kept": self.leaks,
            "rarely_kept": self.rare_leaks,
            **process,
        }


def follow_case(case_id: str, steps: int, file: str, counters: ModuleType) -> dict[str, Any]:
    """Make the steps of a case, and return what they do to memory. Raises Fault."""
    take_step = load_user_step(file) if file else take_own_step
    case = parse_any_batch(case_id)
    adapter = adapters.load(case)
    adapter.build()
    adapter.synchronize()
    follower = StepFollower(steps, counters)
    try:
        while True:
            take_step(adapter)
            follower.end_step()
    except EnoughSteps:
        return follower.report(case.id, file or None)


def take_own_step(adapter: Adapter) -> None:
    """Make a step of the case, and wait until the device has done it."""
    adapter.step()
    adapter.synchronize()


def load_user_step(file: str) -> Callable[[Adapter], None]:
    """Return the function `step(adapter)` of the user's file.

    The function must wait for its results itself. An exception in it becomes a Fault. Raises Fault
    if the file has no such function.
    """
    user_step = getattr(load_file(file), "step", None)
    if not callable(user_step):
        raise Fault(
            f"{file} has no function `step(adapter)`, which is called in place of the case's step"
        )

    def take_user_step(adapter: Adapter) -> None:
        try:
            user_step(adapter)
        except (Exception, SystemExit) as error:
            raise Fault(describe_fault(error, file)) from error

    return take_user_step


def follow_script(
    framework: str, file: str, steps: int, step_at: str, arguments: list[str], counters: ModuleType
) -> dict[str, Any]:
    """Run a script, and return what its steps do to memory. Raises Fault."""
    functions, kind_of_step = choose_functions(file, framework, step_at)
    follower = StepFollower(steps, counters)
    if not functions:
        counters.watch_steps(follower.end_step, kind_of_step)
    sys.argv = [file, *arguments]
    folder = Path(file).parent
    load_without_byte_code(folder.absolute())
    sys.path.insert(0, str(folder))
    try:
        run_as_main(file, functions, follower.mark)
    except EnoughSteps:
        return follower.report(Path(file).name, file)
    except (Exception, SystemExit) as error:
        # sys.exit() without a reason ends a script as its last line does
        if not isinstance(error, SystemExit) or error.code:
            raise Fault(describe_fault(error, file)) from error
    missing = follower.steps_needed - follower.steps_made
    way = f"let it loop {missing} steps longer"
    if steps - missing >= LEAST_STEPS:
        way += f", or read fewer: --steps {steps - missing}"
    elif steps > LEAST_STEPS:
        way += f", or {count_steps(LEAST_STEPS)} steps in all, with --steps {LEAST_STEPS}"
    raise Fault(
        f"{file} ended after {follower.steps_made} {kind_of_step}, and {follower.steps_needed} are "
        f"needed: {way}; --step-at FUNCTION names another function of the script whose calls are "
        "its steps"
    )


def run_as_main(file: str, functions: set[str], mark: Callable[[Any], Any]) -> None:
    """Run a script as Python does, with its functions of these names marked as steps."""
    module = ModuleType("__main__")
    module.__file__ = file
    setattr(module, MARK, mark)
    sys.modules["__main__"] = module
    code = compile(parse_marked(file, functions), file, "exec")
    exec(code, vars(module))  # noqa: S102 - the script that the user names, as Python runs it


if __name__ == "__main__":
    out = reserve_stdout()
    framework, target, steps, step, *arguments = sys.argv[1:]
    counters = importlib.import_module(f"framebench.growth.{framework}_counters")
    try:
        if target.endswith(".py"):
            answer = follow_script(framework, target, int(steps), step, arguments, counters)
        else:
            answer = follow_case(target, int(steps), step, counters)
    except Fault as fault:
        answer = {"fault": str(fault)}
    print(json.dumps(answer), file=out)
    out.flush()
    os._exit(0)
