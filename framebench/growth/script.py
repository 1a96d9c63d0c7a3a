"""Read memory after each step of a user's own script:

`python -m framebench.growth.script FRAMEWORK FILE STEPS STEP_AT [ARG ...]`.

The script runs as it is. A step ends where its optimizer's does, in JAX where its compiled function
returns, in a PyTorch script that only evaluates where its outermost module does, or where the
function STEP_AT returns, if that is not empty. Where a script has several optimizers, the first
counts. Once enough steps were read and watched the script is ended. It prints what `worker.py`
does.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from framebench.growth.leak_report import HALF, LeakWatch, Program
from framebench.growth.meters import Readings, make_host_meters
from framebench.growth.step_marks import MARK, MarkedStep, choose_functions, parse_marked
from framebench.growth.worker import WARM_UP
from framebench.suite.user_file import Fault, describe_fault
from framebench.worker.worker import reserve_stdout


class EnoughSteps(BaseException):
    """All steps were made. No script catches it by `except Exception`."""


class ScriptFollower:
    """Read memory after the steps of a script, then watch what later steps leave behind.

    The steps are the warm-up, those that are read, and both halves of the watch.
    """

    def __init__(self, steps: int, counters: ModuleType) -> None:
        self.first_watched = WARM_UP + steps
        self.steps_made = 0
        self.stepper: Any = None  # whose steps are counted, such as an optimizer
        self.counters = counters
        self.programs: list[Program] = counters.watch_compilations()
        self.readings = Readings(counters.make_script_meters() | make_host_meters(), steps)
        self.leaks: list[dict[str, Any]] = []

    @property
    def needed(self) -> int:
        """Return the number of steps that the script must make."""
        return self.first_watched + 2 * HALF

    def end_step(self, stepper: Any = None) -> None:
        """Count, read or watch a step. Raises EnoughSteps after the last."""
        if self.stepper is None:
            self.stepper = stepper
        if stepper is not self.stepper:
            return
        self.steps_made += 1
        if self.steps_made == WARM_UP:
            gc.freeze()  # what is there already need not be looked through after every step
        elif WARM_UP < self.steps_made <= self.first_watched:
            self.readings.take(self.steps_made - WARM_UP - 1)
        if self.steps_made == self.first_watched:
            gc.unfreeze()
            self.watch = LeakWatch(self.counters.make_tracker(), self.programs)
        elif self.steps_made == self.first_watched + HALF:
            self.watch.begin_second_half()
        elif self.steps_made == self.needed:
            self.leaks = self.watch.finish()
            raise EnoughSteps

    def mark(self, function: Any) -> Any:
        """Return a function of the script whose calls are its steps."""
        return MarkedStep(function, self.end_call) if callable(function) else function

    def end_call(self, result: Any) -> None:
        """Wait for what a marked function returned, and end its step."""
        self.counters.wait_for(result)
        self.end_step()


def follow_script(
    framework: str, file: str, steps: int, step_at: str, arguments: list[str]
) -> dict[str, Any]:
    """Run the script, and return its readings and what its steps leave behind. Raises Fault."""
    counters = importlib.import_module(f"framebench.growth.{framework}_counters")
    functions, what = choose_functions(file, framework, step_at)
    follower = ScriptFollower(steps, counters)
    if not functions:
        counters.watch_steps(follower.end_step, what)
    sys.argv = [file, *arguments]
    sys.path.insert(0, str(Path(file).parent))
    try:
        run_as_main(file, functions, follower.mark)
    except EnoughSteps:
        return {
            "case": Path(file).name,
            "file": file,
            "warm_up": WARM_UP,
            "bytes": follower.readings.as_lists(),
            "counts": {},
            "watched": HALF,
            "kept": follower.leaks,
            **counters.describe_process(),
        }
    except (Exception, SystemExit) as error:
        # sys.exit() without a reason ends a script as its last line does
        if not isinstance(error, SystemExit) or error.code:
            raise Fault(describe_fault(error, file)) from error
    raise Fault(
        f"{file} ended after {follower.steps_made} {what}, and {follower.needed} are needed: "
        "let it loop longer, or read fewer with --steps; --step-at FUNCTION names another function "
        "of the script whose calls are its steps"
    )


def run_as_main(file: str, functions: set[str], mark: Callable[[Any], Any]) -> None:
    """Run a script as Python does, with its functions of these names marked as steps."""
    module = ModuleType("__main__")
    module.__file__ = file
    setattr(module, MARK, mark)
    sys.modules["__main__"] = module
    code = compile(parse_marked(file, functions), file, "exec")
    exec(code, vars(module))


if __name__ == "__main__":
    out = reserve_stdout()
    framework, file, steps, step_at, *arguments = sys.argv[1:]
    try:
        answer = follow_script(framework, file, int(steps), step_at, arguments)
    except Fault as fault:
        answer = {"fault": str(fault)}
    print(json.dumps(answer), file=out)
    out.flush()
    os._exit(0)
