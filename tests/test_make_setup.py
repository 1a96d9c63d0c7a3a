"""What `make setup` installs, and what it says when it is done."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.processes import ROOT, framebench, run_process


def test_make_setup_says_what_comes_next(tmp_path: Path):
    """Every command that it names is one, and is found after the activation."""
    ready = tmp_path / ".ready"
    ready.touch()
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-C", str(ROOT), "-o", str(ready), f"VENV={tmp_path}", "setup"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert f"source {tmp_path}/bin/activate" in done.stdout
    commands = re.findall(r"^  framebench (\w+)", done.stdout, re.MULTILINE)
    assert commands
    for name in commands:
        framebench(name, "--help", code=0)


def test_a_script_beside_a_clone_of_that_name_imports_the_package(tmp_path: Path):
    """Without an installation by path Python takes the clone's folder for a package."""
    (tmp_path / "framebench").symlink_to(ROOT)
    code = "import framebench; print(framebench.__file__)"
    done = run_process([sys.executable, "-c", code], tmp_path, PYTHONPATH="")
    assert done.stdout.strip() == str(ROOT / "framebench" / "__init__.py")
