"""Measure a run's units on the GPUs of one machine: each GPU measures one unit at a time.

Each GPU has a results folder below `nodes/` and an equal share of the cores, so that no unit waits
for another's lock or core. The results folder says which units are done, as it does for Slurm.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from framebench.cluster.collect import NODES
from framebench.cluster.units import select_unfinished
from framebench.engine.children import CHILDREN
from framebench.engine.environments import SetupError
from framebench.engine.request import RunRequest
from framebench.instruments import nvml
from framebench.records import provenance
from framebench.records.lines import open_to_append
from framebench.suite.counting import format_count

Say = Callable[[str], None]
VARIABLE = "CUDA_VISIBLE_DEVICES"
LOG = "units.log"  # a file of each GPU with what its units printed
POLL_S = 0.2  # between two checks whether a run was interrupted
GRACE_S = 60.0  # for an interrupted unit to end its workers and to remove its temporary files


@dataclass(frozen=True)
class AssignedGpu:
    """A GPU as CUDA_VISIBLE_DEVICES names it, and the cores that its units may use."""

    name: str
    cores: frozenset[int]

    @property
    def folder(self) -> str:
        """Return the name of its results folder, such as `gpu-0`."""
        return f"gpu-{self.name}"


def list_gpus() -> list[AssignedGpu]:
    """Return the GPUs of CUDA_VISIBLE_DEVICES, or all that the driver shows, with their cores.

    Raises SetupError without a GPU.
    """
    listed = os.environ.get(VARIABLE)
    if listed is None:
        names = [str(number) for number in range(len(nvml.list_gpus()))]
    else:
        names = [name.strip() for name in listed.split(",") if name.strip()]
    if not names:
        raise SetupError(
            f"--on gpus found no GPU: the driver shows none, or {VARIABLE} is empty; framebench "
            "doctor says what is missing"
        )
    cores = sorted(os.sched_getaffinity(0))
    gpus = []
    for number, name in enumerate(names):
        share = cores[number :: len(names)]
        # if there are fewer cores than GPUs, a GPU without a share may use all cores
        gpus.append(AssignedGpu(name, frozenset(share or cores)))
    return gpus


def measure(
    units: Sequence[RunRequest], gpus: Sequence[AssignedGpu], results: Path, say: Say
) -> list[RunRequest]:
    """Measure the unfinished units, each on the next free GPU. Return those still unfinished.

    However this process ends, the running units end too: on Ctrl-C and SIGTERM they can save what
    they have, on SIGKILL the kernel kills them.
    """
    code = provenance.name_code()
    waiting: queue.SimpleQueue[RunRequest] = queue.SimpleQueue()
    for unit in select_unfinished(units, results, code):
        waiting.put(unit)
    names = ", ".join(gpu.name for gpu in gpus)
    say(f"{format_count(waiting.qsize(), 'unit')} on {format_count(len(gpus), 'GPU')}: {names}")
    interrupted = threading.Event()

    def measure_on(gpu: AssignedGpu) -> None:
        while not interrupted.is_set():
            try:
                unit = waiting.get_nowait()
            except queue.Empty:
                return
            exit_code = run_unit(unit, gpu, results, interrupted)
            say(f"GPU {gpu.name}: {unit.session_name}: exit code {exit_code}")

    with ThreadPoolExecutor(len(gpus)) as pool:
        try:
            list(pool.map(measure_on, gpus))
        finally:
            # the pool waits for its threads, which now end their units and begin no other
            interrupted.set()
    return select_unfinished(units, results, code)


def run_unit(
    unit: RunRequest, gpu: AssignedGpu, results: Path, interrupted: threading.Event
) -> int:
    """Run one unit on one GPU and its cores, and return its exit code.

    Its records, and the log of what it prints, are in the GPU's folder. Once the run was
    interrupted, the unit is ended.
    """
    folder = results / NODES / gpu.folder
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "framebench.cli",
        *unit.make_arguments(),
        "--results",
        str(folder),
    ]
    with os.fdopen(open_to_append(folder / LOG), "ab") as log:
        process = CHILDREN.start(
            command,
            {**os.environ, VARIABLE: gpu.name},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            os.sched_setaffinity(process.pid, gpu.cores)
            while process.poll() is None:
                if interrupted.wait(POLL_S):
                    # Ctrl-C does not reach its session; it saves what it has measured
                    process.terminate()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(GRACE_S)
                    process.kill()
        finally:
            CHILDREN.end(process)
    return process.returncode
