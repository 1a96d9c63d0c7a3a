"""Answer which cases a server of planners is asked about, one after the other.

Each line of standard input, CASE DEVICE, is answered by one line of JSON (`answer.PlannerAnswer`).
A framework, and what a user's file imports, is imported once for all of them. Each case runs in a
process that is forked from the server: strategies set flags of the framework that the next case
must not find, and what a case takes is freed with its process.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import NoReturn, TextIO

from framebench.devices.catalog import Device, find
from framebench.devices.plans.answer import PlannerAnswer, describe_end, parse_answer
from framebench.instruments.parent_death import die_with_parent
from framebench.models.spec import USER_MODEL, load_workload
from framebench.suite.case import Case
from framebench.suite.user_file import import_packages
from framebench.worker.worker import reserve_stdout

MOST_PRINTED_BYTES = 2**26  # by one case, and of each file that it writes

PlanCase = Callable[[Case, Device], PlannerAnswer]


def serve(plan: PlanCase, most_file_bytes: int = MOST_PRINTED_BYTES) -> None:
    """Answer each line of standard input by `plan`, until the input ends.

    A case may write files of `most_file_bytes`, and print as much.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption ends
    answers = reserve_stdout()
    user_file = load_workload(USER_MODEL).facts.get("file")
    if user_file:
        import_packages(user_file)
    for line in sys.stdin:
        case_id, device_name = line.split()
        answer = plan_in_fork(plan, case_id, device_name, most_file_bytes)
        print(answer.to_json(), file=answers, flush=True)


def plan_in_fork(
    plan: PlanCase, case_id: str, device_name: str, most_file_bytes: int
) -> PlannerAnswer:
    """Plan a case in a forked process, and return its answer; without one, `failed`."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            # a user's file may print without end
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_file_bytes, most_file_bytes))
            answer_and_exit(plan, case_id, device_name, printed, errors)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed.seek(0)
        try:
            return parse_answer(printed.read())
        except ValueError:
            errors.seek(0)
            return PlannerAnswer("failed", describe_end(code, errors.read()))


def answer_and_exit(
    plan: PlanCase, case_id: str, device_name: str, printed: TextIO, errors: TextIO
) -> NoReturn:
    """Plan a case, print the answer, and end the process without unwinding what it inherited."""
    code = 1
    try:
        die_with_parent()  # it is the server
        # a user's file may read from standard input
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
