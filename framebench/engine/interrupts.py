"""Signals that end a command in order: its children end, and its temporary folders go."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator

REPEAT_S = 0.01  # after which an ignored interrupt is repeated


@contextlib.contextmanager
def interrupt_on_ending_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt in this context, as Ctrl-C does.

    SIGHUP does not if nohup lets it be ignored. Only the main thread may enter the context. Python
    ignores what is raised while it runs a finalizer or a handler of a fork: such an interrupt is
    repeated.
    """
    numbers = [signal.SIGTERM, signal.SIGHUP]
    handled = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    hook = sys.unraisablehook

    def repeat_ignored(ignored: sys.UnraisableHookArgs) -> None:
        """Have the signal SIGALRM sent soon for an ignored interrupt; report another exception."""
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, REPEAT_S)
        else:
            hook(ignored)

    for number in handled:
        signal.signal(number, signal.default_int_handler)
    alarm = signal.signal(signal.SIGALRM, signal.default_int_handler)
    sys.unraisablehook = repeat_ignored
    try:
        yield
    finally:
        sys.unraisablehook = hook
        pending_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
        if pending_s:  # an ignored interrupt was still to be repeated
            raise KeyboardInterrupt
