"""A child may print without end, say no end of a line, and leave processes behind: nothing fills,
nothing hangs, and nothing is left.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from framebench.devices.catalog import find
from framebench.devices.plans import process as planners
from framebench.engine import children, environments, supervisor
from framebench.engine.children import CHILDREN, LineReader
from framebench.engine.environments import Environment, SetupError
from framebench.engine.supervisor import Outcome, Worker
from framebench.records.provenance import ROOT
from framebench.suite.case import Case
from tests.callbacks import ignore
from tests.processes import framebench, list_processes, write_script

RESULT = json.dumps({"result": {"done": True}})
MARKER = "FRAMEBENCH_TEST_RUNAWAY"  # what a test's processes are known by
FORK = """
def sleep_in_child():
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
"""
DAEMON = """
def sleep_in_child():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()  # for the first child, which ends when the daemon is there
"""
DAEMON_WITHOUT_ENVIRONMENT = """
def sleep_in_child():
    import subprocess
    if os.fork() == 0:
        os.setsid()
        command = [sys.executable, "-c", "import time; time.sleep(600)", __file__]
        subprocess.Popen(command, env={}, start_new_session=True)
        os._exit(0)
    os.wait()  # for the first child, which ends when the daemon is there
"""
EXECUTED = """
def sleep_in_child():
    if os.fork() == 0:
        os.setsid()
        command = [sys.executable, "-c", "import time; time.sleep(600)", __file__]
        os.execve(sys.executable, command, {})
"""
IN_GROUP = """
def sleep_in_child():
    if os.fork() == 0:
        command = [sys.executable, "-c", "import time; time.sleep(600)", __file__]
        os.execve(sys.executable, command, {})
"""
RESULT_AND_END = f"print('{RESULT}', flush=True)"
# the function that leaves a child behind, how its parent ends, and what becomes of the worker
LEFT_BY_WORKER = {
    "a fork, says its result": (FORK, RESULT_AND_END, "ok"),
    "a daemon, says its result": (DAEMON, RESULT_AND_END, "ok"),
    "a daemon without its environment, says its result": (
        DAEMON_WITHOUT_ENVIRONMENT,
        RESULT_AND_END,
        "ok",
    ),
    "another program, says its result": (EXECUTED, RESULT_AND_END, "ok"),
    "a daemon, stays after its result": (DAEMON, f"{RESULT_AND_END}; time.sleep(600)", "ok"),
    "a daemon, ends without": (DAEMON, "sys.exit(3)", "crashed"),
    "a fork, hangs": (FORK, "time.sleep(600)", "timeout"),
    "a daemon without its environment, hangs": (
        DAEMON_WITHOUT_ENVIRONMENT,
        "time.sleep(600)",
        "timeout",
    ),
}
LEFT_BY_MODULE = {
    "a fork, answers": (FORK, "print('done', flush=True)", None),
    "a daemon without its environment, answers": (
        DAEMON_WITHOUT_ENVIRONMENT,
        "print('done', flush=True)",
        None,
    ),
    "a daemon, fails": (DAEMON, "sys.exit(3)", "failed"),
    "another program, hangs": (EXECUTED, "time.sleep(600)", "did not finish within"),
}
SOON_S = 300  # far less than a child sleeps
FLOOD = """
def flood(stream):
    for _ in range(400):
        stream.write(b"x" * 2**20)
"""


def make_environment(program: str, folder: Path) -> Environment:
    """Return an environment whose interpreter runs this Python program, whatever is asked of it."""
    file = folder / "program.py"
    file.write_text(f"import os, sys, time\n{program}")
    script = write_script(folder / "python", f"exec {sys.executable} {file}")
    return Environment("torch", "1", script)


def run_program(program: str, folder: Path, limit_s: float = 60.0) -> Outcome:
    """Run a Python program in a worker's place, and return what became of it."""
    environment = make_environment(program, folder)
    worker = Worker(environment, "worker", {}, {MARKER: str(folder)})
    return worker.end(ignore, limit_s)


def run_worker(environment: Environment, module: str, variables: dict[str, str]) -> None:
    """Start a worker, as `environments.run_module` runs a module."""
    Worker(environment, module, {}, variables)


def list_left(folder: Path) -> list[psutil.Process]:
    """Return the processes that a program in this folder has left."""
    return list_processes(folder / "program.py", **{MARKER: str(folder)})


