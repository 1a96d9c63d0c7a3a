"""A Slurm of a test's own, on this host: a controller and two nodes, each a `slurmd -N`, none of
them the system's.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
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


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def wait_until(is_there: Callable[[], object], limit_s: float = 600.0) -> None:
    """Wait until something is there; fail after so many seconds."""
    end = time.monotonic() + limit_s
    while not is_there():
        assert time.monotonic() < end
        time.sleep(0.1)


class OwnSlurm:
    """Use as a context; SLURM_CONF, which it sets, lets Slurm's commands find it.

    The test is skipped where Slurm's programs are missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> OwnSlurm:
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            pytest.skip(f"no {', '.join(missing)} here (Debian: apt-get install slurm-wlm munge)")
        for name in ("state", *(f"spool.{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        host = socket.gethostname().split(".")[0]
        lines = []
        for node in NODES:
            lines.append(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} "
                f"CPUs={os.cpu_count()} RealMemory=500"
            )
        text = CONFIGURATION.format(
            host=host,
            controller=free_port(),
            user=getpass.getuser(),
            folder=self.folder,
            nodes="\n".join(lines),
        )
        (self.folder / "slurm.conf").write_text(text)
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
        try:
            self.start_munge()
            self.start_controller()
            for node in NODES:
                self.start(node, "slurmd", "-D", "-N", node)
            wait_until(lambda: self.ask("sinfo", "-h", "-N", "-o", "%t").count("idle") == 2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if "controller" in self.processes:  # jobs outlive the daemons that started them
            self.ask("scancel", "--me")
            with suppress(AssertionError):
                wait_until(lambda: not self.ask("squeue", "-h"), 10)
        for name in reversed(list(self.processes)):
            self.stop(name)
        os.environ.pop("SLURM_CONF", None)

    def start_munge(self) -> None:
        """Start the daemon by which Slurm's programs know each other."""
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        options = [f"--key-file={key}"]
        for name in ("socket", "pid-file", "log-file", "seed-file"):
            options.append(f"--{name}={self.folder / 'munge'}.{name.removesuffix('-file')}")
        self.start("munge", "munged", "--foreground", "--force", *options)
        wait_until((self.folder / "munge.socket").exists)

    def start_controller(self) -> None:
        """Start Slurm's controller."""
        self.start("controller", "slurmctld", "-D")

    def start(self, name: str, *command: str) -> None:
        """Start a daemon."""
        with (self.folder / f"{name}.out").open("ab") as out:
            self.processes[name] = subprocess.Popen(
                command, stdout=out, stderr=out, start_new_session=True
            )

    def stop(self, name: str) -> None:
        """End a daemon."""
        process = self.processes.pop(name)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()

    def ask(self, *command: str) -> str:
        """Return what one of Slurm's commands prints."""
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout

    def list_running(self) -> dict[str, str]:
        """Return the nodes of the jobs that run now, by id."""
        lines = self.ask("squeue", "-h", "-r", "-t", "R", "-o", "%i %N").splitlines()
        return dict(line.split() for line in lines if len(line.split()) == 2)

    def hasten(self) -> None:
        """Let requeued jobs start now, which wait for two minutes otherwise."""
        for line in self.ask("squeue", "-h", "-r", "-t", "PD", "-o", "%i %r").splitlines():
            if line.endswith("BeginTime"):
                self.ask("scontrol", "update", f"jobid={line.split()[0]}", "starttime=now")

    def resume(self, *nodes: str) -> None:
        """Do what an operator does: Slurm drains a node where a job cannot be started or ended."""
        for node in nodes or NODES:
            self.ask("scontrol", "update", f"nodename={node}", "state=resume")
