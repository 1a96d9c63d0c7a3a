"""What docs/commands.md says: exit codes, one way to name cases, and whose records a command
reads.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from framebench.cli import run
from framebench.cli.shared import ParsedSelector, parse_selector
from framebench.records import store
from framebench.suite.case import Case, UnknownCase
from tests.fake_records import make_measured
from tests.processes import ROOT, framebench, read_json
from tests.record_files import add_records, append_lines, load_fields
from tests.sample_records import MACHINE, RESULTS

ROW = re.compile(r"^\| (\d+) \| .* \| `framebench (.*)` \|$", re.M)
PAGE = (ROOT / "docs" / "commands.md").read_text()
EXAMPLES = [(int(code), command) for code, command in ROW.findall(PAGE)]
TRAIN = Case.from_id("unet3d/torch/train/checkpoint/b4/cpu")
B2 = (TRAIN, Case.from_id("unet3d/torch/train/fp32/b4/cpu"))  # cases of a claim


def copy_published(results: Path, machine: str, cases: tuple[Case, ...] = B2) -> None:
    """Copy the published records of these cases, as if this machine had measured them."""
    file = store.find_file(results, machine, "torch-2.13.0")
    for fields in load_fields(store.find_file(RESULTS, MACHINE, "torch-2.13.0")):
        if fields["case"] in [case.id for case in cases]:
            fields["provenance"]["machine"] = machine
            append_lines(file, json.dumps(fields))


@pytest.mark.parametrize(("code", "command"), EXAMPLES)
def test_documented_examples_have_their_exit_codes(code, command, results, monkeypatch):
    """Each command runs as the page prints it, but `run` into a folder of its own, since another
    process may be measuring.
    """
    # the page's `framebench run` is the example of an interruption
    monkeypatch.setattr(run.installed, "find_environments", Mock(side_effect=KeyboardInterrupt))
    words = shlex.split(command)
    if words[0] == "run":
        words += ["--results", results]
    framebench(*words, code=code)


@pytest.mark.parametrize(
    ("selector", "parts"),
    [
        (
            "transformer/*/train/*/b4/cpu",
            ParsedSelector("transformer", None, "train", None, batch=4, size="cpu"),
        ),
        ("unet3d//eval", ParsedSelector("unet3d", None, "eval")),
        ("", ParsedSelector()),
        (
            "transformer/torch/train/fp32/tiny",
            ParsedSelector("transformer", "torch", "train", "fp32", batch=None, size="tiny"),
        ),
    ],
)
def test_missing_parts_of_a_selector_are_read_as_none(selector, parts):
    assert parse_selector(selector) == parts


@pytest.mark.parametrize("selector", ["a/b/c/d/b1/f/g", "transformer/torch/train/fp32/b0"])
def test_an_invalid_selector_is_refused(selector):
    with pytest.raises(UnknownCase, match=r"b8|bN"):
        parse_selector(selector)


def test_a_named_machine_answers_for_its_own_cases_alone(results):
    add_records(results, make_measured("fp32", 100, origin={"machine": "here"}))
    copy_published(results, "published")
    framebench("show", TRAIN.id, "--machine", "published", results=results, code=0)
    framebench("show", TRAIN.id, "--machine", "here", results=results, code=1)


def test_all_machines_are_shown_with_their_names_and_releases(results):
    add_records(results, make_measured("fp32", 100, origin={"machine": "here"}))
    copy_published(results, "published")
    shown = framebench("show", "--machine", "all", results=results).stdout
    assert "  here, 1\n" in shown
    assert "  published, 2.13.0" in shown


def test_comparing_two_cases_does_not_change_advice(results, monkeypatch):
    """After `compare` this machine has records of two cases.

    Advice gives the same numbers, and names this machine only for those two.
    """
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "here")
    shutil.copytree(RESULTS / "records" / MACHINE, results / "records" / MACHINE)
    question = ("advise", "transformer/*/train/*/b4", "--budget", "1GiB")

    def list_offers():
        return read_json(*question, results=results)["fitting"]

    def record_as_compare_does(case):
        copy_published(results, "here", (case,))

    before = list_offers()
    compared = [Case("transformer", "torch", "train", name, 4) for name in ("fp32", "checkpoint")]
    for case in compared:
        record_as_compare_does(case)
    after = list_offers()

    for offer, earlier in zip(after, before, strict=True):
        for name in ("case", "peak_bytes", "throughput", "fits", "judged_by"):
            assert offer[name] == earlier[name]
    of_this_machine = {offer["case"] for offer in after if offer["machine"] == "here"}
    assert of_this_machine == {case.id for case in compared}
