"""Callbacks for functions under test."""

from __future__ import annotations

import pytest

from framebench.engine.blocks import Listener
from framebench.records.record import Record
from framebench.suite.case import Case


def ignore(*_: object, **__: object) -> None:
    """Take any arguments, and do nothing."""


def refuse_work(*_: object, **__: object) -> None:
    """Fail the test: a mistake must be noticed before this is called."""
    pytest.fail("work was begun")


class InterruptingListener(Listener):
    """Ctrl-C once so many records are written, or once so many phases have begun."""

    def __init__(self, records: int = 99, phases: int = 9999) -> None:
        self.records_left = records
        self.phases_left = phases

    def on_phase(self, case: Case, what: str) -> None:
        self.phases_left -= 1
        if self.phases_left < 0:
            raise KeyboardInterrupt

    def on_done(self, record: Record) -> None:
        self.records_left -= 1
        if not self.records_left:
            raise KeyboardInterrupt
