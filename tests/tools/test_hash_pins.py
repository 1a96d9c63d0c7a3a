"""Hashes of pins: of every archive that the index lists, and of all packages of a file or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.records.pins import read_pins, remove_hashes
from tests.processes import write_script
from tools import hash_pins

PLAIN = "# beside control.txt\n-r control.txt\nJinja2==3.1.6\ntyping_extensions==4.16.0\n"
ANSWER = """\
jinja2==3.1.6 \\
    --hash=sha256:bb \\
    --hash=sha256:aa
typing-extensions==4.16.0 \\
    --hash=sha256:cc
"""
HASHED = """\
# beside control.txt
-r control.txt
Jinja2==3.1.6 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
typing_extensions==4.16.0 \\
    --hash=sha256:cc
"""


def play_uv(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int = 0) -> None:
    """Put a program of this name on the path that gives this answer."""
    (folder / "answer").write_text(answer)
    stream = 2 if code else 1
    write_script(folder / "uv", f"cat {folder}/answer >&{stream}\nexit {code}")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_each_pin_gets_its_hashes_and_keeps_its_name(tmp_path, monkeypatch):
    play_uv(tmp_path, monkeypatch, ANSWER)
    file = tmp_path / "develop.txt"
    file.write_text(PLAIN)
    for _ in range(2):  # what is hashed is hashed anew
        assert hash_pins.hash_file(file) == "develop.txt: 3 archives of 2 packages"
        assert file.read_text() == HASHED
    assert remove_hashes(HASHED) == PLAIN
    assert read_pins(file)["jinja2"] == "3.1.6"


def test_a_package_without_hashes_is_named_and_the_file_left_alone(tmp_path, monkeypatch):
    play_uv(tmp_path, monkeypatch, ANSWER.partition("typing")[0])
    file = tmp_path / "develop.txt"
    file.write_text(PLAIN)
    with pytest.raises(hash_pins.NoHashes, match=r"typing_extensions==4\.16\.0"):
        hash_pins.hash_file(file)
    assert file.read_text() == PLAIN


def test_an_error_of_the_index_is_reported(tmp_path, monkeypatch):
    play_uv(tmp_path, monkeypatch, "no such version", code=1)
    with pytest.raises(hash_pins.NoHashes, match="uv: no such version"):
        hash_pins.ask_index(["Jinja2==0.0.0"])
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(hash_pins.NoHashes, match="pip install uv"):
        hash_pins.ask_index(["Jinja2==0.0.0"])


def test_a_file_with_an_unhashable_package_says_why(tmp_path):
    file = tmp_path / "torch.txt"
    plain = "# PyTorch\nnumpy==2.4.6\ntorch==2.13.0\n"
    file.write_text(plain)
    for _ in range(2):
        assert hash_pins.hash_file(file) == "torch.txt: no hashes, as it has torch"
        assert file.read_text() == f"# No hashes: {hash_pins.UNHASHED['torch']}\n{plain}"
    assert remove_hashes(file.read_text()) == plain
