"""A user's own training script: does its memory grow? `python -m framebench.growth.torch_script FILE STEPS [ARG ...]`.

The script runs as it is, and a step ends where its optimizer's does; where it has several optimizers, where that of the first
does. Once enough steps were read and watched the script is ended. Prints what `growth/worker.py` does.
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
from torch.optim.optimizer import register_optimizer_step_post_hook

from framebench.growth.leak_report import HALF, Kept, Watch
from framebench.growth.meters import Readings, bytes_meters
from framebench.growth.torch_counters import TorchStorages, gpu_meters
from framebench.growth.worker import WARM_UP
from framebench.suite.user_file import Fault, describe_fault
from framebench.worker.worker import own_stdout


class Enough(BaseException):
    """All steps were made. No script catches it by `except Exception`."""


class Followed:
    """The steps of a script, as they are made."""

    def __init__(self, steps: int) -> None:
        self.steps, self.made = steps, 0
        self.first: Any = None  # the optimizer whose steps are counted
        self.readings = Readings(bytes_meters(gpu_meters()), steps)
        self.kept: list[Kept] = []

    def after(self, optimizer: Any, *_: Any) -> None:
        """Raises Enough."""
        self.first = self.first or optimizer
        if optimizer is not self.first:
            return
        self.made += 1
        number = self.made - WARM_UP - 1
        if self.made == WARM_UP:
            gc.freeze()
        elif 0 <= number < self.steps:
            self.readings.take(number)
        if self.made == WARM_UP + self.steps:
            gc.unfreeze()
            self.watch = Watch(TorchStorages(), [])
        elif number == self.steps + HALF - 1:
            self.watch.halfway()
        elif number == self.steps + 2 * HALF - 1:
            self.kept = self.watch.end()
            raise Enough


def followed(file: str, steps: int, arguments: list[str]) -> dict[str, Any]:
    """Raises Fault."""
    script = Followed(steps)
    register_optimizer_step_post_hook(script.after)
    sys.argv = [file, *arguments]
    sys.path.insert(0, str(Path(file).parent))
    try:
        runpy.run_path(file, run_name="__main__")
    except Enough:
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        return {
            "case": Path(file).name, "file": file, "warm_up": WARM_UP, "bytes": script.readings.lists(), "counts": {},
            "watched": HALF, "kept": script.kept, "versions": {"torch": torch.__version__}, "device": device,
        }  # fmt: skip
    except (Exception, SystemExit) as error:
        if not isinstance(error, SystemExit) or error.code:
            raise Fault(describe_fault(error, file)) from error
    wanted = WARM_UP + steps + 2 * HALF
    raise Fault(
        f"{file} ended after {script.made} steps of its optimizer, and {wanted} are needed: --steps says how many are read"
    )


if __name__ == "__main__":
    out = own_stdout()
    try:
        answer = followed(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
    except Fault as fault:
        answer = {"fault": str(fault)}
    print(json.dumps(answer), file=out)
    out.flush()
    os._exit(0)
