"""Plan PyTorch's cases one after the other, in PyTorch's environment.

    python -m framebench.devices.simulation.torch_server

Each line of standard input, CASE DEVICE, is answered by one line of JSON
(`plans.answer.PlannerAnswer`). PyTorch, and what a user's file imports, is imported once for all of
them.
Each case runs in a process that is forked from this one: strategies set flags of PyTorch that the
next case must not find, and what a case takes is freed with its process.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import traceback
from typing import NoReturn, TextIO

import torch._decomp
import torch._dynamo  # takes a second
import torch._refs  # noqa: F401  (the first fake tensor of each case would import all three)

from framebench.devices.catalog import find
from framebench.devices.plans.answer import PlannerAnswer, describe_end, parse_answer
from framebench.devices.simulation.torch_plan import plan
from framebench.instruments.parent_death import die_with_parent
from framebench.models.spec import USER_MODEL, load_workload
from framebench.suite.case import Case
from framebench.suite.user_file import import_packages
from framebench.worker.worker import reserve_stdout

MOST_PRINTED_BYTES = 2**26  # by one case


def serve() -> None:
    """Answer each line of standard input until it ends."""
    answers = reserve_stdout()
    user_file = load_workload(USER_MODEL).facts.get("file")
    if user_file:
        import_packages(user_file)
    for line in sys.stdin:
        case_id, device_name = line.split()
        answer = plan_in_fork(case_id, device_name)
        print(answer.to_json(), file=answers, flush=True)


def plan_in_fork(case_id: str, device_name: str) -> PlannerAnswer:
    """Plan a case in a forked process, and return its answer; without one, `failed`."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            answer_and_exit(case_id, device_name, printed, errors)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed.seek(0)
        try:
            return parse_answer(printed.read())
        except ValueError:
            errors.seek(0)
            return PlannerAnswer("failed", describe_end(code, errors.read()))


def answer_and_exit(case_id: str, device_name: str, printed: TextIO, errors: TextIO) -> NoReturn:
    """Plan a case, print the answer, and end the process without unwinding what it inherited."""
    code = 1
    try:
        die_with_parent()  # it is the server
        # a user's file may read from standard input, and print without end
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_PRINTED_BYTES, MOST_PRINTED_BYTES))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(errors.fileno(), 1)
        os.dup2(errors.fileno(), 2)
        answer = plan(Case.from_id(case_id), find(device_name))
        print(answer.to_json(), file=printed, flush=True)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption ends
    serve()
