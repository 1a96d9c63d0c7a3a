"""Runs on Slurm: whatever happens to jobs, nodes and the controller, every block is measured, and
on one node, by itself.

Tests marked `slurm` start a real Slurm (`make test-slurm`). They are skipped, with the reason,
where Slurm is missing and cannot be installed. The other tests need no Slurm: some put scripts in
the place of its commands.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from framebench.cluster import slurm
from framebench.cluster.slurm import LOG, Jobs, select_nodes
from framebench.cluster.units import NODES, RunRequest, select_unfinished
from framebench.engine.environments import SetupError
from framebench.engine.runner import Options
from framebench.records import provenance, store
from tests.callbacks import ignore
from tests.cluster.own_slurm import OwnSlurm, wait_until
from tests.processes import COMMAND, write_script

CASES = (
    "transformer/torch/train/{fp32,checkpoint}/b4/tiny",
    "transformer/torch/eval/{grad,no_grad}/b4/tiny",
)
BLOCKS = 3
UNITS = len(CASES) * BLOCKS
UNIT = RunRequest((CASES[0],), block=0)


@pytest.fixture
def own(tmp_path) -> Iterator[OwnSlurm]:
    with OwnSlurm(tmp_path / "slurm") as started:
        yield started


@pytest.fixture
def python(fake_worker) -> str:
    return str(fake_worker.python)


def start_run(results: Path, python: str, blocks: int = BLOCKS) -> subprocess.Popen[str]:
    """Start a run of all cases on Slurm."""
    options = ["--blocks", str(blocks), "--rounds", "2", "--env", python, "--results", results]
    command = [*COMMAND, "run", *CASES, *options, "--on", "slurm", "--slurm", "time=10"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def read_log(results: Path, node: str) -> list[str]:
    """Return when units began and ended on a node, a line for each."""
    file = results / NODES / node / LOG
    return file.read_text().splitlines() if file.exists() else []


def find_overlap(log: list[str]) -> str:
    """Return the line of a node's log by which two units ran there at once; empty if no two did.

    A unit that ends did not share the node if it was the last one that began. One that was killed
    has no end.
    """
    running = ""
    for line in log:
        event, unit = line.split(": ", 1)
        if event.endswith(" began"):
            running = unit
        elif unit != running:
            return line
    return ""


def count_began(results: Path) -> int:
    """Return how many units began on both nodes."""
    lines = [*read_log(results, "n1"), *read_log(results, "n2")]
    return sum(" began: " in line for line in lines)


@pytest.mark.slurm
def test_nothing_is_lost_when_jobs_nodes_and_the_controller_fail(own, python, results):
    process = start_run(results, python)
    wait_until(lambda: count_began(results) == 2)
    assert sorted(own.list_running().values()) == ["n1", "n2"]  # each has a node to itself

    kill_a_job(own)
    wait_until(lambda: count_began(results) >= 3)
    restart_controller(own)
    wait_until(lambda: has_ended_on_both(own, results))
    lose_node(own, "n2")
    drain_node(own, "n1")
    own.resume("n2")
    wait_for_end(own, process)

    message = process.communicate()[0]
    assert process.returncode == 0, message
    assert f"{UNITS} of {UNITS} units are done" in message
    assert len(list((results / NODES).glob("*/.done-*"))) == UNITS
    cases_by_block = defaultdict(set)
    nodes = set()
    for record in store.read_all(results):
        cases_by_block[record.turns_taken.block].add(record.case)
        nodes.add(record.provenance.node or record.provenance.machine)
        assert record.provenance.calibration
    complete_blocks = [block for block, cases in cases_by_block.items() if len(cases) == 2]
    assert len(complete_blocks) >= UNITS
    assert nodes == {"n1", "n2"}
    for node in nodes:
        assert find_overlap(read_log(results, node)) == ""


def kill_a_job(own: OwnSlurm) -> None:
    own.ask("scancel", next(iter(own.list_running())))


def restart_controller(own: OwnSlurm) -> None:
    """Start the controller again once commands have found it away for a while."""
    own.stop("controller")
    time.sleep(2)
    own.start_controller()


def lose_node(own: OwnSlurm, name: str) -> None:
    """Take down a node where jobs run, and wait until these run there no more."""

    def list_jobs() -> set[str]:
        return {job for job, node in own.list_running().items() if node == name}

    wait_until(list_jobs)
    lost = list_jobs()
    own.ask("scontrol", "update", f"nodename={name}", "state=down", "reason=test")
    wait_until(lambda: lost.isdisjoint(list_jobs()))


def drain_node(own: OwnSlurm, name: str) -> None:
    """Let a node take no more jobs."""
    own.ask("scontrol", "update", f"nodename={name}", "state=drain", "reason=test")


def has_ended_on_both(own: OwnSlurm, results: Path) -> bool:
    """Return whether each node has ended a unit without a fault; resume nodes like an operator."""
    own.resume()
    for node in ("n1", "n2"):
        if not any(" ended with 0: " in line for line in read_log(results, node)):
            return False
    return True


def wait_for_end(own: OwnSlurm, process: subprocess.Popen[str]) -> None:
    """Wait until the run has ended; jobs that are requeued start at once."""

    def has_ended() -> bool:
        own.hasten()
        return process.poll() is not None

    wait_until(has_ended, 1200)


@pytest.mark.slurm
@pytest.mark.usefixtures("own")
def test_units_that_are_done_or_queued_are_not_submitted_again(python, results):
    first = start_run(results, python, 1)
    wait_until(lambda: count_began(results) == 2)
    first.send_signal(signal.SIGINT)  # the command is gone, the jobs are not
    first.communicate()
    assert first.returncode == 130
    for _ in range(2):
        again = start_run(results, python, 1)
        message, _ = again.communicate(timeout=600)
        assert again.returncode == 0, message
    assert "0 records were added" in message
    assert count_began(results) == 2


@pytest.mark.slurm
def test_units_wait_for_the_environments_of_each_kind_of_node(own, python, results):
    unit = RunRequest((CASES[0],), None, Options(rounds=2), python, block=0)
    code = provenance.name_code()
    (results / NODES).mkdir(parents=True)
    jobs = Jobs(results, {"time": 10}, ignore)

    (setup,) = slurm.submit_setups([unit], jobs, ["nothing"])  # both nodes are of one kind
    slurm.submit([unit], jobs, [setup], code)
    reasons_to_wait = own.ask("squeue", "-h", "-o", "%r")
    wait_until(lambda: not select_unfinished([unit], results, code))

    assert "Dependency" in reasons_to_wait
    log = results / slurm.FOLDER / f"{setup}_0_log.err"
    assert "nothing" in log.read_text()


def test_a_usable_node_of_each_kind_is_prepared():
    printed = """\
