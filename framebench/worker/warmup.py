"""Compile a framework's kernels once: `python -m framebench.worker.warmup FRAMEWORK PROFILE`, at size `tiny`.

Jittor compiles each kernel with g++ when it is first met, and keeps it for the life of its environment, whatever the shape.
Without this, the first cases measured on a machine would spend minutes in the compiler, and their first steps would tell of
that. A strategy that needs another build of the framework runs in a process of its own, which makes that build.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import traceback

from framebench import adapters
from framebench.suite.case import Case, first_batch
from framebench.suite.profiles import every_case
from framebench.suite.profiles import profile as cases_of
from framebench.suite.selectors import parse
from framebench.worker.mathematics import check


def _warm(case: Case) -> None:
    """Do all that workers do with a case: its step in float64, its step as it is measured, and the proof of its effect."""
    check(case)
    gc.collect()
    adapter = adapters.load(case)
    adapter.build()
    for _ in range(2):
        adapter.step()
        adapter.synchronize()
    if case.scenario not in ("pair", "varlen"):
        for _ in adapter.weights():
            pass
    adapter.loss()
    adapter.effect()
    adapter.reset_peak()
    adapter.own_peaks()


def _attempt(case: Case) -> None:
    """One that cannot be compiled says so again when it is measured."""
    try:
        _warm(case)
    except Exception:
        traceback.print_exc()
    gc.collect()  # what failed would stay in the next one's graph


def cases(framework: str, profile: str) -> list[Case]:
    """One batch each of what a machine without a GPU can run: kernels do not depend on the batch."""
    wanted = {(c.workload, c.scenario, c.strategy) for c in cases_of(profile)}
    matching_cases = [c for c in every_case() if c.framework == framework and c.size == "tiny" and c.support.supported]
    matching_cases = [c for c in matching_cases if (c.workload, c.scenario, c.strategy) in wanted and not c.support.gpu]
    return [c for c in matching_cases if c.batch == first_batch(c)]


if __name__ == "__main__":
    name, what = sys.argv[1:]
    single = "/" in what  # a case, in the process of its own that it needs
    wanted = [parse(what)] if single else cases(name, what)
    for number, each in enumerate(wanted, 1):
        print(f"{number} of {len(wanted)}: {each.id}", flush=True)
        if each.support.env and not single:
            command = [sys.executable, "-m", "framebench.worker.warmup", name, each.id]
            subprocess.run(command, env={**os.environ, **each.support.env}, check=False)
        else:
            _attempt(each)
    sys.stdout.flush()
    os._exit(0)  # Jittor's clean-up at exit sometimes crashes
