"""framebench is used from a checkout; a copy that pip has put elsewhere says so."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.processes import ROOT


def test_a_wheel_says_where_framebench_works(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    shutil.copytree(ROOT / "framebench", source / "framebench", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("models", "analysis"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(target), str(source))
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-m", "framebench.cli", "list"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
    )
    said = (
        "framebench: this copy has no requirements/: framebench is used from a checkout; clone it, and call `make setup` there"
    )
    assert (done.returncode, done.stdout, " ".join(done.stderr.split())) == (2, "", said)
