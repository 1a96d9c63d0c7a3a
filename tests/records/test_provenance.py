"""What a record says about the code that measured: nothing that could have been imported goes
unseen.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from framebench.records import provenance


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A commit with one module in each package."""
    for package in (*provenance.MEASURING, "results", "studies/noise/data"):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "known.py").write_text("")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for command in (("init", "-q"), ("add", "-A"), (*author, "commit", "-q", "-m", "all")):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    return tmp_path


def test_a_commit_as_it_is(repository: Path) -> None:
    assert provenance.is_dirty() is False
    assert provenance.name_code() == provenance.find_commit()


@pytest.mark.parametrize(
    "name", ["framebench/known.py", "models/new.py", "benchmarks/deeper/new.py"]
)
def test_changed_and_new_modules_are_other_code(name: str, repository: Path) -> None:
    module, codes = repository / name, {provenance.name_code()}
    module.parent.mkdir(exist_ok=True)
    for text in ("x = 1\n", "x = 2\n"):
        module.write_text(text)
        assert provenance.is_dirty() is True
        codes.add(provenance.name_code())
    assert len(codes) == 3, "each text is code of its own"


@pytest.mark.parametrize(
    "name",
    [
        "results/known.py",
        "results/new.py",
        "studies/noise/data/known.py",
        "notes.py",
        "models/notes.txt",
        "models/ignored.py",
    ],
)
def test_what_no_measurement_imports_is_not(name: str, repository: Path) -> None:
    (repository / name).write_text("x = 1\n")
    assert provenance.is_dirty() is False
    assert provenance.name_code() == provenance.find_commit()


def test_without_git_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert provenance.is_dirty() is None
    assert provenance.name_code() is None


def test_of_hundreds_of_cases_a_command_keeps_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FRAMEBENCH_COMMAND", raising=False)
    monkeypatch.setattr(
        provenance.sys, "argv", ["/bin/framebench", "run", *[f"case{i}" for i in range(200)]]
    )
    assert provenance.describe_command() == (
        f"framebench run {' '.join(f'case{i}' for i in range(10))} ... (190 more)"
    )
    monkeypatch.setattr(provenance.sys, "argv", ["/bin/framebench", "run", "transformer/*/train"])
    assert provenance.describe_command() == "framebench run 'transformer/*/train'"
