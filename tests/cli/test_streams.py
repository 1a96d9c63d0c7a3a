"""Standard streams that are closed, full or broken, a signal at any moment, and a terminal that a
stranger's texts must not reach.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from framebench.cli import shared
from framebench.cli.__main__ import find_empty_option
from framebench.engine import installed
from framebench.records import lines, store
from tests.fake_records import CASE, make_measured
from tests.processes import COMMAND, framebench, run_process, write_script
from tests.record_files import add_records, append_lines
from tests.sample_records import IN_HERE

LISTING = ("list", "transformer/torch/train/fp32/b4/cpu")
ESCAPES = {
    "colour": "\x1b[31m",
    "title": "\x1b]0;title\x07",
    "clear": "\x1b[2J",
    "one byte": "\x9b2J",
    "carriage return": "\r",
    "backspace": "\x08",
    "right to left": "\u202e",
    "surrogate": "\udcff",
}
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")


def run_in_shell(redirection: str) -> subprocess.CompletedProcess[str]:
    command = " ".join([*COMMAND, *LISTING])
    return run_process(["sh", "-c", f"{command} {redirection}"], code=None)


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_streams_cause_no_error(redirection):
    done = run_in_shell(redirection)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_reported_in_a_sentence():
    done = run_in_shell("> /dev/full")
    assert done.returncode == 1
    assert done.stderr == "framebench: No space left on device\n"


@pytest.mark.parametrize(
    ("command", "code"), [("list nothing", 2), ("show --results /nowhere", 1), ("unknown", 2)]
)
@pytest.mark.parametrize("redirection", ["2> /dev/full", "> /dev/full 2> /dev/full"])
def test_a_failure_has_its_exit_code_where_no_sentence_can_be_printed(command, code, redirection):
    words = " ".join([*COMMAND, command, redirection])
    run_process(["sh", "-c", words], code=code)


def test_a_closed_pipe_causes_no_traceback():
    done = run_in_shell("| true")
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "claims",  # with names of articles and people
        "claims checkpointing",
        "devices",
        "list transformer/torch/train/fp32",
        "answer",
        "report transformer/torch/train/fp32/b4/cpu",
    ],
)
def test_a_locale_without_utf_8_is_no_error(command):
    """The package's own files are in UTF-8 all the same."""
    words = command.split()
    if words[0] not in ("devices", "list"):
        words += IN_HERE
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert "Traceback" not in run_process([*COMMAND, *words], **ascii_only).stderr


def test_a_letter_of_a_table_that_the_locale_lacks_is_printed_as_its_number():
    program = (
        "from framebench.cli.__main__ import open_missing_streams\n"
        "open_missing_streams()\n"
        "from framebench.cli.shared import out\n"
        "out.print('of a table: \\u00d7')\n"
    )
    done = run_process([sys.executable, "-c", program], PYTHONIOENCODING="ascii")
    assert done.stdout == "of a table: \\xd7\n"


def has_begun(process: subprocess.Popen[str]) -> bool:
    """Return whether a command handles SIGTERM; before that it is Python alone."""
    if process.poll() is not None:
        return True
    status = Path(f"/proc/{process.pid}/status").read_text()
    (caught,) = re.findall(r"^SigCgt:\s+(\w+)$", status, re.MULTILINE)
    return bool(int(caught, 16) & 1 << signal.SIGTERM - 1)


@pytest.mark.parametrize(
    ("number", "delay_s"),
    [
        (signal.SIGINT, 0.1),
        (signal.SIGINT, 0.3),
        (signal.SIGINT, 0.6),
        (signal.SIGINT, 1.0),
        (signal.SIGTERM, 0.6),
        (signal.SIGHUP, 0.3),
    ],
)
def test_a_signal_at_any_moment_ends_a_command_without_a_traceback(delay_s, number):
    """An interrupt while a library of C's is imported makes Python end by SIGINT itself.

    A command that has done its work is Python alone again, and the signal ends it.
    """
    process = subprocess.Popen(
        [*COMMAND, *LISTING], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while not has_begun(process):
        time.sleep(0.01)
    time.sleep(delay_s)
    process.send_signal(number)
    _, printed = process.communicate(timeout=600)
    assert "framebench/" not in printed, "a traceback through our files"
    assert process.returncode in (0, 130, -signal.SIGINT, -number)


@pytest.mark.parametrize(
    "command", ["show", "answer", "report", "check-results RESULTS", "collect RESULTS"]
)
def test_an_interrupted_command_that_reads_says_so(command, results, monkeypatch):
    add_records(results, make_measured("fp32", 2**20))
    monkeypatch.setattr(lines, "open_regular", Mock(side_effect=KeyboardInterrupt))
    words = command.replace("RESULTS", str(results)).split()
    if words[0] != "check-results":
        words += ["--results", results]
    done = framebench(*words, code=130)
    assert done.stderr.endswith("framebench: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["run", "--profile", ""], "--profile"),
        (["run", "--results", " "], "--results"),
        (["report", "--to="], "--to"),
        (["grow", "train.py", "--env", "", "--", "--name"], "--env"),
        (["grow", "train.py", "--", "--name", "", "--path="], None),
        (["run", "a", "--env", "b"], None),
        (["advise", "--device=h100-80gb", ""], None),  # the option has its value
    ],
)
def test_an_empty_value_is_found_but_not_behind_two_dashes(arguments, option):
    assert find_empty_option(arguments) == option


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("while :; do echo x; done", "gave no answer in 5 s"),
        ("sleep 600 & exit 0", "is no Python"),
    ],
)
def test_a_program_that_answers_nothing_is_not_waited_for(
    script, message, tmp_path, results, monkeypatch
):
    monkeypatch.setattr(installed, "LIMIT_S", 5.0)
    program = write_script(tmp_path / "program", script)
    done = framebench("run", CASE.id, "--env", program, results=results, code=2)
    assert message in done.stderr


