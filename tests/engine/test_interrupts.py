"""A signal that ends a command ends it wherever it comes, and other exceptions are reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from framebench.engine.interrupts import interrupt_on_ending_signals

# Sends itself a signal, at a place whose exceptions Python ignores, and waits for its child.
INTERRUPTED = """
import os, signal, subprocess, sys
from framebench.engine.interrupts import interrupt_on_ending_signals

place, number = sys.argv[1], int(sys.argv[2])
# nohup, or a shell that starts this in the background, has it ignored
is_interrupt = number == signal.SIGINT
signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)
before = [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)]
hook = sys.unraisablehook

class Finalized:
    def __del__(self):
        if place in ("finalizer", "finalizer at the end"):
            signal.raise_signal(number)

def end_fork():
    if place == "fork":
        signal.raise_signal(number)

os.register_at_fork(after_in_parent=end_fork)
child = None  # also where a busy machine repeats the interrupt before Popen returns
nowhere = subprocess.DEVNULL  # so that the child does not hold the pipe that is read here
try:
    with interrupt_on_ending_signals():
        child = subprocess.Popen(["sleep", "60"], preexec_fn=int, stdout=nowhere, stderr=nowhere)
        Finalized()
        if place == "code":
            signal.raise_signal(number)
        if place != "finalizer at the end":
            child.wait(30)
except KeyboardInterrupt:
    if child is not None:
        child.kill()
        child.wait()
    print("interrupted")
after = [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)]
assert (after, sys.unraisablehook) == (before, hook)
"""
REPORTED = """
from framebench.engine.interrupts import interrupt_on_ending_signals

class Finalized:
    def __del__(self):
        raise ValueError("in a finalizer")

with interrupt_on_ending_signals():
    Finalized()
"""


def run_python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize("place", ["code", "fork", "finalizer", "finalizer at the end"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_where_python_ignores_exceptions(place, number):
    done = run_python(INTERRUPTED, place, str(int(number)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_another_ignored_exception_is_reported():
    done = run_python(REPORTED)
    assert done.returncode == 0
    assert "ValueError: in a finalizer" in done.stderr


def test_the_callers_timer_goes_on():
    def ring(number, frame):
        """Do nothing: the timer ends long after the test."""

    handler = signal.signal(signal.SIGALRM, ring)
    timer = signal.setitimer(signal.ITIMER_REAL, 1_000)  # of a limit on this test's time
    try:
        with interrupt_on_ending_signals():
            left_s, _ = signal.getitimer(signal.ITIMER_REAL)
            assert left_s > 900
        left_s, _ = signal.getitimer(signal.ITIMER_REAL)
        assert left_s > 900
        assert signal.getsignal(signal.SIGALRM) == ring
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
