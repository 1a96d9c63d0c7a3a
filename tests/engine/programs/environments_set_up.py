"""`FOLDER FILE`: set up an environment as the command line does, with what plays pip.

It writes its process id into the file, and has no end.
"""

import signal
import sys
from pathlib import Path

from framebench.cli import __main__ as cli
from framebench.engine.environments import run_setup

# a test run in the background may have been started with these ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

PIP = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
"""


def set_up():
    folder, started = sys.argv[1:]
    run_setup(Path(folder), [sys.executable, "-c", PIP, started], print)


cli.run_command_line = set_up
cli.main()