@pytest.fixture
def hostile(results) -> Path:
    """Return a results folder whose texts hold everything that moves a terminal."""
    payload = "".join(ESCAPES.values()).replace(ESCAPES["surrogate"], "")
    measured = make_measured("fp32", 2**20).model_dump(mode="json")
    measured["reason"] = f"because {payload}"
    origin = measured["provenance"]
    origin["versions"] = {"torch": f"2.13.0{payload}"}
    origin["node"] = f"node {payload}"
    origin["command"] = f"command {payload}"
    origin["hardware"]["cpu"] = f"cpu {payload}"
    crashed = measured | {"status": "crashed", "peaks": {}, "step_s": [], "turns": None}
    good_line, crashed_line = json.dumps(measured), json.dumps(crashed)
    # releases whose file has a usual name, a hostile one, and one that is no text
    append_lines(
        store.find_file(results, "m", "torch-2.13.0"), good_line, crashed_line, payload, "{}"
    )
    append_lines(store.find_file(results, "m", f"torch-2.13.0{payload}"), good_line, "{}")
    append_lines(store.find_file(results, "m", os.fsdecode(b"torch-\xff")), good_line, "{}")
    return results


@pytest.mark.parametrize(
    "command",
    [
        "show",
        "show --machine all",
        "answer",
        f"report {CASE.id}",
        "claims",
        "check-results RESULTS",
        "collect RESULTS",
        "advise transformer/torch/train/fp32/b4/tiny --budget 1GiB",
        "predict transformer/torch/train/fp32/b4/tiny",
    ],
)
def test_no_control_character_of_a_stranger_reaches_the_terminal(command, hostile, tmp_path):
    words = [str(hostile) if word == "RESULTS" else word for word in command.split()]
    into = tmp_path / "into"
    if "collect" in words:
        words += ["--results", into]
    elif str(hostile) not in words:
        words += ["--results", hostile]
    done = framebench(*words)
    assert CONTROL.findall(done.stdout + done.stderr) == []
    assert done.stdout + done.stderr
    for path in into.rglob("*"):
        assert CONTROL.search(str(path)) is None, "nor does the name of a file that is written"


@pytest.mark.parametrize("name", ESCAPES)
def test_control_characters_are_printed_as_json_writes_them(name, capsys):
    control = ESCAPES[name]
    escaped = shared.escape_control(control)
    assert json.loads(f'"{escaped}"') == control

    shared.say(f"before {control} after é")
    shared.echo(f"before {control} after é")

    printed = capsys.readouterr()
    assert printed.out == printed.err == f"before {escaped} after é\n"


def test_line_feeds_and_tabs_are_printed_as_they_are():
    assert shared.escape_control("lines\n and\ttabs") == "lines\n and\ttabs"


def test_work_is_named_at_its_beginning_where_there_is_no_terminal(capsys):
    with shared.show_work("mine.py: what holds the peak"):
        assert capsys.readouterr().err == "mine.py: what holds the peak\n"
    assert capsys.readouterr().err == ""


def test_progress_is_printed_once_where_there_is_no_terminal(monkeypatch, capsys):
    """A phase may last for minutes, and is begun before anything is printed."""
    monkeypatch.setattr(shared, "REPORT_S", 0.05)
    with shared.show_progress("mine.py") as show:
        show("import")
        show("first steps")
        time.sleep(0.5)
    assert capsys.readouterr().err == "mine.py: first steps\n"


def test_progress_is_printed_ever_more_rarely_where_there_is_no_terminal(monkeypatch, capsys):
    """A log of hours has no line every few seconds."""
    monkeypatch.setattr(shared, "REPORT_S", 0.02)
    monkeypatch.setattr(shared, "MOST_REPORT_S", 0.2)
    with shared.show_progress("mine.py") as show:
        for number in range(100):
            show(f"step {number}")
            time.sleep(0.01)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 12


@pytest.mark.parametrize(("is_terminal", "width"), [(False, 100), (True, None)])
def test_each_stream_has_a_width_unless_a_terminal_has_one(is_terminal, width, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert shared.choose_width(Mock(isatty=Mock(return_value=is_terminal))) == width
    monkeypatch.setenv("COLUMNS", "150")
    assert shared.choose_width(Mock(isatty=Mock(return_value=False))) is None
