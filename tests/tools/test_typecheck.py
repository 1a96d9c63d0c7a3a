"""mypy leaves out no file: what the control environment cannot check, exactly one framework's environment does."""

from __future__ import annotations

import re
import tomllib
from collections import Counter

from tests.processes import ROOT
from tools.typecheck import FILES


def test_every_file_is_checked_once() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    files = [file for package in settings["packages"] for file in (ROOT / package).rglob("*.py")]
    files = [file for file in files if "tests" not in file.relative_to(ROOT).parts]  # mypy checks none of the studies' tests
    linked = ROOT / "framebench" / "models"  # which rglob does not enter in every version of Python
    files = [*{*files, *(linked / file.relative_to(ROOT / "models") for file in (ROOT / "models").rglob("*.py"))}]
    excluded = [file for file in files if any(re.search(pattern, str(file)) for pattern in settings["exclude"])]
    by_framework = Counter(file for patterns in FILES.values() for pattern in patterns for file in ROOT.glob(pattern))
    assert by_framework == dict.fromkeys(excluded, 1)
    assert len(excluded) > 30