n1|2|1000|a,b|(null)|down*
n2|2|1000|a,b|(null)|idle
n3|2|1000|a,b|(null)|idle
n4|4|1000|c|gpu:1|mix"""
    assert select_nodes(printed) == ["n2", "n4"]


@pytest.fixture
def fake_slurm(tmp_path, monkeypatch) -> Callable[..., Path]:
    """Return a function that puts scripts in the place of Slurm's commands, by name."""

    def write_scripts(**scripts: str) -> Path:
        usual = {"srun": "", "squeue": "", "sinfo": "echo 'n1|2|1000|a|(null)|idle'"}
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, script in (usual | scripts).items():
            write_script(folder / name, f"cd {tmp_path}\n{script}")
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        (tmp_path / "results" / NODES).mkdir(parents=True)
        return tmp_path / "results"

    return write_scripts


@pytest.mark.parametrize("text", ["", "[]", '{"mark": 5}', "[" * 100_000])
def test_a_damaged_file_of_jobs_is_ignored(text, tmp_path):
    jobs = Jobs(tmp_path)
    jobs.write_ids({"mark": "5"})
    assert jobs.read_ids() == {"mark": "5"}
    jobs.file.write_text(text)
    assert jobs.read_ids() == {}


def test_a_refused_job_is_reported(fake_slurm):
    messages = []
    jobs = Jobs(fake_slurm(sbatch="echo 'Invalid account' >&2; exit 1"), say=messages.append)
    with pytest.raises(SetupError, match="Slurm took no job"):
        slurm.measure([UNIT], jobs, ["torch"])
    assert any("nothing is prepared on n1" in message for message in messages)


def test_a_controller_that_is_away_has_not_lost_its_jobs(fake_slurm, tmp_path):
    messages = []
    mark = UNIT.mark(provenance.name_code())
    squeue = f"""
echo >> calls
case $(wc -l < calls) in
    1) exit 1 ;;  # the controller does not answer
    2 | 3) echo '7|None' ;;  # job 7 runs: its id, and no reason to wait
    *) touch results/{mark} ;;  # it is no longer listed, and its unit is done
esac
"""
    results = fake_slurm(squeue=squeue, sbatch="touch submitted; exit 1")
    jobs = Jobs(results, say=messages.append, poll_s=0.01)
    jobs.write_ids({mark: "7"})
    assert slurm.measure([UNIT], jobs, ["torch"]) == []
    assert not (tmp_path / "submitted").exists()
    assert "does not answer" in messages[0]


@pytest.mark.parametrize(
    ("words", "says_to_wait"),
    [
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", True),
        ("squeue: fatal: Could not establish a configuration source", False),
    ],
)
def test_a_controller_that_never_answered_ends_the_command(
    words, says_to_wait, fake_slurm, tmp_path, monkeypatch
):
    monkeypatch.setattr(slurm, "FIRST_WAIT_S", 0.3)
    messages = []
    results = fake_slurm(
        squeue=f"echo '{words}' >&2; exit 1", sbatch=f"touch {tmp_path}/submitted; exit 1"
    )
    with pytest.raises(SetupError, match="plan --shell") as error:
        slurm.measure([UNIT], Jobs(results, say=messages.append, poll_s=0.01), ["torch"])
    reason = words.removeprefix("squeue: ")
    assert reason in str(error.value)
    assert not (tmp_path / "submitted").exists()
    assert len(messages) == says_to_wait
    assert all(reason in message for message in messages)
