"""What articles print, tried: each file of `examples/articles` in a process of its own, and what it printed or how it ended."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from framebench.claims.needs import listing
from framebench.engine.environments import Environment, import_path

Numbers = dict[str, float]
TIME_LIMIT_S = 600.0


def snippets() -> list[Path]:
    """`<framework>_<what>.py`."""
    return sorted(listing("").parent.glob("*.py"))


def framework_of(snippet: Path) -> str:
    return snippet.stem.partition("_")[0]


def tried(snippet: Path, environment: Environment) -> tuple[Numbers, str]:
    """The numbers of its last line, and the error with which it ended, if it did."""
    variables = {**os.environ, **environment.variables(), "PYTHONPATH": import_path(None), "OMP_NUM_THREADS": "1"}
    variables.pop("log_silent", None)  # in silence Jittor's own errors end nothing
    command = [str(environment.python), "-P", str(snippet)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=TIME_LIMIT_S)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    numbers: Numbers = json.loads(lines[-1]) if lines else {}
    return numbers, _error(done.stderr) if "Traceback" in done.stderr and done.returncode else ""


def _error(errors: str) -> str:
    """The line of a traceback that names the exception, without colours, times and places of this machine."""
    named = [line for line in re.sub(r"\x1b\[[\d;]*m", "", errors).splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line)]
    last = (named or ["ended with an error that has no name"])[-1]
    return re.sub(r"/\S+/|\[[a-z] \d{4} [^]]*\] *", "", last).strip()[:200]
