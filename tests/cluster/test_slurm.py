"""Against a real Slurm that the test starts: whatever happens to jobs, nodes and the controller,
every block is measured, and on one node, by itself. `make test-slurm`; skipped, with the reason,
where there is no Slurm and none can be installed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from framebench.cluster import slurm
from framebench.cluster.slurm import LOG, select_nodes
from framebench.cluster.units import NODES, RunRequest, select_unfinished
from framebench.engine.runner import Options
from framebench.records import provenance, store
from tests.cluster.own_slurm import OwnSlurm
from tests.processes import COMMAND, fake_environment

CASES = (
    "transformer/torch/train/{fp32,checkpoint}/b4/tiny",
    "transformer/torch/eval/{grad,no_grad}/b4/tiny",
)
BLOCKS = 3
UNITS = len(CASES) * BLOCKS


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnSlurm]:
    with OwnSlurm(tmp_path / "slurm") as found:
        yield found


def start(results: Path, python: Path, blocks: int = BLOCKS) -> subprocess.Popen[str]:
    asked = [
        *CASES,
        "--blocks",
        str(blocks),
        "--rounds",
        "2",
        "--env",
        str(python),
        "--results",
        str(results),
    ]
    command = [*COMMAND, "run", *asked, "--on", "slurm", "--slurm", "time=10"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def until(there: Callable[[], object], limit_s: float = 240.0) -> None:
    end = time.monotonic() + limit_s
    while not there():
        assert time.monotonic() < end
        time.sleep(0.1)


def began(results: Path) -> list[str]:
    return [
        line
        for node in ("n1", "n2")
        for line in log(results, node).splitlines()
        if " began: " in line
    ]


def log(results: Path, node: str) -> str:
    file = results / NODES / node / LOG
    return file.read_text() if file.exists() else ""


def spans(log: str) -> list[tuple[datetime, datetime]]:
    """When units began and ended on a node; one that was killed ends where the next begins."""
    found: list[tuple[datetime, datetime]] = []
    open_since: datetime | None = None
    for line in log.splitlines():
        when = datetime.fromisoformat(line.split()[0])
        if " began: " in line:
            open_since = when
        elif open_since:
            found.append((open_since, when))
            open_since = None
    return found


@pytest.mark.slurm
def test_nothing_is_lost_by_a_killed_job_a_lost_node_a_drained_node_and_a_controller_restarted(
    own: OwnSlurm, tmp_path: Path, results: Path
) -> None:
    process = start(results, fake_environment("engine/failing_worker.py", tmp_path).python)
    until(lambda: len(own.running()) == 2 and len(began(results)) == 2)
    own.ask("scancel", next(iter(own.running())))  # a job is killed
    until(lambda: len(began(results)) >= 3)
    own.stop("controller")  # the controller is restarted, and away for a while
    time.sleep(2)
    own.start_controller()
    until(
        lambda: (
            own.resume()
            or all(log(results, node).count(" ended with 0: ") for node in ("n1", "n2"))
        )
    )
    until(lambda: "n2" in own.running().values())
    lost = next(job for job, node in own.running().items() if node == "n2")
    # a node is lost, and its job is requeued
    own.ask("scontrol", "update", "nodename=n2", "state=down", "reason=test")
    until(lambda: own.running().get(lost) != "n2")
    # a node takes no more jobs
    own.ask("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    own.resume("n2")
    until(lambda: own.hasten() or process.poll() is not None, 600)
    message = process.communicate()[0]
    assert process.returncode == 0, message
    assert f"{UNITS} of {UNITS} units are done" in message
    assert len(list((results / NODES).glob("*/.done-*"))) == UNITS

    files = dict(store.read_files(results))
    variants: dict[str, set[str]] = defaultdict(set)
    for r in files.values():
        assert r.turns
        variants[r.turns.block].add(r.case)
        assert r.provenance.calibration
    whole = [block for block, found in variants.items() if len(found) == 2]
    assert len(whole) >= UNITS
    assert {r.provenance.node or r.provenance.machine for r in files.values()} == {"n1", "n2"}
    for node in ("n1", "n2"):
        found = spans(log(results, node))
        assert found
        assert all(a[1] <= b[0] for a, b in pairwise(found))


@pytest.mark.slurm
def test_real_frameworks_in_their_pinned_environments(own: OwnSlurm, results: Path) -> None:
    """A block for each framework, JAX's with PyTorch's baseline in it.

    A job prepares the environments first.
    """
    process = subprocess.Popen(
        [
            *COMMAND,
            "run",
            "transformer/{torch,jax}/train/fp32/b4/tiny",
            "--rounds",
            "2",
            "--results",
            str(results),
            "--on",
            "slurm",
            "--slurm",
            "time=30",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    until(lambda: own.hasten() or process.poll() is not None, 900)
    message = process.communicate()[0]
    assert process.returncode == 0, message
    blocks: dict[str, list[str]] = defaultdict(list)
    for r in store.read_all(results):
        assert r.usable, "verified and proven"
        assert r.turns
        assert len(r.step_s) == 2
        blocks[r.turns.block].append(r.parsed.framework)
    assert sorted(sorted(found) for found in blocks.values()) == [["jax", "torch"], ["torch"]]
    assert all(
        any(r.peaks for r in store.read_all(results) if r.parsed.framework == name)
        for name in ("jax", "torch")
    )


@pytest.mark.slurm
def test_what_is_done_is_not_measured_again_and_what_is_queued_not_submitted_again(
    own: OwnSlurm, tmp_path: Path, results: Path
) -> None:
    python = fake_environment("engine/failing_worker.py", tmp_path).python
    first = start(results, python, 1)
    until(lambda: len(began(results)) == 2)
    first.send_signal(signal.SIGINT)  # the command is gone, the jobs are not
    first.communicate()
    assert first.returncode == 130
    for _ in range(2):
        again = start(results, python, 1)
        message, _ = again.communicate(timeout=600)
        assert again.returncode == 0, message
    assert len(began(results)) == 2
    assert "0 records were added" in message


@pytest.mark.slurm
def test_units_wait_for_the_environments_of_each_kind_of_node(
    own: OwnSlurm, tmp_path: Path, results: Path
) -> None:
    unit = RunRequest(
        (CASES[0],),
        None,
        Options(rounds=2),
        str(fake_environment("engine/failing_worker.py", tmp_path).python),
        block=0,
    )
    (results / NODES).mkdir(parents=True)
    jobs, code = slurm.Jobs(results, {"time": 10}, lambda _: None), provenance.name_code()
    (setup,) = slurm.prepare([unit], jobs, ["nothing"])  # both nodes are of one kind
    slurm.submit([unit], jobs, [setup], code)
    assert "Dependency" in own.ask("squeue", "-h", "-o", "%r")
    until(lambda: not select_unfinished([unit], results, code))
    assert "nothing" in (results / slurm.FOLDER / f"{setup}_0_log.err").read_text()


def test_a_usable_node_of_each_kind_is_prepared() -> None:
    lines = [
        "n1|2|1000|a,b|(null)|down*",
        "n2|2|1000|a,b|(null)|idle",
        "n3|2|1000|a,b|(null)|idle",
        "n4|4|1000|c|gpu:1|mix",
    ]
    assert select_nodes("\n".join(lines)) == ["n2", "n4"]
    assert select_nodes("\n".join(lines), "c") == ["n4"]


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A Slurm whose commands are scripts, by name; `calls` is a file that they may write into."""

    def play(**scripts: str) -> Path:
        for name, script in {
            "srun": "",
            "squeue": "",
            "sinfo": "echo 'n1|2|1000|a|(null)|idle'",
            **scripts,
        }.items():
            file = tmp_path / "bin" / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
            file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        (tmp_path / "results" / NODES).mkdir(parents=True)
        return tmp_path / "results"

    return play


