"""Two hundred records that nobody should have written, next to good ones, in every command that
reads: no traceback, no end that does not come, and nothing written.
"""

from __future__ import annotations

import json
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import framebench as library
from framebench.records import store
from framebench.records.record import Record
from tests.processes import framebench, make_fake_environment
from tests.records.malformed import draw_malformed, generate
from tests.records.test_strangers_folder import list_content
from tests.sample_records import read_sample
from tests.version_records import NEW, OLD, select_originals, set_version

AT_ONCE = 100  # malformed records in a folder
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
COMMANDS = (
    "answer",
    "show",
    "show --machine all",
    "show --json",
    "report",
    "report transformer/torch",
    "report --to TO",
    "advise transformer/torch/train --budget 1GiB",
    "advise transformer/torch/train --budget 1GiB --json",
    "plan transformer/torch/train/fp32/b4/tiny",
    "predict transformer/jax/train/checkpoint/b8/cpu",
    "predict transformer/jax/train/checkpoint/b8/cpu --json",
    "max-batch --budget 1GiB transformer/jax/train/fp32/b4/cpu --device h100-80gb",
    "claims list",
    "claims A1 --all",
    "claims --json",
    "devices",
    "check-results RESULTS",
    "check-results RESULTS --json",
    "collect RESULTS",
    f"versions compare {OLD} {NEW}",
    f"versions compare {OLD} {NEW} --json",
)


def choose_good_records() -> list[Record]:
    """Return records of several kinds: with times, without, of two releases, over ranks."""
    good = []
    for record in select_originals(2):
        good += [set_version(record, OLD, record.provenance.measured_at), record]
    by_status = {record.status: record for record in read_sample()}
    over_ranks = [record for record in read_sample() if record.ranks]
    return [*good, *by_status.values(), *over_ranks[:1]]


GOOD = choose_good_records()
MODELS = [json.loads(record.model_dump_json()) for record in GOOD]
CONTENTS = st.one_of([draw_malformed(model) for model in MODELS])


def write_with_malformed(results: Path, contents: list[bytes]) -> None:
    """Write good records, and between them what is malformed, each in a line."""
    for number, record in enumerate(GOOD):
        environment = f"{record.parsed.framework}-{record.framework_version}"
        file = store.find_file(results, record.provenance.machine, environment)
        store.append(record, file)
        with file.open("ab") as lines:
            for content in contents[number :: len(GOOD)]:
                lines.write(content.replace(b"\n", b" ") + b"\n")


@pytest.fixture(autouse=True)
def without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def find_fault(command: str, results: Path) -> str | None:
    """Run a command, and return what is wrong with how it ended, if anything is."""
    places = {"RESULTS": results, "TO": results.with_name("to")}
    words = [str(places.get(word, word)) for word in command.split()]
    if "collect" in words:
        words += ["--results", str(results.with_name("into"))]
    elif str(results) not in words:
        words += ["--results", str(results)]
    done = framebench(*words)
    if done.returncode not in (0, 1, 2, 3):
        return f"exit code {done.returncode}: {done.stderr[-500:]}"
    if "Traceback" in done.stdout + done.stderr:
        return done.stderr
    if CONTROL.search(done.stdout + done.stderr):
        return "a control character"
    return None


@pytest.mark.timeout(300)
@generate(examples=2)
@given(malformed=st.lists(CONTENTS, min_size=AT_ONCE, max_size=AT_ONCE))
def test_malformed_records_are_passed_over(malformed):
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results")
        write_with_malformed(results, [each.content for each in malformed])
        before = list_content(results)
        for command in COMMANDS:
            assert (command, find_fault(command, results)) == (command, None)
        library.load(results)
        assert list_content(results) == before


@pytest.mark.timeout(300)
@generate(examples=1)
@given(malformed=st.lists(CONTENTS, min_size=2 * AT_ONCE, max_size=2 * AT_ONCE))
def test_measuring_goes_on_next_to_malformed_records(malformed):
    """A worker of ours plays the framework's part."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results")
        write_with_malformed(results, [each.content for each in malformed])
        before = len(list(store.read_all(results)))
        case = "transformer/torch/train/fp32/b4/tiny"
        python = make_fake_environment("engine/failing_worker.py", Path(folder)).python
        options = f"--env {python} --rounds 3"
        assert find_fault(f"run {case} {options}", results) is None
        assert find_fault(f"compare {case} {case} --blocks 1 {options}", results) is None
        assert len(list(store.read_all(results))) == before + 3, "one of run, two of compare"
