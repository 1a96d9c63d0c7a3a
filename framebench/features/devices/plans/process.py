"""A planner as a process in its framework's environment: `python -m framebench.features.devices.<planner> CASE DEVICE`, which
prints one JSON object last: the fields of `Planned` that it knows."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from typing import Any

from packaging.version import Version

from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.features.devices.catalog import Device
from framebench.records.pins import pinned_version
from framebench.suite.case import Case

BUDGET_S = {"gpu": 600.0, "tpu": 1800.0}  # for one case: what compiles for a TPU takes minutes
PLANNERS = {"jax": "xla.jax_plan", "torch": "simulation.torch_plan"}
OLDER, OLDER_THAN = "releases.jax_older", Version("0.9")  # of JAX
OTHER = "releases.torch_other"  # of PyTorch, where it is not the pinned release
FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")  # of whoever asks: an answer is kept, and must not depend on them
ALONE = {  # a planner's environment: one without a device
    "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TPU_SKIP_MDS_QUERY": "1", "OMP_NUM_THREADS": "1",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # which asks for NVIDIA's libraries
    "JAX_ENABLE_COMPILATION_CACHE": "false",  # what is taken from a cache tells nothing of its plan
}  # fmt: skip


def planner(environment: Environment) -> str:
    """The feature's worker that plans in this environment."""
    return module_of(environment.framework, environment.version)


def module_of(framework: str, version: str) -> str:
    """The same by the framework's version."""
    if framework == "torch" and version != pinned_version("torch"):
        return OTHER
    return OLDER if framework == "jax" and Version(version) < OLDER_THAN else PLANNERS[framework]


RUNNING: set[subprocess.Popen[str]] = set()


def ask(environment: Environment, case: Case, device: Device) -> dict[str, Any]:
    """What the framework's planner prints; `failed` with its last words where it prints nothing, or takes too long."""
    ours = {name: value for name, value in os.environ.items() if name not in FLAGS}
    paths = {**ours, **environment.variables(), **ALONE, "PYTHONPATH": environments.import_path()}
    module = f"framebench.features.devices.{planner(environment)}"
    command = [str(environment.python), "-P", "-m", module, case.id, device.name]
    process = subprocess.Popen(
        command, env=paths, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    RUNNING.add(process)
    try:
        printed, errors = process.communicate(timeout=BUDGET_S[device.kind])
    except subprocess.TimeoutExpired:
        end(process)
        process.communicate()
        return {"outcome": "failed", "reason": f"planning took longer than {BUDGET_S[device.kind] / 60:.0f} minutes"}
    finally:
        RUNNING.discard(process)
    try:
        return dict(json.loads(printed.strip().splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        return {"outcome": "failed", "reason": _ended(process.returncode, errors)}


def _ended(code: int, errors: str) -> str:
    if code == -signal.SIGKILL:
        return "the planner was killed: this machine ran out of memory, or somebody ended it"
    return f"the planner ended with {code}: {short(errors)}"


def end(process: subprocess.Popen[str]) -> None:
    """And whatever it has started: compilers start processes of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def short(text: str) -> str:
    """The line that names the last exception, or else the last one: messages of PyTorch's go on for pages."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Exit|Fault|Interrupt): ", line)]
    return (named or lines or ["it said nothing"])[-1].strip()[:500]
