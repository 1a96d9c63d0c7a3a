"""What articles print, as programs in `examples/articles`: each runs in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from framebench.engine.environments import Environment, import_path
from framebench.records.provenance import ROOT

FOLDER = ROOT / "examples" / "articles"
TIME_LIMIT_S = 600.0


def find_listing(name: str) -> Path:
    """Return the file of what an article prints: `<framework>_<what>`."""
    return FOLDER / f"{name}.py"


def framework_of(listing: Path) -> str:
    """Return the framework that a listing is written for."""
    return listing.stem.partition("_")[0]


def run_listing(listing: Path, environment: Environment) -> tuple[dict[str, float], str]:
    """Return the numbers of a listing's last line, and the error with which it ended, if it did."""
    variables = {
        **os.environ,
        **environment.variables(),
        "PYTHONPATH": import_path(None),
        "OMP_NUM_THREADS": "1",
    }
    variables.pop("log_silent", None)  # in silence Jittor's own errors end nothing
    command = [str(environment.python), "-P", str(listing)]
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=TIME_LIMIT_S
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    numbers: dict[str, float] = json.loads(lines[-1]) if lines else {}
    failed = done.returncode and "Traceback" in done.stderr
    return numbers, find_error(done.stderr) if failed else ""


def find_error(errors: str) -> str:
    """Return the line of a traceback that names the exception.

    Colours, times and places of this machine are left out.
    """
    lines = re.sub(r"\x1b\[[\d;]*m", "", errors).splitlines()
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    last = named[-1] if named else "ended with an error that has no name"
    return re.sub(r"/\S+/|\[[a-z] \d{4} [^]]*\] *", "", last).strip()[:200]
