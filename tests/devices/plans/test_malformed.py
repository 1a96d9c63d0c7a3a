"""Predictions that nobody should have written, next to good ones: they take down no command."""

import json
import tempfile
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import framebench as library
from framebench.records.provenance import ROOT
from tests.processes import framebench
from tests.records.malformed import draw_malformed, generate

GPU = "h100-80gb"
FILE = Path("planned", GPU, "torch-2.13.0.jsonl")
GOOD = (ROOT / "results" / FILE).read_text().splitlines()[:3]
COMMANDS = (f"report --device {GPU}", "devices")
LINES = st.one_of([draw_malformed(json.loads(line)) for line in GOOD])


@pytest.mark.timeout(300)
@generate(examples=10)
@given(malformed=st.lists(LINES, min_size=60, max_size=60))
def test_malformed_predictions_are_passed_over(malformed):
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(folder) / FILE
        file.parent.mkdir(parents=True)
        lines = [line.encode() for line in GOOD]
        lines += [each.content.replace(b"\n", b" ") for each in malformed]
        file.write_bytes(b"\n".join(lines) + b"\n")
        for command in COMMANDS:
            done = framebench(*command.split(), results=folder)
            assert done.returncode in (0, 1), command
        assert len(library.planned(Path(folder))) > 0