@pytest.mark.parametrize(
    ("define_child", "end_of_parent", "status"), LEFT_BY_WORKER.values(), ids=LEFT_BY_WORKER
)
def test_children_of_a_worker_neither_delay_nor_outlive_it(
    define_child, end_of_parent, status, tmp_path, monkeypatch
):
    monkeypatch.setattr(supervisor, "GRACE_S", 1.0)
    program = f"{define_child}\nsleep_in_child()\n{end_of_parent}\n"
    limit_s = 3.0 if status == "timeout" else 60.0
    began = time.monotonic()
    outcome = run_program(program, tmp_path, limit_s)
    assert outcome.status == status
    assert time.monotonic() - began < SOON_S
    assert list_left(tmp_path) == []


@pytest.mark.parametrize(
    ("define_child", "end_of_parent", "fault"), LEFT_BY_MODULE.values(), ids=LEFT_BY_MODULE
)
def test_children_of_a_module_neither_delay_nor_outlive_it(
    define_child, end_of_parent, fault, tmp_path
):
    program = f"{define_child}\nsleep_in_child()\n{end_of_parent}\n"
    environment = make_environment(program, tmp_path)
    limit_s = 3.0 if fault == "did not finish within" else 60.0
    began = time.monotonic()
    variables = {MARKER: str(tmp_path)}
    if fault is None:
        printed = environments.run_module(
            environment, "module", variables=variables, limit_s=limit_s
        )
        assert printed == "done"
    else:
        with pytest.raises(SetupError, match=fault):
            environments.run_module(environment, "module", variables=variables, limit_s=limit_s)
    assert time.monotonic() - began < SOON_S
    assert list_left(tmp_path) == []


@pytest.mark.parametrize("end", ["sys.stdin.read()", "time.sleep(600)", "sys.exit(3)"])
def test_a_planner_leaves_no_process_behind(end, tmp_path, monkeypatch):
    """It does not matter whether it ends with its standard input, goes on, or ends by itself."""
    monkeypatch.setattr(planners, "END_S", 1.0)
    answer = json.dumps({"outcome": "not planned", "reason": "none"})
    lines = ["sys.stdin.readline()", "sleep_in_child()", f"print('{answer}', flush=True)", end]
    program = "\n".join([DAEMON_WITHOUT_ENVIRONMENT, *lines, ""])
    environment = make_environment(program, tmp_path)
    with contextlib.closing(planners.Servers()) as servers:
        case = Case.from_id("transformer/torch/train/fp32/b4/tiny")
        assert servers.plan(environment, case, find("h100-80gb")).reason == "none"
    assert list_left(tmp_path) == []


@pytest.mark.parametrize("printed", ["", "no JSON", "[1]", "{", '{"a": 1} and more', "[" * 10**5])
def test_a_module_without_an_answer_is_named(printed, tmp_path):
    """A user's file may end the process before the answer, or print behind it."""
    environment = make_environment(f"print({printed!r})\n", tmp_path)
    with pytest.raises(SetupError, match="module ended in torch-1 without an answer"):
        environments.ask_module(environment, "module")


def start_two(program: str, other: str, folder: Path, marked: bool) -> tuple[Worker, Worker]:
    """Start workers that run these programs in the folders `one` and `other`.

    Return them when each has told its result, and goes on. Marked ones have MARKER.
    """
    workers = []
    for name, code in (("one", program), ("other", other)):
        own_folder = folder / name
        own_folder.mkdir()
        environment = make_environment(f"{code}\n{RESULT_AND_END}\ntime.sleep(600)\n", own_folder)
        variables = {MARKER: str(own_folder)} if marked else {}
        workers.append(Worker(environment, "worker", {}, variables))
    for worker in workers:
        assert worker.receive(ignore, 60.0)
    first, second = workers
    return first, second


def test_a_daemon_with_its_environment_ends_with_its_own_worker_alone(tmp_path):
    """The mark in it says whose it is, while others run."""
    program = f"{DAEMON}\nsleep_in_child()"
    one, other = start_two(program, program, tmp_path, marked=True)
    one.kill()
    assert list_left(tmp_path / "one") == []
    assert len(list_left(tmp_path / "other")) == 2
    other.kill()
    assert list_left(tmp_path / "other") == []


