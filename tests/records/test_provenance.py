"""What a record says about the code that measured: nothing that could have been imported goes
unseen.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from framebench.records import provenance
from tests.callbacks import ignore
from tests.repositories import commit_all, run_git


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    """Return a commit with one module in each package."""
    for package in (*provenance.MEASURING, "results", "studies/noise/data"):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "known.py").write_text("")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    commit_all(tmp_path)
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.usefixtures("repository")
def test_an_unchanged_checkout_is_named_by_its_commit():
    assert provenance.is_dirty() is False
    assert provenance.name_code() == provenance.find_commit()


@pytest.mark.parametrize(
    "name", ["framebench/known.py", "models/new.py", "benchmarks/deeper/new.py"]
)
def test_changed_and_new_modules_are_other_code(name, repository):
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
def test_the_code_hash_leaves_out_files_that_no_measurement_imports(name, repository):
    (repository / name).write_text("x = 1\n")
    assert provenance.is_dirty() is False
    assert provenance.name_code() == provenance.find_commit()


def copy_code(folder: Path) -> list[Path]:
    """Make a copy of the code: a package, and the models and benchmarks next to it."""
    folders = [folder / name for name in ("framebench", "models", "benchmarks")]
    for each in folders:
        (each / "deeper").mkdir(parents=True)
        (each / "deeper" / "known.py").write_text("x = 1\n")
    return folders


def test_without_git_the_files_own_hash_names_the_code(monkeypatch):
    monkeypatch.setattr(provenance, "query_git", ignore)
    monkeypatch.delenv("FRAMEBENCH_COMMIT", raising=False)
    assert provenance.is_dirty() is None
    assert provenance.name_code() == provenance.find_code() == provenance.hash_files()


@pytest.mark.usefixtures("repository")
def test_a_repository_of_another_user_counts_as_missing(monkeypatch):
    """Git refuses it: it calls the owner of the folder dubious."""
    assert provenance.find_commit() is not None
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # as git's own tests do
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    assert provenance.find_commit() is None
    assert provenance.find_code().startswith("files-")


def make_other_repository(folder: Path) -> Path:
    """Make another project's repository with one commit, and return its `.git`."""
    folder.mkdir(exist_ok=True)
    run_git(folder, "init", "-q")
    run_git(folder, "commit", "-q", "--allow-empty", "-m", "of another project")
    return folder / ".git"


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_COMMON_DIR", "GIT_INDEX_FILE"])
def test_variables_that_git_sets_for_hooks_are_ignored(name, repository, tmp_path, monkeypatch):
    """A hook of another repository may start framebench, with variables that name that one."""
    before = provenance.find_commit(), provenance.is_dirty(), provenance.name_code()
    other = make_other_repository(tmp_path / "other")
    monkeypatch.setenv(name, str(other / "index" if name.endswith("FILE") else other))
    assert (provenance.find_commit(), provenance.is_dirty(), provenance.name_code()) == before
    assert before[0] is not None


KNOWN = "framebench/deeper/known.py"


@pytest.mark.parametrize(
    "contents",
    [
        {KNOWN: "x = 2\n"},
        {"models/deeper/known.py": "x = 2\n"},
        {"benchmarks/new.py": ""},
        {"models/golden.json": "{}"},
        {KNOWN: None, "framebench/deeper/other.py": "x = 1\n"},
        {KNOWN: None},
    ],
    ids=["package", "model", "new module", "references", "renamed", "removed"],
)
def test_any_change_of_the_code_is_another_hash(contents, tmp_path):
    """Each file gets this content; None removes it."""
    before = provenance.hash_files(copy_code(tmp_path / "one"))
    copy = tmp_path / "two"
    folders = copy_code(copy)
    assert provenance.hash_files(folders) == before, "wherever it lies"
    (copy / "framebench" / "__pycache__").mkdir()
    (copy / "framebench" / "__pycache__" / "known.pyc").write_bytes(b"compiled")
    assert provenance.hash_files(folders) == before, "byte code is made of the rest"

    for name, content in contents.items():
        if content is None:
            (copy / name).unlink()
        else:
            (copy / name).write_text(content)

    assert provenance.hash_files(folders) != before