def test_a_refused_job_is_reported(played: Callable[..., Path]) -> None:
    results, message = played(sbatch="echo 'Invalid account' >&2; exit 1"), list[str]()
    with pytest.raises(slurm.SetupError, match="Slurm took no job"):
        slurm.measure(
            [RunRequest((CASES[0],), None, block=0)],
            slurm.Jobs(results, say=message.append),
            ["torch"],
        )
    assert any("nothing is prepared on n1" in sentence for sentence in message)


def test_a_controller_that_is_away_has_not_lost_its_jobs(
    played: Callable[..., Path], tmp_path: Path
) -> None:
    unit, message = RunRequest((CASES[0],), None, block=0), list[str]()
    mark = unit.mark(provenance.name_code())
    script = (
        "echo >> calls; case $(wc -l < calls) in 1) exit 1;; [23]) echo '7|None';; *) touch "
        f"results/{mark};; esac"
    )
    results = played(squeue=script, sbatch="touch submitted; exit 1")
    jobs = slurm.Jobs(results, say=message.append, poll_s=0.01)
    jobs.file.parent.mkdir()
    jobs.write_ids({mark: "7"})
    assert slurm.measure([unit], jobs, ["torch"]) == []
    assert not (tmp_path / "submitted").exists()
    assert "does not answer" in message[0]


def test_missing_slurm_is_reported_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(slurm.SetupError, match="plan --shell"):
        slurm.read_queue()