def test_an_orphan_is_left_alone_while_another_worker_may_need_it(tmp_path):
    """Nobody can tell which worker started an orphan without marks: it ends with the last worker.

    The first worker ends; its own daemon, and the other worker with its daemon, go on.
    """
    program = f"{DAEMON_WITHOUT_ENVIRONMENT}\nsleep_in_child()"
    one, other = start_two(program, program, tmp_path, marked=False)
    one.kill()
    assert len(list_left(tmp_path / "one")) == 1, "the orphan"
    assert len(list_left(tmp_path / "other")) == 2, "the other worker and its daemon"
    other.kill()
    assert list_left(tmp_path / "one") == list_left(tmp_path / "other") == []


def test_a_process_without_its_environment_ends_with_its_group_while_others_run(tmp_path):
    """It has no mark, and is no orphan that may be killed yet: its group tells whose it is."""
    one, other = start_two(f"{IN_GROUP}\nsleep_in_child()", "", tmp_path, marked=False)
    try:
        assert len(list_left(tmp_path / "one")) == 2
        one.kill()
        assert list_left(tmp_path / "one") == []
        assert len(list_left(tmp_path / "other")) == 1
    finally:
        one.kill()
        other.kill()


def wait_for_worker(environment: Environment, limit_s: float) -> None:
    """Wait for a worker's next message, as a block does between two turns."""
    worker = Worker(environment, "worker", {}, {})
    assert worker.receive(ignore, limit_s) is None
    assert worker.expired_s == limit_s


def wait_for_module(environment: Environment, limit_s: float) -> None:
    with pytest.raises(SetupError, match="did not finish within"):
        environments.run_module(environment, "module", limit_s=limit_s)


def listen_to_module(environment: Environment, limit_s: float) -> None:
    """Wait for a module whose progress is shown meanwhile."""
    with pytest.raises(SetupError, match="did not finish within"):
        environments.run_module(environment, "module", limit_s=limit_s, on_errors=ignore)


@pytest.mark.timeout(100)
@pytest.mark.parametrize("wait", [wait_for_worker, wait_for_module, listen_to_module])
def test_a_child_that_sleeps_past_its_limit_is_killed(wait, tmp_path):
    environment = make_environment("time.sleep(600)\n", tmp_path)
    wait(environment, 2.5)
    left = list_left(tmp_path)
    for process in left:
        process.kill()
    assert left == []


def test_a_closed_pipe_is_its_end_however_often_it_is_read():
    program = "import os, time; os.close(1); time.sleep(600)"
    process = CHILDREN.start([sys.executable, "-c", program], os.environ, stdout=subprocess.PIPE)
    reader = LineReader(process)
    try:
        assert reader.read(60.0) is None
        assert reader.read(3.0) is None
    finally:
        CHILDREN.end(process)
        reader.close()


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_child_without_its_threads_is_ended(allowed, tmp_path, monkeypatch):
    """A limit on memory may allow a process and no thread that listens to it."""
    environment = make_environment("time.sleep(600)\n", tmp_path)
    start = threading.Thread.start
    for action in (run_worker, environments.run_module):
        started = []

        def start_few(thread: threading.Thread, started: list[threading.Thread] = started) -> None:
            if len(started) == allowed:
                raise RuntimeError("can't start new thread")
            started.append(thread)
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_few)
        with pytest.raises((OSError, SetupError), match="no further thread can be started"):
            action(environment, "module", variables={MARKER: str(tmp_path)})
        assert list_left(tmp_path) == []


def test_all_children_are_killed_at_once():
    started = [CHILDREN.start(["sleep", "600"], os.environ) for _ in range(2)]
    try:
        CHILDREN.kill()
        assert [process.wait(60) for process in started] == [-signal.SIGKILL] * 2
    finally:
        for process in started:
            CHILDREN.end(process)


def test_an_end_that_ctrl_c_interrupts_is_repeated(monkeypatch):
    """Whoever cleans up after Ctrl-C ends each child again."""
    process = CHILDREN.start(["sleep", "600"], os.environ)
    kill_marked = Mock(side_effect=[KeyboardInterrupt, None])
    monkeypatch.setattr(children, "kill_marked", kill_marked)
    with pytest.raises(KeyboardInterrupt):
        CHILDREN.end(process)
    for _ in range(2):
        CHILDREN.end(process)
    assert kill_marked.call_count == 2
    assert process.pid not in CHILDREN.marks


