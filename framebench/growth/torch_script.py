"""Read memory after each step of a user's own script:

`python -m framebench.growth.torch_script FILE STEPS [ARG ...]`.

The script runs as it is, and a step ends where its optimizer's does; where it has several
optimizers, where that of the first does. Once enough steps were read and watched the script is
ended. It prints what `worker.py` does.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from framebench.growth.leak_report import HALF, LeakWatch
from framebench.growth.meters import Readings, make_host_meters
from framebench.growth.torch_counters import TorchStorages, make_gpu_meters
from framebench.growth.worker import WARM_UP
from framebench.suite.user_file import Fault, describe_fault
from framebench.worker.worker import reserve_stdout


class EnoughSteps(BaseException):
    """All steps were made. No script catches it by `except Exception`."""


class ScriptFollower:
    """Read memory after the steps of a script, then watch what later steps leave behind.

    The steps are the warm-up, those that are read, and both halves of the watch.
    """

    def __init__(self, steps: int) -> None:
        self.first_watched = WARM_UP + steps
        self.steps_made = 0
        self.optimizer: Optimizer | None = None  # whose steps are counted
        self.readings = Readings(make_gpu_meters() | make_host_meters(), steps)
        self.leaks: list[dict[str, Any]] = []

    @property
    def needed(self) -> int:
        """Return the number of steps that the script must make."""
        return self.first_watched + 2 * HALF

    def end_step(self, optimizer: Optimizer, *_: Any) -> None:
        """Count, read or watch a step of an optimizer. Raises EnoughSteps after the last."""
        if self.optimizer is None:
            self.optimizer = optimizer
        if optimizer is not self.optimizer:
            return
        self.steps_made += 1
        if self.steps_made == WARM_UP:
            gc.freeze()  # what is there already need not be looked through after every step
        elif WARM_UP < self.steps_made <= self.first_watched:
            self.readings.take(self.steps_made - WARM_UP - 1)
        if self.steps_made == self.first_watched:
            gc.unfreeze()
            self.watch = LeakWatch(TorchStorages(), [])
        elif self.steps_made == self.first_watched + HALF:
            self.watch.begin_second_half()
        elif self.steps_made == self.needed:
            self.leaks = self.watch.finish()
            raise EnoughSteps


def follow_script(file: str, steps: int, arguments: list[str]) -> dict[str, Any]:
    """Run the script, and return its readings and what its steps leave behind. Raises Fault."""
    follower = ScriptFollower(steps)
    register_optimizer_step_post_hook(follower.end_step)
    sys.argv = [file, *arguments]
    sys.path.insert(0, str(Path(file).parent))
    try:
        runpy.run_path(file, run_name="__main__")
    except EnoughSteps:
        return {
            "case": Path(file).name,
            "file": file,
            "warm_up": WARM_UP,
            "bytes": follower.readings.as_lists(),
            "counts": {},
            "watched": HALF,
            "kept": follower.leaks,
            "versions": {"torch": torch.__version__},
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        }
    except (Exception, SystemExit) as error:
        # sys.exit() without a reason ends a script as its last line does
        if not isinstance(error, SystemExit) or error.code:
            raise Fault(describe_fault(error, file)) from error
    raise Fault(
        f"{file} ended after {follower.steps_made} steps of its optimizer, and {follower.needed} "
        "are needed: --steps says how many are read"
    )


if __name__ == "__main__":
    out = reserve_stdout()
    file, steps, *arguments = sys.argv[1:]
    try:
        answer = follow_script(file, int(steps), arguments)
    except Fault as fault:
        answer = {"fault": str(fault)}
    print(json.dumps(answer), file=out)
    out.flush()
    os._exit(0)
