"""Planners as processes in their frameworks' environments.

They are servers that plan case after case, since most of a case's time is the import of its
framework (`serving`).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

from framebench.devices.catalog import Device
from framebench.devices.plans.answer import PlannerAnswer, describe_end, parse_answer
from framebench.devices.simulation import cudnn
from framebench.engine import environments
from framebench.engine.children import CHILDREN, LogTail
from framebench.engine.environments import Environment
from framebench.suite.case import Case

BUDGET_S = {"gpu": 600.0, "tpu": 1800.0}  # for one case: what compiles for a TPU takes minutes
SERVERS = {  # modules by framework
    "torch": "framebench.devices.simulation.torch_server",
    "jax": "framebench.devices.xla.jax_server",
}
WITH_CUDNN = "torch-cudnn"  # the environment with cuDNN, by its requirements
# of the user: an answer is cached, and must not depend on them
FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
WITHOUT_DEVICE = {  # variables of a planner
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "TPU_SKIP_MDS_QUERY": "1",
    "OMP_NUM_THREADS": "1",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # the check needs NVIDIA's libraries
    "JAX_ENABLE_COMPILATION_CACHE": "false",  # a program from the cache has no plan
}
END_S = 15.0  # for a server to end by itself when its standard input does, on a busy machine


def make_command(environment: Environment, module: str, *arguments: str) -> list[str]:
    """Return the command that runs one of our modules in an environment."""
    return [str(environment.python), "-P", "-m", module, *arguments]


def list_variables(environment: Environment) -> dict[str, str]:
    """Return the variables of a planner.

    NVIDIA's libraries are named where the environment that has cuDNN is built, unless the user
    names others: PyTorch in any environment can ask them.
    """
    variables = {name: value for name, value in os.environ.items() if name not in FLAGS}
    variables |= environment.list_variables() | WITHOUT_DEVICE
    variables["PYTHONPATH"] = environments.import_path()
    with_cudnn = environments.describe("torch", package=WITH_CUDNN)
    if cudnn.FOLDER_VARIABLE not in os.environ and environments.is_built(with_cudnn):
        folders = with_cudnn.python.parent.parent.glob("lib/python*/site-packages/nvidia")
        for folder in folders:
            variables[cudnn.FOLDER_VARIABLE] = str(folder)
    return variables


class Server:
    """A process that plans a framework's cases one after the other."""

    def __init__(self, environment: Environment) -> None:
        """Start the process, which takes some seconds until it answers. Raises OSError.

        The kernel kills it when the thread that starts it ends: it serves no longer than the pool
        that this thread is of.
        """
        self.reason = ""  # why it has ended
        self.environment = environment
        self.process = CHILDREN.start(
            make_command(environment, SERVERS[environment.framework]),
            list_variables(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr
        try:
            self.errors = LogTail(self.process.stderr)
        except OSError:
            CHILDREN.end(self.process)
            raise

    def plan(self, case: Case, device: Device) -> PlannerAnswer:
        """Return the answer for a case; `failed` if the process ends or takes too long."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin
        assert stdout
        try:
            stdin.write(f"{case.id} {device.name}\n".encode())
            stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(stdout, selectors.EVENT_READ)
                if not selector.select(BUDGET_S[device.kind]):
                    self.process.kill()
                    self.end()
                    minutes = BUDGET_S[device.kind] / 60
                    return PlannerAnswer(
                        "failed", f"planning took longer than {minutes:.0f} minutes"
                    )
            # a server prints nothing but answers, each at once and on one line
            return parse_answer(stdout.readline().decode(errors="replace"))
        except (BrokenPipeError, ValueError):
            return PlannerAnswer("failed", self.end())

    def end(self) -> str:
        """End the process and all that it has started, unless that is done. Return why it ended.

        If it lives, the end of its standard input is a sign to end by itself.
        """
        if self.reason:
            return self.reason
        assert self.process.stdin
        assert self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        CHILDREN.end(self.process)
        self.process.stdout.close()
        self.errors.close()
        self.reason = describe_end(self.process.returncode, self.errors.get_text())
        return self.reason


class Servers:
    """A pool of servers, one for each thread that plans at the same time."""

    def __init__(self) -> None:
        """Start none yet: `plan` starts one when no other of the environment waits."""
        self.started: list[Server] = []
        self.idle: list[Server] = []
        self.lock = threading.Lock()  # of `idle`

    def plan(self, environment: Environment, case: Case, device: Device) -> PlannerAnswer:
        """Return the answer of a server that waits, or else of a new one."""
        server = self.take_idle(environment)
        if server is None:
            server = Server(environment)
            self.started.append(server)
        answer = server.plan(case, device)
        if server.process.poll() is None:
            with self.lock:
                self.idle.append(server)
        else:
            server.end()
        return answer

    def take_idle(self, environment: Environment) -> Server | None:
        """Return a server of the environment that waits, which then waits no longer, or None."""
        with self.lock:
            for server in self.idle:
                if server.environment == environment:
                    self.idle.remove(server)
                    return server
        return None

    def close(self) -> None:
        """End all servers: those that wait for a case, and those that an interrupt left."""
        self.idle.clear()
        for server in self.started:
            server.end()


class Planners:
    """Threads that plan cases, and their servers, for as long as the context is open.

    A server ends with the thread that started it, so that threads and servers are kept together.
    """

    def __init__(self, count: int) -> None:
        """Let so many cases be planned at the same time."""
        self.servers = Servers()
        self.pool = ThreadPoolExecutor(count)

    def __enter__(self) -> Planners:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown()
        self.servers.close()
