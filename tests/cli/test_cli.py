"""The command line as a user meets it: real processes, real exit codes."""

import os
import re
import signal
import subprocess
import time
from operator import itemgetter
from unittest.mock import Mock

import pytest
import typer

from framebench.cli import run, shared
from framebench.engine.session import lock_results
from framebench.records import store
from framebench.records.provenance import read_machine_name
from framebench.suite.selectors import parse
from tests.fake_records import provenance, record
from tests.processes import COMMAND, framebench, read_json, small_disk

CASE = "transformer/torch/train/fp32/b4/tiny"


@pytest.mark.parametrize(
    "command",
    [
        ["run", CASE],
        ["show"],
    ],
    ids=itemgetter(0),
)
def test_a_machine_name_with_path_parts_is_refused(command, tmp_path, monkeypatch):
    """`../../../x` once put records outside the results folder."""
    results = tmp_path / "deep" / "er" / "results"
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "../../../x")
    done = framebench(*command, results=results, code=2)
    assert "'../../../x' is no name of a machine" in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_other_options_start_another_session(results, monkeypatch):
    """What was measured with other threads, or under a limit, is not taken for what is asked for
    now.
    """
    monkeypatch.setattr(run.installed, "find_environments", Mock(return_value={}))
    monkeypatch.setattr(run, "measure_all", Mock(side_effect=KeyboardInterrupt))
    for options, unfinished in (([], 1), (["--threads", "2"], 2), (["--threads", "2"], 2)):
        done = framebench("run", CASE, "--results", results, *options, code=130)
        assert "nothing was measured yet" in done.stderr
        assert len(list(results.glob(".session-*.json"))) == unfinished


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", CASE],
        ["compare", CASE, CASE],
        ["versions", "run", "--framework", "jax"],
        ["claims", "B5", "--run", "--size", "tiny"],
        ["max-batch", "transformer", "--budget", "1GiB"],
        ["evaluate", "transformer/torch", "--budget", "1GiB"],
        ["doctor"],
    ],
)
def test_measuring_commands_take_the_lock(arguments, results):
    with lock_results(results):
        done = framebench(*arguments, results=results, code=2)
    assert f"process {os.getpid()} " in done.stderr


@pytest.mark.parametrize("text", ["256MiB", " 256 mib ", "0.25GiB", "268435456B"])
def test_sizes_are_parsed_with_common_units(text):
    assert shared.parse_bytes(text) == 256 * 2**20
    assert shared.parse_bytes("256MB") == 256 * 10**6


@pytest.mark.parametrize("text", ["102KiB", "0.09MiB", "1e999GiB", "1.2.3MiB", "256", "3 apples"])
def test_an_invalid_size_is_refused(text):
    with pytest.raises(typer.BadParameter, match=r"512MiB .* at least 0\.1 MiB"):
        shared.parse_bytes(text)


def test_help_and_version_are_printed():
    assert framebench("-h").stdout == framebench("--help").stdout
    assert re.fullmatch(
        r"framebench \d+\.\d+\.\d+ \(\w{10}.*\), protocol \d+\n", framebench("--version").stdout
    )


@pytest.mark.parametrize(
    ("end", "before", "code", "message"),
    [
        (KeyboardInterrupt(), True, 130, "what was measured is kept"),
        (OSError(28, "No space left on device", "x"), False, 1, "nothing was measured yet"),
    ],
    ids=["interrupted", "full"],
)
def test_an_interrupted_run_says_whether_records_were_written(
    end, before, code, message, results, monkeypatch
):
    """A record of an older session is there in both cases."""
    case = parse(CASE)
    where = store.find_file(results, read_machine_name(), "torch-1")
    store.append(record(case, provenance=provenance(session="older")), where)

    def measure(found, opened, *_):
        origin = provenance(session=opened.id, machine=read_machine_name())
        if before:
            store.append(record(case, provenance=origin), where)
        raise end

    monkeypatch.setattr(run.installed, "find_environments", Mock(return_value={}))
    monkeypatch.setattr(run, "measure_all", measure)
    done = framebench("run", CASE, results=results, code=code)
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_resumed(number, fake_worker, results):
    """In the second block: its workers die, the first one's record stays, and the next run measures
    only the rest, whatever another command measured in between.
    """
    selector = "transformer/torch/eval/no_grad/*/tiny"
    options = ("--results", results, "--rounds", "3", "--env", fake_worker.python)
    process = subprocess.Popen(
        [*COMMAND, "run", selector, *options],
        env={**os.environ, "LINGER": "60", "LINGER_IN": "/b8/"},  # the second block's case
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(store.read_all(results)) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    _, message = process.communicate()
    assert process.returncode == 130, message
    assert "goes on from there" in message
    assert "Traceback" not in message
    (first,) = store.read_all(results)

    for selected in (CASE, selector):
        framebench("run", selected, *options, code=0)

    found = [record for record in store.read_all(results) if record.case != CASE]
    assert first in found
    assert len(found) == 2
    assert len({record.provenance.session for record in found}) == 1
    assert not list(results.glob(".session*")), "closed sessions leave nothing behind"


def test_a_failed_case_fails_the_command_and_the_others_still_run(
    fake_worker, results, monkeypatch
):
    monkeypatch.setenv("FAKE_FAILURE", "grad: exception, no_grad: work")
    options = ("--results", results, "--rounds", "3", "--env", fake_worker.python)
    done = framebench("run", "transformer/torch/eval/*grad/b4/tiny", *options, code=1)
    statuses = {record.parsed.strategy: record.status for record in store.read_all(results)}
    assert statuses == {"grad": "crashed", "no_grad": "ok"}
    assert "1 of 2 cases failed" in done.stderr


def test_a_full_disk_is_reported_without_a_traceback(fake_worker, tmp_path):
    with small_disk(tmp_path / "disk", "size=16k") as disk:
        options = ("--results", disk / "results", "--rounds", "3")
        options += ("--env", fake_worker.python)
        done = framebench("run", "transformer/torch/eval/*/*/tiny", *options)
        written = list(store.read_all(disk / "results"))
        message = "what was measured is kept" if written else "nothing was measured yet"
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert message in done.stderr
        assert not list((disk / "results").rglob("*.tmp"))


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_calibration_passes_and_is_recorded(results):
    """Sizes and the clock must be right on a busy machine too; the check of the load may fail."""
    # with three processes for each core, sometimes every wait of 20 ms is interrupted
    for _ in range(3):
        findings = read_json("doctor", results=results)
        failed = [finding["check"] for finding in findings if not finding["passed"]]
        exact = ("host.rss bias", "host.rss spread", "timer bias")
        wrong = [check for check in failed if check.endswith(exact)]
        if not wrong:
            break
    assert wrong == []
    unsupported = "transformer/jittor/train/rewrite/b4/tiny"
    framebench("run", unsupported, results=results, code=0)
    (record,) = store.read_all(results)
    calibration = record.provenance.calibration
    with_figures = [finding["passed"] for finding in findings if finding["figure"] is not None]
    assert calibration.passed == all(with_figures)
