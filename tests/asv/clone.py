"""A fresh clone of the project that asv runs in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

from framebench.engine import environments
from framebench.records import store
from framebench.records.lines import count_lines
from framebench.records.record import Record
from tests.repositories import copy_project, run_git

ASV = str(Path(sys.executable).with_name("asv"))


class Clone:
    """A clone of the project as it stands, with a home of its own for asv, sharing the machine's
    environments.
    """

    def __init__(self, where: Path) -> None:
        self.root, self.home = where / "clone", where / "home"
        self.home.mkdir()
        copy_project(self.root)
        shutil.rmtree(self.root / "results", ignore_errors=True)
        self.commit("as it stands")
        self.variables = {
            **os.environ,
            "HOME": str(self.home),
            "FRAMEBENCH_PROFILE": "tiny",
            "FRAMEBENCH_CACHE": str(environments.cache()),
        }
        assert self.asv("machine", "--yes", "--machine", "test").returncode == 0

    def commit(self, message: str) -> None:
        run_git(self.root, "add", "-A")
        run_git(self.root, "commit", "-q", "--allow-empty", "-m", message)

    def command(self, *arguments: str) -> list[str]:
        return [ASV, *arguments]

    def asv(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {**self.variables, **variables}
        return subprocess.run(
            self.command(*arguments), cwd=self.root, env=env, capture_output=True, text=True
        )

    def run(self, *bench: str) -> subprocess.CompletedProcess[str]:
        return self.asv("run", "--machine", "test", *(f"--bench={b}" for b in bench))

    def records(self) -> list[Record]:
        return list(store.read_all(self.root / "results"))

    def stored(self) -> set[tuple[Path, int]]:
        """Return asv's files and the lines of records that runs have stored."""
        stored = set()
        for path in (self.root / "results").rglob("*.json*"):
            if path.suffix == ".jsonl":
                stored.add((path, count_lines(path)))
            elif path.name != "machine.json":
                stored.add((path, 1))
        return stored

    def results(self, framework: str) -> dict[str, Any]:
        """Return asv's own numbers of benchmarks without parameters, from the framework's newest
        result file.
        """
        numbers = {}
        for name, columns in self.newest_file(framework)["results"].items():
            numbers[name] = columns[0][0] if columns[0] else None
        return numbers

    def newest_file(self, framework: str) -> dict[str, Any]:
        """Return what asv stored last for the framework's environment."""
        files = sorted(
            (self.root / "results/asv/test").glob(f"*-{framework}*.json"), key=get_modification_time
        )
        return json.loads(files[-1].read_text())

    def values(self, framework: str, benchmark: str) -> dict[tuple[str, int], Any]:
        """Return asv's own numbers by (strategy, batch), from the newest result file of the
        framework's environment.
        """
        stored = self.newest_file(framework)
        columns = dict(zip(stored["result_columns"], stored["results"][benchmark]))
        parameters = product(*columns["params"])
        values = {}
        for (strategy, batch), value in zip(parameters, columns["result"], strict=True):
            values[strategy.strip("'"), int(batch)] = value
        return values


def get_modification_time(file: Path) -> float:
    return file.stat().st_mtime
