"""A user's repository may have folders and files with the names of ours, and be on PYTHONPATH."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from framebench.suite.user_file import hash_sources, load_file
from tests.marks import rarely
from tests.processes import COMMAND, ROOT, run_process

REPOSITORY = ROOT / "tests/user_model/repository"


def try_in_folder(
    file: str, results: Path, cwd: Path, path: str = ""
) -> subprocess.CompletedProcess[str]:
    options = ["--rounds=0", "--blocks=1", "--strategies=checkpoint", "--results", results]
    folders = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH", "")]))
    return run_process([*COMMAND, "try", file, *options], cwd, code=None, PYTHONPATH=folders)


@pytest.mark.slow
@pytest.mark.parametrize("on_path", [rarely(False), True])
def test_modules_of_the_user_shadow_those_of_framebench(on_path, tmp_path):
    where = tmp_path if on_path else REPOSITORY
    done = try_in_folder(
        str(REPOSITORY / "train.py"),
        tmp_path / "results",
        where,
        str(REPOSITORY) if on_path else "",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checkpoint" in done.stdout


def test_import_errors_name_the_file_of_the_user(tmp_path):
    done = try_in_folder("missing.py", tmp_path, REPOSITORY)
    message = " ".join(done.stderr.split())
    assert done.returncode == 2, message
    assert re.search(
        r"missing\.py:\d: ImportError: cannot import name 'Absent' from 'models'", message
    ), message
    assert str(REPOSITORY / "models") in message


def test_nothing_is_left_next_to_the_files_of_the_user(tmp_path, monkeypatch):
    """Python would leave byte code of the file, and of all that it imports, also later."""
    for name in ("path", "path_hooks"):
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    for name in ("modules", "path_importer_cache"):
        monkeypatch.setattr(sys, name, dict(getattr(sys, name)))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    package = tmp_path / "parts_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("WIDTH = 8\n")
    (package / "layer_of_mine.py").write_text("DEPTH = 2\n")
    (tmp_path / "helper_of_mine.py").write_text("HEADS = 4\n")
    file = tmp_path / "mine.py"
    file.write_text(
        "from helper_of_mine import HEADS\n"
        "def model():\n"
        "    from parts_of_mine.layer_of_mine import DEPTH\n"
        "    return HEADS * DEPTH\n"
    )

    assert load_file(str(file)).model() == 8

    assert not list(tmp_path.rglob("__pycache__"))


def test_a_changed_module_of_the_user_changes_the_hash_of_the_sources(tmp_path, monkeypatch):
    """An interrupted `try` goes on only where all that is the user's is as it was."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    file, helper = tmp_path / "mine.py", tmp_path / "helper_of_mine.py"
    helper.write_text("WIDTH = 8\n")
    file.write_text("import json\nfrom helper_of_mine import WIDTH\n")
    load_file(str(file))
    hashes = [hash_sources(), hash_sources()]
    helper.write_text("WIDTH = 16\n")
    hashes.append(hash_sources())
    file.write_text("from helper_of_mine import WIDTH\n")
    hashes.append(hash_sources())
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