@pytest.mark.parametrize("stream", ["sys.stdout.buffer", "sys.stderr.buffer"])
def test_what_a_module_prints_takes_no_memory(stream, tmp_path, monkeypatch):
    monkeypatch.setattr(children, "ANSWER_BYTES", 2**22)
    before = read_peak_mib()
    environment = make_environment(f"{FLOOD}\nflood({stream})\nsys.exit(3)\n", tmp_path)
    with pytest.raises(SetupError, match="failed"):
        environments.run_module(environment, "module")
    assert read_peak_mib() - before < 100


def test_children_of_the_process_itself_are_left_alone(tmp_path):
    own = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        assert run_program(f"print('{RESULT}', flush=True)\n", tmp_path).status == "ok"
        assert own.poll() is None
    finally:
        own.kill()
        own.wait()


@pytest.mark.parametrize(
    "end", [f"print('{RESULT}', flush=True)", "sys.exit(3)", "time.sleep(600)"]
)
def test_no_pipe_of_a_child_is_left_open(end, tmp_path):
    """Python would warn of it, and with PYTHONWARNINGS=error print a traceback."""
    environment = make_environment(f"{end}\n", tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for is_live in (False, True):
            worker = Worker(environment, "worker", {}, {}, live=is_live)
            worker.end(ignore, 1.0)
        del worker
        with contextlib.suppress(SetupError):
            environments.run_module(environment, "module", limit_s=1.0)
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.parametrize("stream", ["sys.stdout.buffer", "sys.stderr.buffer"])
def test_what_a_worker_prints_takes_neither_disk_nor_memory(stream, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(children, "MOST_LINE_BYTES", 2**22)
    before = read_peak_mib()
    outcome = run_program(f"{FLOOD}\nflood({stream})\n", tmp_path)
    assert outcome.status == "crashed"
    assert len(outcome.log) <= children.LOG_BYTES
    assert read_peak_mib() - before < 100
    sizes = [path.stat().st_size for path in tmp_path.rglob("*")]
    assert sum(sizes) < 2**20


def read_peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


@pytest.mark.parametrize("field", ["message", "blamed", "type"])
def test_a_reason_without_end_is_cut_off(field, tmp_path):
    """A record must have room for it, and be readable afterwards."""
    error = {"type": "ValueError", "message": "m", "oom": False, field: "MANY"}
    line = repr(json.dumps({"error": error})).replace("MANY", "' + 'x' * 2_000_000 + '")
    outcome = run_program(f"print({line}, flush=True)\n", tmp_path)
    assert outcome.status == "crashed"
    assert "xxx" in outcome.reason
    assert len(outcome.reason) <= supervisor.LONGEST_REASON


def test_a_truncated_message_is_reported_as_the_workers_death(tmp_path):
    program = 'sys.stdout.write(\'{"phase": "wor\')\nsys.stdout.flush()\nos.kill(os.getpid(), 9)\n'
    outcome = run_program(program, tmp_path)
    assert outcome.status == "crashed"
    assert "ended by SIGKILL" in outcome.reason


@pytest.mark.parametrize("later", ["error", "result"])
def test_the_first_error_is_the_reported_cause(later, tmp_path):
    """Of several ranks the others fail because the first one has."""
    program = "import json\n"
    for kind, text in (("error", "the cause"), (later, "a consequence")):
        message = {kind: {"type": "ValueError", "message": text, "oom": False}}
        program += f"print(json.dumps({message}), flush=True)\n"
    outcome = run_program(program, tmp_path)
    assert outcome.status == "crashed"
    assert "the cause" in outcome.reason


def test_the_log_has_the_lines_printed_last(tmp_path):
    lines = "for number in range(100_000): print(number, file=sys.stderr)"
    outcome = run_program(f"{lines}\nsys.exit(1)\n", tmp_path)
    assert outcome.log.splitlines()[-1] == "99999"
    assert len(outcome.log.splitlines()) == 25


@pytest.mark.parametrize(
    ("command", "limit"),
    [
        ("run CASE", "1e300"),
        ("run CASE", "nan"),
        ("run CASE", "0"),
        ("plan CASE", "inf"),
        ("try FILE", "inf"),
        ("max-batch CASE --budget 1GiB", "inf"),
        ("claims B19 --run", "inf"),
        ("versions run CASE", "inf"),
    ],
)
def test_a_time_limit_without_an_end_is_refused(command, limit, tmp_path):
    file = tmp_path / "model.py"
    file.write_text("import torch\n")
    named = {"CASE": "transformer/torch/train/fp32/b4/tiny", "FILE": str(file)}
    words = [named.get(word, word) for word in command.split()]
    done = framebench(*words, "--time-limit", limit, code=2)
    assert "--time-limit" in done.stderr


PHASE = '{"phase": "y"}'
ERROR = '{"error": {"type": "ValueError", "message": "wrong", "oom": false}}'


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    ("first", "printed"),
    [("", "x"), ("", PHASE), (RESULT, PHASE), (RESULT, RESULT), (ERROR, "x"), (ERROR, PHASE)],
)
def test_a_worker_that_prints_lines_without_end_is_ended(first, printed, tmp_path, monkeypatch):
    """A line behind its result gives it no more time, either."""
    monkeypatch.setattr(supervisor, "GRACE_S", 1.0)
    program = f"while True: os.write(1, b'{printed}\\n' * 1000)\n"
    if first:
        program = f"print('{first}', flush=True)\n{program}"
    outcome = run_program(program, tmp_path, limit_s=3.0)
    assert list_left(tmp_path) == []
    assert outcome.status != "oom"
    if (first, printed) == ("", PHASE):
        assert outcome.status == "timeout"


@pytest.mark.parametrize(
    "line",
    [
        "5",
        "null",
        "[]",
        "[" * 100_000,
        "{}",
        '"phase"',
        "NaN",
        '{"unknown": 1}',
    ],
    ids=lambda line: line[:80],
)
def test_a_line_that_is_no_message_is_an_error_of_the_worker(line, tmp_path):
    outcome = run_program(f"print({line!r}, flush=True)\n", tmp_path)
    assert outcome.status == "crashed"
    assert "not a message" in outcome.reason


# Each starts a program for a long time, with a variable by which its processes are known
STARTS = {
    "a worker": """
from framebench.engine.children import CHILDREN
CHILDREN.start([sys.executable], os.environ)
""",
    "a planner of PyTorch": """
from framebench.devices.plans import process
from framebench.engine.environments import Environment
process.Server(Environment("torch", "1", pathlib.Path(sys.executable)))
""",
    "asv's builds of environments": """
from framebench.asv.building import Building
Building(["torch", "jax"], [])
""",
    "pip's list of releases": """
from framebench.engine import releases
releases.list_releases("jax")
""",
    "pip's choice of packages": """
from framebench.versions import pin
pin.ask_pip(["jax==0.9.1"], {})
""",
    "asv's pages": """
from framebench.versions import asv_history
asv_history.publish(pathlib.Path("asv.conf.json"), [])
""",
    "Sphinx": """
from framebench.publish.site import build
build.run_sphinx(pathlib.Path("source"), pathlib.Path("site"))
""",
    "a job of Slurm's": """
from framebench.cluster import slurm
slurm.run_framebench("list")
""",
}
PARENT = """
import os, pathlib, sys
sys.executable = sys.argv[1]
{start}
__import__("time").sleep(600)
"""


def wait_for_number(folder: Path, number: int) -> list[psutil.Process]:
    """Wait until this many processes of a folder live, and return those that do after a minute."""
    deadline = time.monotonic() + 60
    while len(list_left(folder)) != number and time.monotonic() < deadline:
        time.sleep(0.05)
    return list_left(folder)


@pytest.mark.parametrize("start", STARTS)
def test_children_end_with_a_parent_that_is_killed(start, tmp_path):
    """The parent is killed by SIGKILL, so that it can end nobody itself."""
    environment = make_environment("time.sleep(600)\n", tmp_path)
    command = [sys.executable, "-c", PARENT.format(start=STARTS[start]), str(environment.python)]
    parent = subprocess.Popen(command, cwd=ROOT)
    try:
        assert len(wait_for_number(tmp_path, 1)) == 1
    finally:
        parent.kill()
        parent.wait()
    left = wait_for_number(tmp_path, 0)
    for process in left:
        process.kill()
    assert left == []


def interrupt(phase: str) -> None:
    raise KeyboardInterrupt


def test_a_worker_ends_with_the_command_that_is_interrupted(tmp_path):
    environment = make_environment(
        'print(\'{"phase": "x"}\', flush=True)\ntime.sleep(600)\n', tmp_path
    )
    worker = Worker(environment, "worker", {}, {MARKER: str(tmp_path)})
    with pytest.raises(KeyboardInterrupt):
        worker.end(interrupt, 60.0)
    assert list_left(tmp_path) == []
