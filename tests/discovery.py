"""What asv discovers."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from asv.benchmarks import Benchmarks
from asv.config import Config

from tests.processes import ROOT, run_process


def discover_benchmarks(root: Path, profile: str = "quick") -> dict[str, Any]:
    """Return what asv discovers under a profile, as it stores it."""
    (root / "results/asv").mkdir(parents=True, exist_ok=True)
    config = Config()
    config.benchmark_dir, config.results_dir = str(ROOT / "benchmarks"), str(root / "results/asv")
    listed = Benchmarks(config, json.loads(list_benchmarks(profile)))
    listed.save()
    return listed


@cache  # a process that imports the suite
def list_benchmarks(profile: str) -> str:
    script = (
        "from asv_runner.discovery import list_benchmarks\n"
        f"list_benchmarks({str(ROOT / 'benchmarks')!r}, sys.stdout)"
    )
    variables = {"PYTHONPATH": str(ROOT), "FRAMEBENCH_PROFILE": profile}
    command = [sys.executable, "-c", f"import sys\n{script}"]
    return run_process(command, **variables).stdout
