"""A results folder may be a stranger's: reading it executes nothing, waits for nothing, and writes
nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from framebench.engine.session import Session
from framebench.records import store
from framebench.records.provenance import ROOT
from framebench.records.record import Record
from framebench.records.store import BadRecord
from framebench.suite.profiles import list_cases
from tests.fake_records import CASE, make_measured, record
from tests.processes import framebench
from tests.record_files import add_records

NAME = "torch-9.jsonl"
Plant = Callable[[Path], None]


def plant_link(file: Path) -> None:
    file.symlink_to("/dev/zero")


def plant_good_link(file: Path) -> None:
    target = file.with_name("target")
    target.write_text(record().model_dump_json())
    file.symlink_to(target)


def plant_deep(file: Path) -> None:
    file.write_text('{"peaks":' * 100_000)


def plant_large(file: Path) -> None:
    with file.open("w") as opened:
        opened.truncate(2**40)  # sparse: it takes no space


def plant_one_line(file: Path) -> None:
    with file.open("w") as opened:
        opened.truncate(2**29)  # as large as a file may be, and no line in it ends


def plant_many_lines(file: Path) -> None:
    file.write_text("{}\n" * 10**6)


HOSTILE: dict[str, Plant] = {
    "link to a device": plant_link,
    "link to a record": plant_good_link,
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "terabyte": plant_large,
    "deep": plant_deep,
    "one line": plant_one_line,
    "many lines": plant_many_lines,
}
# {strange} stands for the stranger's folder, {into} for a new one
READING = (
    "show --results {strange}",
    "show --json --results {strange}",
    "answer --results {strange}",
    "report --results {strange}",
    f"report {CASE.id} --results {{strange}}",
    "advise transformer/torch --budget 1GiB --results {strange}",
    "claims list --results {strange}",
    "plan transformer/torch/train/fp32/b4/tiny --results {strange}",
    "check-results {strange}",
    "collect {strange} --results {into}",
)
# these read all records, and name a file that they skip; the others need few or none
NAMES_SKIPPED_FILES = ("show", "answer", "report", "claims", "collect")


def list_content(folder: Path) -> list[tuple[str, int, int]]:
    """Return everything below a folder with its size and when it was changed."""
    content = []
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content.append((str(path), about.st_size, about.st_mtime_ns))
    return content


@pytest.fixture
def strange(tmp_path) -> Path:
    """Return a results folder with one good record."""
    results = tmp_path / "strange"
    add_records(results, make_measured("fp32", 2**20))
    return results


def run_reading(command: str, strange: Path, tmp_path: Path) -> CompletedProcess[str]:
    """Run one of the commands that read on the stranger's folder."""
    words = [word.format(strange=strange, into=tmp_path / "into") for word in command.split()]
    return framebench(*words)


@pytest.mark.parametrize("kind", HOSTILE)
def test_only_regular_files_of_limited_size_are_read(kind, tmp_path):
    file = tmp_path / NAME
    HOSTILE[kind](file)
    with pytest.raises(BadRecord, match=re.escape(str(file))):
        store.read(file)
    faults = []
    assert list(store.parse_file(Record, file, faults.append)) == []
    assert str(faults[-1]).startswith(str(file))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", READING)
def test_commands_that_read_pass_over_hostile_files(command, strange, tmp_path):
    hostile = {}
    for number, (kind, plant) in enumerate(HOSTILE.items()):
        hostile[kind] = strange / "records" / "m" / f"torch-9.{number}.jsonl"
        plant(hostile[kind])
    before = list_content(strange)
    done = run_reading(command, strange, tmp_path)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1)
    if command.startswith(NAMES_SKIPPED_FILES):
        printed = done.stdout + done.stderr
        unnamed = [kind for kind, file in hostile.items() if file.name not in printed]
        assert unnamed == [], "every file that was skipped is named"
    assert list_content(strange) == before


def nest_folders(folder: Path) -> None:
    """Make folders in one another, so deep that no path names the innermost one."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "d" * 200
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(30):
        os.mkdir(name, dir_fd=handle)
        inner = os.open(name, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)


@pytest.mark.parametrize("command", READING)
def test_folders_that_are_nested_without_end_are_passed_over(command, strange, tmp_path):
    for name in ("records", "records/m", "fits", "claims", "nodes", "nodes/n/fits", "planned"):
        nest_folders(strange / name)
    done = run_reading(command, strange, tmp_path)
    assert done.returncode in (0, 1)
    assert "File name too long" not in done.stderr
    if command.startswith("collect"):
        assert "1 record added" in done.stdout
        for name in ("fits", "claims", "nodes/n/fits"):
            assert re.search(rf"skipped {strange}/{name}/\S+: more than 8 folders", done.stderr)


@pytest.mark.parametrize("command", READING)
def test_a_file_in_the_place_of_a_folder_is_passed_over(command, strange, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("bisected", "calibration", "claims", "explained", "fits", "planned", "predicted"):
        (strange / name).symlink_to(victim)
    done = run_reading(command, strange, tmp_path)
    assert done.returncode in (0, 1)
    assert "Not a directory" not in done.stderr
    assert victim.read_text() == "precious"


def test_a_report_writes_through_no_link(strange, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    to = tmp_path / "to"
    to.mkdir()
    for link in (strange / "tables" / "m.md", to / "m.md"):
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(victim)
    before = list_content(strange)
    framebench("report", results=strange, code=0)
    framebench("report", "--to", to, results=strange, code=0)
    assert victim.read_text() == "precious"
    assert list_content(strange) == before
    assert "| torch | fp32 |" in (to / "m.md").read_text()


@pytest.mark.parametrize("what", ["--figures", "--notebooks"])
def test_published_figures_are_not_replaced_by_those_of_other_results(what, strange):
    published = [ROOT / "docs" / "figures", ROOT / "analysis"]
    before = [list_content(folder) for folder in published]
    done = framebench("report", what, "all", results=strange, code=2)
    assert "by --to DIR" in done.stderr
    assert [list_content(folder) for folder in published] == before


def test_a_link_in_place_of_a_session_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    results = tmp_path / "results"
    results.mkdir()
    link = Session("", "code", "selector").find_file(results)
    link.symlink_to(victim)
    session = Session.open(results, "code", "selector")
    assert victim.read_text() == "precious"
    assert not link.is_symlink(), "the session's own file replaced it"
    assert Session.open(results, "code", "selector") == session


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o007])
def test_records_have_the_rights_that_the_user_gives_files(umask, tmp_path):
    before = os.umask(umask)
    try:
        store.append(record(list_cases()[0]), tmp_path / NAME)
    finally:
        os.umask(before)
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o666 & ~umask
