"""Git repositories of a test's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.processes import ROOT

AUTHOR = ("-c", "user.name=test", "-c", "user.email=test@localhost")


def run_git(folder: Path, *arguments: str) -> str:
    """Return what a command of git prints in a folder; what it commits is by a made-up author."""
    done = subprocess.run(
        ["git", *AUTHOR, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit_all(folder: Path) -> None:
    """Make a repository of a folder, with a commit of everything in it."""
    run_git(folder, "init", "-q")
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-q", "-m", "all")


def copy_project(where: Path) -> Path:
    """Clone the project, with uncommitted changes of tracked files; results are those of HEAD."""
    run_git(ROOT, "clone", "-q", str(ROOT), str(where))
    for name in run_git(ROOT, "ls-files").splitlines():
        if (ROOT / name).is_file() and not name.startswith("results/"):
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, where / name)
    return where
