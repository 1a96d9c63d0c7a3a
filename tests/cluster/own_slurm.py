"""A Slurm of a test's own, on this host: a controller and two nodes, each a `slurmd -N`, none of
them the system's.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

NODES = ("n1", "n2")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=30
KillWait=5
InactiveLimit=0
MinJobAge=60
{nodes}
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=60 State=UP OverSubscribe=EXCLUSIVE
"""


def require_slurm() -> None:
    """Skip the test, with the reason, where Slurm's programs are missing."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(
            f"no Slurm here: {', '.join(missing)} not found (Debian: apt-get install "
            "slurm-wlm munge)"
        )


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class OwnSlurm:
    """Use as a context; SLURM_CONF, which it sets, lets Slurm's commands find it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, dict[str, subprocess.Popen[bytes]]()
        self.configuration = folder / "slurm.conf"

    def __enter__(self) -> OwnSlurm:
        require_slurm()
        for name in ("state", *(f"spool.{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        host, cores = socket.gethostname().split(".")[0], os.cpu_count() or 1
        lines = (
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} "
            f"CPUs={cores} RealMemory=500"
            for node in NODES
        )
        text = CONFIGURATION.format(
            host=host,
            controller=free_port(),
            user=getpass.getuser(),
            folder=self.folder,
            nodes="\n".join(lines),
        )
        self.configuration.write_text(text)
        os.environ["SLURM_CONF"] = str(self.configuration)
        try:
            self.start_munge()
            self.start_controller()
            for node in NODES:
                self.start(node, "slurmd", "-D", "-N", node)
            self.until(lambda: self.states().count("idle") == len(NODES), "its nodes are not idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if "controller" in self.processes:  # jobs outlive the daemons that started them
            self.ask("scancel", "--me")
            for _ in range(50):
                if not self.ask("squeue", "-h"):
                    break
                time.sleep(0.2)
        for name in reversed(list(self.processes)):
            self.stop(name)
        os.environ.pop("SLURM_CONF", None)

    def start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        own = {name: self.folder / f"munge.{name}" for name in ("socket", "pid", "log", "seed")}
        files = [
            "--socket",
            own["socket"],
            "--pid-file",
            own["pid"],
            "--log-file",
            own["log"],
            "--seed-file",
            own["seed"],
        ]
        self.start(
            "munge", "munged", "--foreground", "--force", "--key-file", str(key), *map(str, files)
        )
        self.until(own["socket"].exists, "munge does not start")

    def start_controller(self) -> None:
        self.start("controller", "slurmctld", "-D")

    def start(self, name: str, *command: str) -> None:
        program = shutil.which(command[0])
        assert program
        with (self.folder / f"{name}.out").open("ab") as out:
            self.processes[name] = subprocess.Popen(
                [program, *command[1:]], stdout=out, stderr=out, start_new_session=True
            )

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        process = self.processes.pop(name)
        with suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()

    def until(self, there: object, otherwise: str, limit_s: float = 30.0) -> None:
        """Skips the test, with the reason, if that does not come."""
        end = time.monotonic() + limit_s
        while not there():  # type: ignore[operator]
            if time.monotonic() > end:
                logs = "\n".join(
                    f"{p.name}: {p.read_text(errors='replace')[-600:]}"
                    for p in self.folder.glob("*.out")
                )
                pytest.skip(f"Slurm cannot be started here: {otherwise}\n{logs}")
            time.sleep(0.2)

    def ask(self, *command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout

    def states(self) -> list[str]:
        return self.ask("sinfo", "-h", "-N", "-o", "%t").split()

    def running(self) -> dict[str, str]:
        """Nodes of the jobs that run now, by id."""
        lines = self.ask("squeue", "-h", "-r", "-t", "R", "-o", "%i %N").splitlines()
        return dict(line.split() for line in lines if len(line.split()) == 2)

    def hasten(self) -> None:
        """Jobs that were requeued wait for two minutes otherwise."""
        for line in self.ask("squeue", "-h", "-r", "-t", "PD", "-o", "%i %r").splitlines():
            if line.endswith("BeginTime"):
                self.ask("scontrol", "update", f"jobid={line.split()[0]}", "starttime=now")

    def resume(self, *nodes: str) -> None:
        """What an operator does: Slurm drains a node where a job cannot be started or ended."""
        for node in nodes or NODES:
            self.ask("scontrol", "update", f"nodename={node}", "state=resume")
