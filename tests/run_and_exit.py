"""Run a program and leave at once, as the worker does: Jittor's clean-up at exit sometimes crashes.

`python run_and_exit.py PROGRAM ARGUMENTS`
"""

from __future__ import annotations

import os
import runpy
import sys

sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
sys.stdout.flush()
os._exit(0)
