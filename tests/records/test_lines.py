"""Lines that are appended survive whatever ends the process that appends: each is there or not."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
from itertools import count
from pathlib import Path
from unittest.mock import Mock

import pytest

from framebench.records import lines, store
from framebench.records.lines import BadRecord, Line, RecordWarning, append_lines, read_lines
from tests.kills import is_killed_at_call
from tests.processes import small_disk

ONE, TWO, THREE = (json.dumps({"number": number, "text": "x" * 100}) for number in (1, 2, 3))


def read_texts(file: Path) -> list[str]:
    """Return the lines of a file that have no fault; one that is not there has none."""
    if not file.exists():
        return []
    return [line.text.decode().strip() for line in read_lines(file) if not line.fault]


def leave_whole(file: Path) -> None:
    """Leave a file of two lines."""
    append_lines([ONE, TWO], file)


def leave_torn(file: Path) -> None:
    """Leave a file of two lines, and the beginning of another."""
    leave_whole(file)
    with file.open("a") as opened:
        opened.write(THREE[:50])


def leave_without_end(file: Path) -> None:
    """Leave a file of two lines, the last of which lacks its end."""
    leave_whole(file)
    os.truncate(file, file.stat().st_size - 1)


def leave_nothing(file: Path) -> None:
    """Leave no file, and no folder for it."""


@pytest.mark.parametrize("leave", [leave_nothing, leave_whole, leave_torn, leave_without_end])
@pytest.mark.filterwarnings("ignore::framebench.records.lines.RecordWarning")
def test_a_kill_at_any_call_loses_no_line(leave, tmp_path):
    for number in count(1):
        results = tmp_path / str(number)
        file = results / "records" / "m" / "torch-1.jsonl"
        leave(file)
        before = read_texts(file)
        was_killed = is_killed_at_call(number, results, append_lines, [THREE], file)
        after = read_texts(file)
        if not was_killed:
            break
        assert after in (before, [*before, THREE])
        append_lines([ONE], file)
        assert read_texts(file) == [*after, ONE]
        assert file.read_bytes().count(b"\n") == len(after) + 1, "nothing is left of the torn one"
    assert after == [*before, THREE]
    assert number > 2, "it was killed in each of its calls"


def test_the_next_append_removes_a_torn_last_line(tmp_path):
    file = tmp_path / "torn.jsonl"
    leave_torn(file)
    *_, last = read_lines(file)
    assert last == Line(f"{file}:3", THREE[:50].encode(), "cut off, as where a process was killed")
    with pytest.raises(BadRecord, match=r"torn\.jsonl:3: cut off"):
        store.parse(store.Record, last)
    with pytest.warns(RecordWarning, match="its last line was cut off; the 50 bytes of it"):
        append_lines([THREE], file)
    assert read_texts(file) == [ONE, TWO, THREE]


def test_a_line_that_lacks_only_its_end_is_a_line(tmp_path):
    file = tmp_path / "a.jsonl"
    leave_without_end(file)
    assert read_texts(file) == [ONE, TWO]
    append_lines([THREE], file)
    assert read_texts(file) == [ONE, TWO, THREE]


def test_a_line_may_have_other_characters_that_end_lines(tmp_path):
    text = json.dumps("a\u2028b\u2029c\x85d\x0ce", ensure_ascii=False)
    for _ in range(2):
        append_lines([text], tmp_path / "a.jsonl")
    assert read_texts(tmp_path / "a.jsonl") == [text, text]


def test_appended_lines_and_new_file_names_are_synced(tmp_path, monkeypatch):
    file = tmp_path / "a.jsonl"
    synced = []

    def sync(handle):
        name = os.readlink(f"/proc/self/fd/{handle}")
        synced.append((name, os.fstat(handle).st_size if name == str(file) else 0))

    monkeypatch.setattr(lines.os, "fsync", sync)
    append_lines([ONE], file)
    append_lines([TWO], file)
    whole = len(ONE) + 1
    assert synced == [(str(file), whole), (str(tmp_path), 0), (str(file), 2 * whole)]


def test_a_writer_waits_until_another_has_ended_its_line(tmp_path):
    file = tmp_path / "a.jsonl"
    append_lines([ONE], file)
    with file.open("ab", buffering=0) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(TWO[:10].encode())
        thread = threading.Thread(target=append_lines, args=([THREE], file))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        other.write(TWO[10:].encode() + b"\n")
    thread.join()
    assert read_texts(file) == [ONE, TWO, THREE]


def test_a_full_disk_leaves_the_lines_that_were_there(tmp_path):
    text = json.dumps("x" * 5000)
    with small_disk(tmp_path / "disk", "size=64k") as disk:
        file = disk / "m" / "torch-1.jsonl"
        written = fill_disk(file, text)
        assert written > 0
        assert read_texts(file) == [text] * written
        assert file.read_bytes().endswith(b"\n")
        with pytest.raises(OSError, match="No space left on device"):
            append_lines([text], file)
        assert read_texts(file) == [text] * written
        append_lines([ONE], file)  # for which there is room
        assert read_texts(file) == [text] * written + [ONE]


def fill_disk(file: Path, text: str) -> int:
    """Append a line until the disk is full, and return how often that could be done."""
    for written in range(1000):
        try:
            append_lines([text], file)
        except OSError:
            return written
    return pytest.fail("the disk has no end")


def test_ctrl_c_takes_back_no_line_that_was_written(tmp_path, monkeypatch):
    """Others may have read it."""
    file = tmp_path / "a.jsonl"
    monkeypatch.setattr(lines.os, "fsync", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        append_lines([ONE], file)
    assert read_texts(file) == [ONE]


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_call_that_fails_leaves_the_file_as_it_was(call, tmp_path, monkeypatch):
    file = tmp_path / "a.jsonl"
    leave_whole(file)
    before = file.read_bytes()
    write = os.write

    def fail(handle, *text):
        if text:
            write(handle, text[0][:10])
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(lines.os, call, fail)
    with pytest.raises(OSError, match="broken"):
        append_lines([THREE], file)
    assert file.read_bytes() == before


def test_nothing_is_written_through_a_link_or_into_a_pipe(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    link, pipe = tmp_path / "link.jsonl", tmp_path / "pipe.jsonl"
    link.symlink_to(victim)
    os.mkfifo(pipe)
    for file in (link, pipe, tmp_path):
        with pytest.raises(OSError, match=file.name):
            append_lines([ONE], file)
    assert victim.read_text() == "precious"


def test_a_line_that_is_too_long_is_skipped(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(ONE + "\n" + "x" * (3 * lines.MOST_BYTES) + "\n" + TWO + "\n")
    first, long, last = read_lines(file)
    assert (first.text.decode(), last.text.decode()) == (ONE + "\n", TWO + "\n")
    assert long == Line(f"{file}:2", b"", "more than 1,048,576 bytes in a line")
