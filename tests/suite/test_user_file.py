"""What is asked of a user's file before it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from framebench.suite.user_file import import_packages, list_imports


def test_packages_are_imported_and_not_what_lies_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a package takes for itself is none of the file's; what a module beside it holds is."""
    elsewhere, folder = tmp_path / "packages", tmp_path / "mine"
    elsewhere.mkdir()
    folder.mkdir()
    (elsewhere / "a_package.py").write_text("from lazily import late\n")
    (elsewhere / "lazily.py").write_text(
        "def __getattr__(name):\n    import loaded_late\n    return loaded_late\n"
    )
    (elsewhere / "loaded_late.py").write_text("")
    (folder / "beside_it.py").write_text("raise AssertionError\n")
    file = folder / "model.py"
    file.write_text(
        "import beside_it\nimport no_such_package\nfrom a_package import late\nRAN = "
        "sys.never_imported\n"
        "def model():\n    import within_a_function\n"
    )
    monkeypatch.setattr(sys, "path", [str(folder), str(elsewhere), *sys.path])
    import_packages(str(file))
    assert {"a_package", "loaded_late"} <= sys.modules.keys(), (
        "as far as the names that the file takes"
    )
    assert "beside_it" not in sys.modules
    assert list_imports(str(file)) == {
        "beside_it",
        "no_such_package",
        "a_package",
        "within_a_function",
    }
    for name in ("a_package", "lazily", "loaded_late"):
        monkeypatch.delitem(sys.modules, name)
