"""Who measures now, and which runs were interrupted: two files in the results folder that know nothing of each other.

The lock is held by whoever starts workers that measure; the kernel takes it back however its holder ends. A session is one run
of the suite: its file lies there until the run comes to its end, so that the next one of the same code and selection goes on.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from framebench.records import provenance, store

LOCK = ".lock"


class Busy(Exception):
    """Another process is measuring into the same results folder; the message says which, and what to do."""


@contextmanager
def alone(results: Path) -> Iterator[None]:
    """Hold the results folder meanwhile.

    Raises Busy if another process does, OSError if nothing can be written there, and BadMachine if what this machine is called
    cannot name a folder in it.
    """
    provenance.machine_name()
    results.mkdir(parents=True, exist_ok=True)
    file = results / LOCK
    try:
        held = FileLock(file).acquire(blocking=False)
    except Timeout:
        raise Busy(
            f"{_holder(file)} is measuring into {results}; two at once would disturb each other's times. Wait for it, or stop "
            f"it, or name another folder with --results"
        ) from None
    with held:
        file.write_text(f"process {os.getpid()} ({provenance.command()})\n")
        yield


def _holder(file: Path) -> str:
    """Whoever wrote into the lock that is held now, if that can be told."""
    try:
        return file.read_text(errors="replace").strip()[:200] or "another process"
    except OSError:
        return "another process"


@dataclass(frozen=True)
class Session:
    id: str
    code: str | None  # other code is another session
    selector: str

    @classmethod
    def open(cls, results: Path, code: str | None, selector: str) -> Session:
        """A new session, or the unfinished one of the same code and selector. Raises OSError if it cannot be written.

        Whoever opens one holds the folder (`alone`).
        """
        if left := cls.unfinished(results, code, selector):
            return left
        session = cls(secrets.token_hex(6), code, selector)
        session.path(results).write_text(json.dumps(asdict(session)))
        return session

    @classmethod
    def unfinished(cls, results: Path, code: str | None, selector: str) -> Session | None:
        """What an interrupted run of this code and selector left; None if there is nothing, or nothing that can be read."""
        try:
            left = cls(**json.loads(cls("", code, selector).path(results).read_text()))
        except (OSError, ValueError, TypeError):
            return None
        is_same_run = isinstance(left.id, str) and (left.code, left.selector) == (code, selector)
        return left if is_same_run else None

    def path(self, results: Path, state: str = "session") -> Path:
        """Its own file, which other commands leave alone."""
        asked = json.dumps([self.code, self.selector])
        return results / f".{state}-{hashlib.sha256(asked.encode()).hexdigest()[:12]}.json"

    def kept(self, results: Path) -> bool:
        """Whether anything that it measured is there: a record of its own, or a probe of the claims since it began."""
        began = self.path(results).stat().st_mtime
        records, probes = (
            [path for path in (results / folder).rglob("*.json") if path.stat().st_mtime >= began]
            for folder in ("records", "claims")
        )
        return bool(probes) or any(store.of_session(path.parent, self.id) for path in records)

    def close(self, results: Path, keep: bool = False) -> None:
        """Finished: the next run starts a new session. With `keep` a file tells of it afterwards. Raises OSError if
        the file cannot be removed."""
        if keep:
            os.replace(self.path(results), self.path(results, "done"))
        self.path(results).unlink(missing_ok=True)
