"""Planners as processes in their frameworks' environments.

JAX has a process for each case: `python -m framebench.devices.xla.jax_plan CASE DEVICE`. PyTorch
has servers that plan case after case, since most of a case's time is the import of PyTorch
(`simulation.torch_server`). A server that has answered waits for the next case, and ends with this
process.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import tempfile
import threading
from pathlib import Path

from framebench.devices.catalog import Device
from framebench.devices.plans.answer import Answer, describe_end, parse_answer
from framebench.devices.simulation import cudnn
from framebench.engine import children, environments
from framebench.engine.environments import Environment
from framebench.models.user_model import FOLDER_VARIABLE
from framebench.suite.case import Case

BUDGET_S = {"gpu": 600.0, "tpu": 1800.0}  # for one case: what compiles for a TPU takes minutes
PLANNER = "framebench.devices.xla.jax_plan"
SERVER = "framebench.devices.simulation.torch_server"
WITH_CUDNN = "torch-cudnn"  # the environment with cuDNN, by its requirements
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


END_S = 5.0  # for a server to end by itself when its standard input does
MOST_IDLE = 2  # servers that wait: each has some 300 MB

RUNNING: set[subprocess.Popen[str]] = set()  # that plan a case now


def run_planner(environment: Environment, case: Case, device: Device) -> Answer:
    """Return the answer of the framework's planner; `failed` with its last words if it gives none,
    or takes too long.
    """
    if environment.framework == "torch":
        return ask_server(environment, case, device)
    command = make_command(environment, PLANNER, case.id, device.name)
    try:
        ended = children.run_program(command, list_variables(environment), BUDGET_S[device.kind])
    except TimeoutError:
        return describe_timeout(device)
    try:
        return parse_answer(ended.stdout)
    except ValueError:
        return Answer("failed", describe_end(ended.code, ended.stderr))


def make_command(environment: Environment, module: str, *arguments: str) -> list[str]:
    """Return the command that runs one of our modules in an environment."""
    return [str(environment.python), "-P", "-m", module, *arguments]


def list_variables(environment: Environment) -> dict[str, str]:
    """Return the variables of a planner."""
    variables = {name: value for name, value in os.environ.items() if name not in FLAGS}
    variables |= environment.variables() | WITHOUT_DEVICE
    variables["PYTHONPATH"] = environments.import_path()
    folder = find_cudnn()
    if folder:
        variables[cudnn.FOLDER_VARIABLE] = str(folder)
    return variables


def find_cudnn() -> Path | None:
    """Return the folder of NVIDIA's libraries in the environment that has cuDNN; None where it is
    not built.

    It is loaded by name, so that PyTorch in any environment can ask it.
    """
    environment = environments.describe("torch", package=WITH_CUDNN)
    packages = environment.python.parent.parent.glob("lib/python*/site-packages/nvidia")
    return next(packages, None) if environments.built(environment) else None


class Server:
    """A process that plans case after case in one environment.

    It has imported what the user's file imports of which it was told when it started.
    """

    def __init__(self, environment: Environment, user_model: str) -> None:
        self.python = environment.python
        self.user_model = user_model
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it lives as long as the process)
        # in this process's session: a child in another one is taken for an orphan and killed
        # (`engine.children`). The thread that starts it may end before it does
        self.process = subprocess.Popen(
            make_command(environment, SERVER),
            env=list_variables(environment),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )

    def serves(self, environment: Environment, user_model: str) -> bool:
        """Return whether it can plan cases of this environment and user's file."""
        is_alive = self.process.poll() is None
        return is_alive and (self.python, self.user_model) == (environment.python, user_model)

    def plan(self, case: Case, device: Device) -> Answer | None:
        """Return the answer for a case; None if the process ended without one."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin
        assert stdout
        RUNNING.add(self.process)
        try:
            print(case.id, device.name, file=stdin, flush=True)
            with selectors.DefaultSelector() as selector:
                selector.register(stdout, selectors.EVENT_READ)
                if not selector.select(BUDGET_S[device.kind]):
                    self.process.kill()
                    return describe_timeout(device)
            # a server prints nothing but answers, each at once and on one line
            return parse_answer(stdout.readline())
        except (BrokenPipeError, ValueError):
            return None
        finally:
            RUNNING.discard(self.process)

    def explain_end(self) -> str:
        """Return why the process ended, or is ended now, without an answer."""
        self.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=END_S)
        self.process.kill()
        code = self.process.wait()
        self.errors.seek(0)
        return describe_end(code, self.errors.read())

    def close(self) -> None:
        """Let the process end."""
        with contextlib.suppress(BrokenPipeError):
            if self.process.stdin:
                self.process.stdin.close()


# Servers that wait for a case, the one that waits longest first. They end with this process, which
# closes their standard input.
IDLE: list[Server] = []
IDLE_LOCK = threading.Lock()


def ask_server(environment: Environment, case: Case, device: Device) -> Answer:
    """Return the answer of a server that waits, or else of a new one."""
    user_model = os.environ.get(FOLDER_VARIABLE, "")
    server = take_idle(environment, user_model)
    answer = server.plan(case, device) if server else None
    if server is None or answer is None:  # none waited, or it ended while it did
        server = Server(environment, user_model)
        answer = server.plan(case, device)
    if answer is None:
        return Answer("failed", server.explain_end())
    put_idle(server)
    return answer


def take_idle(environment: Environment, user_model: str) -> Server | None:
    """Return a server that waits and can plan these cases, or None."""
    with IDLE_LOCK:
        for server in IDLE:
            if server.serves(environment, user_model):
                IDLE.remove(server)
                return server
    return None


def put_idle(server: Server) -> None:
    """Let a server wait for the next case; the one that waits longest may have to end."""
    with IDLE_LOCK:
        IDLE.append(server)
        while len(IDLE) > MOST_IDLE:
            IDLE.pop(0).close()


def describe_timeout(device: Device) -> Answer:
    """Return the answer for a case whose planner took too long."""
    return Answer("failed", f"planning took longer than {BUDGET_S[device.kind] / 60:.0f} minutes")


def kill_servers() -> None:
    """Kill the servers that plan a case now, for the threads that wait for them."""
    for process in list(RUNNING):
        process.kill()
