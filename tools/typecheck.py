"""Run mypy over what imports a framework, by that framework's own environment.

An environment is built if there is none yet.
"""

from __future__ import annotations

import subprocess
import sys

from framebench.engine import environments
from framebench.records.provenance import ROOT

FILES = {  # what mypy's `exclude` in pyproject.toml keeps from the control environment
    "torch": (
        "framebench/adapters/torch/*.py",
        "framebench/models/*/torch_*.py",
        "framebench/**/torch_*.py",
        "framebench/budget/predict/worker.py",
        "studies/*/torch_*.py",
    ),
    "jax": (
        "framebench/adapters/jax/*.py",
        "framebench/models/*/flax_*.py",
        "framebench/models/flax_*.py",
        "framebench/**/jax_*.py",
        "framebench/**/flax_*.py",
        "studies/foreign_models/models/flax_*.py",
    ),
    "jittor": (
        "framebench/adapters/jittor/*.py",
        "framebench/models/*/jittor_*.py",
        "framebench/**/jittor_*.py",
    ),
}


def check(framework: str) -> int:
    """Check a framework's files, and return mypy's exit status. Raises SetupError."""
    python = environments.ensure(framework, say=print).python
    files = []
    for pattern in FILES[framework]:
        files += [str(file.relative_to(ROOT)) for file in ROOT.glob(pattern)]
    cache = f".mypy_cache/{framework}"
    # what these files import is checked by the control environment, which has its packages
    options = ["--follow-imports", "silent", "--cache-dir", cache]
    mypy = [sys.executable, "-m", "mypy", "--python-executable", str(python), *options]
    print(f"{framework}: ", end="", flush=True)
    return subprocess.run([*mypy, *files], cwd=ROOT).returncode


if __name__ == "__main__":
    try:
        sys.exit(max([check(framework) for framework in FILES]))
    except environments.SetupError as error:
        sys.exit(str(error))
