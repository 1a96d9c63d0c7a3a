"""Signals that end a command in order: its children end, and its temporary folders go."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def interrupt_on_ending_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt in this context, as Ctrl-C does.

    A signal that is handled or ignored already, as SIGHUP is under nohup, stays so. Only the main
    thread may enter the context.
    """
    numbers = [signal.SIGTERM, signal.SIGHUP]
    handled = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in handled:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
