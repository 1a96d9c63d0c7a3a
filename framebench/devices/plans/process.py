"""A planner as a process in its framework's environment:

`python -m framebench.devices.<planner> CASE DEVICE`.
"""

from __future__ import annotations

import os
import re
import signal

from framebench.devices.catalog import Device
from framebench.devices.plans.answer import Answer, parse_answer
from framebench.engine import children, environments
from framebench.engine.environments import Environment
from framebench.suite.case import Case

BUDGET_S = {"gpu": 600.0, "tpu": 1800.0}  # for one case: what compiles for a TPU takes minutes
PLANNERS = {"jax": "xla.jax_plan", "torch": "simulation.torch_plan"}
# of the user: an answer is cached, and must not depend on them
FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
WITHOUT_DEVICE = {  # variables of a planner
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "TPU_SKIP_MDS_QUERY": "1",
    "OMP_NUM_THREADS": "1",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # which asks for NVIDIA's libraries
    "JAX_ENABLE_COMPILATION_CACHE": "false",  # what is taken from a cache tells nothing of its plan
}


def run_planner(environment: Environment, case: Case, device: Device) -> Answer:
    """Return the answer of the framework's planner; `failed` with its last words if it gives none,
    or takes too long.
    """
    variables = {name: value for name, value in os.environ.items() if name not in FLAGS}
    variables |= (
        environment.variables() | WITHOUT_DEVICE | {"PYTHONPATH": environments.import_path()}
    )
    module = f"framebench.devices.{PLANNERS[environment.framework]}"
    limit_s = BUDGET_S[device.kind]
    command = [str(environment.python), "-P", "-m", module, case.id, device.name]
    try:
        ended = children.run_program(command, variables, limit_s)
    except TimeoutError:
        return Answer("failed", f"planning took longer than {limit_s / 60:.0f} minutes")
    try:
        return parse_answer(ended.stdout)
    except ValueError:
        return Answer("failed", describe_end(ended.code, ended.stderr))


def describe_end(code: int, errors: str) -> str:
    """Return why a planner ended without an answer."""
    if code == -signal.SIGKILL:
        return "the planner was killed: this machine ran out of memory, or somebody ended it"
    return f"the planner ended with {code}: {shorten_error(errors)}"


def shorten_error(text: str) -> str:
    """Return the line that names the last exception, or else the last one: messages of PyTorch's go
    on for pages.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    named = [
        line for line in lines if re.match(r"[\w.]+(Error|Exception|Exit|Fault|Interrupt): ", line)
    ]
    return (named or lines or ["it said nothing"])[-1].strip()[:500]
