"""A session is one run of the suite. When it is interrupted, the next run goes on with it and measures only what is missing."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

FILE = ".session.json"


class Busy(Exception):
    """Another run is measuring into the same results folder."""


@dataclass(frozen=True)
class Session:
    id: str
    code: str | None  # other code is another session
    selector: str
    pid: int
    pid_started: float

    @staticmethod
    def path(results: Path) -> Path:
        return results / FILE

    @classmethod
    def open(cls, results: Path, code: str | None, selector: str) -> Session:
        """A new session, or the unfinished one of the same code and selector. Raises Busy while its owner lives."""
        last = cls.load(results)
        if last and last.alive() and last.pid != os.getpid():
            raise Busy(
                f"process {last.pid} is measuring into {results} since an earlier start; two runs would disturb each "
                f"other's times. Wait for it, or stop it, or name another folder with --results"
            )
        resumed = last and (last.code, last.selector) == (code, selector)
        session = cls(last.id if last and resumed else secrets.token_hex(6), code, selector, *me())
        results.mkdir(parents=True, exist_ok=True)
        cls.path(results).write_text(json.dumps(asdict(session)))
        return session

    @classmethod
    def load(cls, results: Path) -> Session | None:
        """The session on disk, if there is a readable one."""
        try:
            return cls(**json.loads(cls.path(results).read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def alive(self) -> bool:
        try:
            return psutil.Process(self.pid).create_time() == self.pid_started
        except psutil.Error:
            return False

    def close(self, results: Path) -> None:
        """Finished: the next run starts a new session."""
        self.path(results).unlink(missing_ok=True)


def me() -> tuple[int, float]:
    return os.getpid(), psutil.Process().create_time()
