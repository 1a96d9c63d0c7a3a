"""Signals that end a command in order: its children end, and its temporary folders go."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType

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
    alarm = signal.getsignal(signal.SIGALRM)
    is_repeat_pending = False

    def interrupt_again(number: int, frame: FrameType | None) -> None:
        """Raise the interrupt that was ignored."""
        nonlocal is_repeat_pending
        is_repeat_pending = False
        raise KeyboardInterrupt

    def repeat_ignored(ignored: sys.UnraisableHookArgs) -> None:
        """Have an ignored interrupt raised again soon; report another exception."""
        nonlocal is_repeat_pending
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            hook(ignored)
            return
        is_repeat_pending = True
        # The timer is left alone until then: it may belong to the caller, who limits a test's time.
        signal.signal(signal.SIGALRM, interrupt_again)
        signal.setitimer(signal.ITIMER_REAL, REPEAT_S)

    for number in handled:
        signal.signal(number, signal.default_int_handler)
    sys.unraisablehook = repeat_ignored
    try:
        yield
    finally:
        sys.unraisablehook = hook
        if is_repeat_pending:
            signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
        if is_repeat_pending:
            raise KeyboardInterrupt
