"""Build step of the wheel: of the results, it has the published ones. The rest is pyproject.toml's.

`framebench/results` is a link to `results/`, where whoever measures in a clone has records of their
own as well. Published are the files that git tracks.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results"
REPOSITORY = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")


class BuildPublished(build_py):
    """Copy the package and its data, without results that git does not track."""

    def find_data_files(self, package: str, src_dir: str) -> list[str]:
        """Return the data files of a package, relative to the root."""
        files = super().find_data_files(package, src_dir)
        tracked = list_tracked_results()
        if tracked is None:
            return files
        published = []
        for file in files:
            path = (ROOT / file).resolve()
            if not path.is_relative_to(RESULTS) or path in tracked:
                published.append(file)
        return published


def list_tracked_results() -> set[Path] | None:
    """Return the results that git tracks, or None in a copy without git's folder.

    None too, with a warning, where git is not installed or refuses the clone.
    """
    if not (ROOT / ".git").exists():
        return None
    # a hook of git, and what it starts, is told of a repository that may be another one
    env = {name: value for name, value in os.environ.items() if name not in REPOSITORY}
    command = ["git", "ls-files", "-z", "--", "results"]
    try:
        listed = subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"warning: all results go into the package, tracked by git or not: {error}")
        return None
    return {ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name}


setup(cmdclass={"build_py": BuildPublished})
