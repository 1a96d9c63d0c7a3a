"""mypy leaves out no file: what the control environment cannot check, exactly one framework's
environment does.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

from tests.processes import ROOT
from tools.typecheck import FILES


def test_every_file_is_checked_once():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    excluded = set()
    for file in list_files(settings["packages"]):
        if any(re.search(pattern, str(file)) for pattern in settings["exclude"]):
            excluded.add(file)

    by_framework = Counter()
    for patterns in FILES.values():
        for pattern in patterns:
            by_framework.update(ROOT.glob(pattern))

    assert len(excluded) > 30
    assert by_framework == dict.fromkeys(excluded, 1)


def list_files(packages: list[str]) -> set[Path]:
    """Return the files of the packages; mypy checks none of the studies' tests."""
    files = set()
    for package in packages:
        for file in (ROOT / package).rglob("*.py"):
            if "tests" not in file.relative_to(ROOT).parts:
                files.add(file)
    # a link, which rglob does not enter in every version of Python
    for file in (ROOT / "models").rglob("*.py"):
        files.add(ROOT / "framebench" / "models" / file.relative_to(ROOT / "models"))
    return files
