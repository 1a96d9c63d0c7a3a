"""Keep who measures now, and which runs were interrupted, in two files of the results folder.

The lock is held by whoever starts workers that measure; the kernel releases it however its holder
ends. A session is one run of the suite: its file lies there until the run comes to its end, so that
the next run of the same code and selection goes on with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from framebench.records import provenance, store
from framebench.records.lines import parse_json

LOCK = ".lock"
ID = re.compile(r"[0-9a-f]{12}")  # of a session: it goes into variables and names of folders


class Busy(Exception):
    """Raised where another process measures into the same folder; the message says what to do."""


@contextmanager
def lock_results(results: Path) -> Iterator[None]:
    """Lock the results folder in this context, so that no other process measures into it.

    Raises Busy if another process has locked it, OSError if it cannot be written to, and BadMachine
    if the name of this machine cannot be that of a folder.
    """
    provenance.read_machine_name()
    results.mkdir(parents=True, exist_ok=True)
    file = results / LOCK
    try:
        lock = FileLock(file).acquire(blocking=False)
    except Timeout:
        raise Busy(describe_holder(results)) from None
    with lock:
        file.write_text(f"process {os.getpid()} ({provenance.describe_command()})\n")
        yield


def check_idle(results: Path) -> None:
    """Raise Busy if another process measures into the results folder, and would be disturbed.

    It is for work that writes nothing there: no folder and no file is made, and several such
    processes may run at once.
    """
    file = results / LOCK
    if not file.exists():
        return
    lock = FileLock(file)
    try:
        lock.acquire(blocking=False)
        lock.release()
    except Timeout:
        raise Busy(describe_holder(results)) from None
    except OSError:  # the folder is another user's
        return


def describe_holder(results: Path) -> str:
    """Return who measures into a results folder, and what to do about it."""
    holder = ""  # as the process with the lock has written into it, if that can be read
    with suppress(store.BadRecord):
        holder = store.read_bytes(results / LOCK).decode(errors="replace").strip()[:200]
    return (
        f"{holder or 'another process'} is measuring into {results}; two at once would disturb "
        "each other's times. Wait for it, or stop it, or name another folder with --results"
    )


@dataclass(frozen=True)
class Session:
    """One run of the suite."""

    id: str
    code: str | None  # other code is another session
    selector: str

    @classmethod
    def open(cls, results: Path, code: str | None, selector: str) -> Session:
        """Return the unfinished session of the same code and selector, or a new one.

        Whoever opens a session holds the folder's lock (`lock_results`). Raises OSError if the
        session's file cannot be written.
        """
        for leftover in results.glob(".*.tmp"):  # of a process that was killed as it wrote one
            leftover.unlink(missing_ok=True)
        unfinished = cls.find_unfinished(results, code, selector)
        if unfinished is not None:
            return unfinished
        session = cls(secrets.token_hex(6), code, selector)
        store.write_atomically(json.dumps(asdict(session)), session.find_file(results))
        return session

    @classmethod
    def find_unfinished(cls, results: Path, code: str | None, selector: str) -> Session | None:
        """Return the session that an interrupted run of this code and selector left.

        Returns None if the run left no session, or one that cannot be read.
        """
        file = cls("", code, selector).find_file(results)
        try:
            session = cls(**parse_json(store.read_bytes(file)))
        except (store.BadRecord, ValueError, TypeError):
            return None
        is_id = isinstance(session.id, str) and ID.fullmatch(session.id)
        return session if is_id else None

    def find_file(self, results: Path, state: str = "session") -> Path:
        """Return the session's file, which other commands do not touch."""
        key = json.dumps([self.code, self.selector])
        return results / f".{state}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"

    def has_results(self, results: Path) -> bool:
        """Return whether the session has written a record, or an answer to a claim.

        All files are searched for its id. Their times do not tell, since a clock may be set back.
        """
        files = store.list_answer_files(results / "claims") + store.list_files(results)
        return any(store.find_lines(file, [self.id]) for file in files)

    def close(self, results: Path, keep: bool = False) -> None:
        """End the session, so that the next run starts a new one.

        With `keep`, its file is renamed instead of removed: it shows that the session is done.
        Raises OSError if the file cannot be removed.
        """
        if keep:
            os.replace(self.find_file(results), self.find_file(results, "done"))
        self.find_file(results).unlink(missing_ok=True)
