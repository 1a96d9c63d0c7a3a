"""Compile a framework's kernels once, at size `tiny`.

`python -m framebench.worker.warmup FRAMEWORK WORKLOAD/SCENARIO/STRATEGY ...`, or a single case

Jittor compiles each kernel with g++ when it is first met, and keeps it for the life of its
environment, whatever the shape. Without this, the first cases measured on a machine would spend
minutes in the compiler, and their first steps would tell of that. A strategy that needs another
build of the framework runs in a process of its own, which makes that build.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import traceback
from collections.abc import Collection

from framebench import adapters
from framebench.suite.case import Case, find_first_batch
from framebench.suite.profiles import list_cases
from framebench.suite.selectors import parse
from framebench.worker.mathematics import check_in_float64
from framebench.worker.worker import let_kernel_kill


def warm(case: Case) -> None:
    """Do all that workers do with a case.

    Workers make its step in float64, its step as it is measured, and the proof of its effect.
    """
    check_in_float64(case)
    gc.collect()
    adapter = adapters.load(case)
    adapter.build()
    for _ in range(2):
        adapter.step()
        adapter.synchronize()
    # to read weights compiles, too; these scenarios keep no model to read them from
    if case.scenario not in ("pair", "varlen"):
        for _ in adapter.weights():
            pass
    adapter.loss()
    adapter.judge_effect()
    adapter.reset_peak()
    adapter.read_peaks()


def choose_cases(framework: str, names: Collection[str]) -> list[Case]:
    """Return one case per workload/scenario/strategy that a machine without a GPU can run.

    All are of one batch: kernels do not depend on it.
    """
    chosen = []
    for case in list_cases():
        if case.framework != framework or case.size != "tiny":
            continue
        if f"{case.workload}/{case.scenario}/{case.strategy}" not in names:
            continue
        runs_here = case.support.supported and not case.support.gpu
        if runs_here and case.batch == find_first_batch(case):
            chosen.append(case)
    return chosen


def main() -> None:
    """Warm the cases that the command line names.

    It has a framework, and then strategies, or a single case in the process of its own that it
    needs.
    """
    let_kernel_kill()  # a process for a single case would otherwise go on alone
    framework, *names = sys.argv[1:]
    is_single_case = names[0].count("/") > 2  # a strategy is named by three parts, a case by six
    cases = [parse(names[0])] if is_single_case else choose_cases(framework, names)
    for number, case in enumerate(cases, 1):
        print(f"{number} of {len(cases)}: {case.id}", flush=True)
        if is_single_case or not case.support.env:
            try:
                warm(case)
            except Exception:  # a case that cannot be compiled says so again when it is measured
                traceback.print_exc()
            gc.collect()  # variables of a failed case would stay in the graph of the next one
        else:
            command = [sys.executable, "-m", "framebench.worker.warmup", framework, case.id]
            subprocess.run(command, env={**os.environ, **case.support.env}, check=False)
    sys.stdout.flush()
    os._exit(0)  # Jittor's clean-up at exit sometimes crashes


if __name__ == "__main__":
    main()
