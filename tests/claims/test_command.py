"""The command: the ledger as JSON, faults of a user's, and the measuring of what is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from framebench.analysis.results import Results
from framebench.claims import run as measuring
from framebench.claims.claim import Claim
from framebench.claims.measures import ProgramMeasure
from framebench.claims.registry import REGISTRY
from framebench.claims.run import InterruptedRun, Missing, find_missing
from framebench.claims.store import MachineResults
from framebench.cli.shared import app
from framebench.engine import runner
from framebench.suite.case import Case
from tests.callbacks import ignore
from tests.claims.claim_records import (
    COMPILED,
    EAGER,
    add_blocks,
    add_both,
    add_record,
    put_numbers,
)


def find_missing_here(results: Path, *claims: str) -> Missing:
    """Return what the machine `m` lacks of these claims at the size `tiny`."""
    return find_missing(REGISTRY.select(claims), MachineResults(Results(results), "m"), "tiny")


def test_missing_cases_are_collected_once(results):
    """B19 compares times and peaks of compiled and eager steps; B14 times eager ones, too."""
    add_record(results, EAGER)
    missing = find_missing_here(results, "B19", "B14")
    timed = [case.id for case in missing.timed]
    untimed = [case.id for case in missing.untimed]
    assert {EAGER, COMPILED} <= set(timed)
    assert len({*timed, *untimed}) == len(timed) + len(untimed)
    assert not missing.pairs, "every block has the baseline, the eager step"


def test_times_that_share_a_block_are_not_missing(results):
    """B19 compares compiled with eager steps of three workloads; the Transformer's have blocks."""
    add_blocks(results, [0.5] * 3)
    missing = find_missing_here(results, "B19")
    assert {case.workload for case in missing.timed} == {"resnet50", "unet3d"}


def run_claims(*arguments: str, results: Path) -> Any:
    return CliRunner().invoke(app, ["claims", *arguments, "--results", str(results)])


def test_the_command_prints_json(results):
    add_both(results, 80)  # of 100 MiB that the eager case takes
    arguments = ("B19 fusion", "--json", "--size", "tiny", "--machine", "m")
    (entry,) = json.loads(run_claims(*arguments, results=results).stdout)
    assert {"id", "verdict", "claimed", "measured", "low", "high", "records", "lines"} <= set(entry)
    (measured,) = [line for line in entry["lines"] if line["measured"] is not None]
    assert measured["measured"] == pytest.approx(0.8)
    assert len(measured["records"]) == 2
    for place in measured["records"]:
        assert re.fullmatch(r"records/m/torch-[\d.]+\.jsonl:[12]", place)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Z9"], "no claim Z9, and none with these words; claims: A1 to A"),
        (["b1-speed"], "no claim B1 SPEED, and none with these words; claims: A1 to A"),
        (["channels_last"], "framebench show '*/*/train/{fp32,channels_last}' --by-machine"),
        (["set_to_none"], "no claim is about set_to_none"),
        (["--machine", "nowhere"], "machines: m"),
        (["--size", "huge"], "sizes: cpu, full, tiny"),
    ],
)
def test_invalid_arguments_list_the_valid_ones(results, arguments, message):
    add_both(results, 80)
    found = run_claims(*arguments, results=results)
    assert found.exit_code == 2
    assert message in re.sub(r"\s+", " ", found.output)


@pytest.mark.parametrize(
    ("claims", "command"),
    [
        (["B19 fusion"], "claims 'B19 fusion' --all"),
        (["A1", "A2"], "claims 'A1'"),
        (["Z9"], "claims"),
    ],
)
def test_a_suggested_command_repeats_what_the_reader_chose(results, claims, command):
    add_both(results, 80)
    choices = ("--size", "tiny", "--machine", "m", "--device", "a100")
    found = run_claims(*claims, *choices, results=results)
    # a folder's name may be broken where a table's caption is
    printed = "".join(found.output.split())
    suggested = f"framebench {command} {' '.join(choices)} --results {results}"
    assert suggested.replace(" ", "") in printed


class Harness:
    """What measures, plans and runs programs, and only notes what it is asked for."""

    def __init__(self) -> None:
        self.measured: list[Case] = []
        self.planned: list[Case] = []
        self.said: list[str] = []
        self.run_program = Mock()

    def measure(self, cases: list[Case], *_: Any) -> list[str]:
        self.said.append("measuring")
        self.measured += cases
        return ["ok"] * len(cases)

    def plan(self, cases: list[Case], *_: Any) -> list[Any]:
        self.planned += cases
        return []


@pytest.fixture
def harness(monkeypatch) -> Harness:
    """Put the harness in the place of the true one, which has tests of its own."""
    harness = Harness()
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "m")
    monkeypatch.setattr(measuring, "say", harness.said.append)
    monkeypatch.setattr(measuring, "measure_all", harness.measure)
    monkeypatch.setattr(measuring, "planned_for", harness.plan)
    monkeypatch.setattr(measuring.measure, "run", harness.run_program)
    monkeypatch.setattr(measuring.environments, "ensure", ignore)
    monkeypatch.setattr(measuring.environments, "warm", ignore)
    return harness


def test_run_plans_the_cases_without_plans(harness, results, monkeypatch):
    """C11 compares fine-tuning strategies, also by plans for a GPU."""
    monkeypatch.setattr("framebench.claims.plans.read_plans", Mock(return_value={}))
    found = run_claims("C11", "--run", "--size", "tiny", results=results)
    assert found.exit_code == 0, found.output
    planned_ids = {case.id for case in harness.planned}
    assert "resnet50/torch/finetune/half/b64/full" in planned_ids
    assert "resnet50/torch/finetune/checkpoint/b64/full" in planned_ids


def test_run_measures_missing_cases_only(harness, results):
    """C11 compares fine-tuning strategies; C9 needs a GPU."""
    add_record(results, "transformer/torch/finetune/half/b4/tiny")
    found = run_claims("C11", "C9", "--run", "--size", "tiny", results=results)
    assert found.exit_code == 0, found.output
    measured_ids = {case.id for case in harness.measured}
    assert "resnet50/torch/finetune/checkpoint/b4/tiny" in measured_ids
    assert "transformer/torch/finetune/half/b4/tiny" not in measured_ids, "it has a record"
    for case in harness.measured:
        assert not runner.explain_unsupported(case), "left to a machine with a GPU"
    assert not list(results.glob(".session*"))


def test_run_of_a_claim_that_no_measurement_decides_says_what_it_lacks(results, monkeypatch):
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "m")
    add_record(results, EAGER)
    found = run_claims("A20", "--run", results=results)
    assert found.exit_code == 0, found.output
    assert "nothing is missing" not in found.output
    assert "Not testable here (needs a search" in " ".join(found.output.split())


def test_run_says_before_it_measures_how_long_that_takes_and_how_to_interrupt_it(harness, results):
    """B19 compares the times of compiled and eager steps, of which none is there."""
    add_record(results, EAGER)
    run_claims("B19", "--run", "--size", "tiny", "--blocks", "3", results=results)
    before = harness.said[: harness.said.index("measuring")]
    (work,) = [text for text in before if text.startswith("to be measured: ")]
    assert re.search(r"\d+ cases, each 3 times; .*at least \d+ (s|min)", work)
    assert "Ctrl-C" in work


def test_blocks_that_an_interrupted_run_lacks_are_missing(results):
    """One block gives a ratio already, but no interval."""
    add_blocks(results, [0.5] * 3)
    (claim,) = REGISTRY.select(["B19 fusion"])
    machine = MachineResults(Results(results), "m")
    (session,) = {record.provenance.session for record in machine.ok_records[EAGER]}

    def list_timed(blocks: int, session: str) -> set[str]:
        missing = find_missing([claim], machine, "tiny", InterruptedRun(session, blocks))
        return {case.id for case in missing.timed if case.workload == "transformer"}

    assert list_timed(3, session) == set()
    assert list_timed(5, "of another run") == set()
    assert list_timed(5, session) == {EAGER, COMPILED}


def test_programs_alone_are_judged_in_a_folder_without_records(harness, results):
    claim = next(claim for claim in REGISTRY.claims if rests_on_programs(claim))
    probes = {measurement.measure.probe for measurement in claim.measurements}

    def run_program(probe: str, *_: Any) -> None:
        put_numbers(results, probe, error="ValueError: planted")

    harness.run_program.side_effect = run_program
    found = run_claims(claim.name, "--run", results=results)
    assert found.exit_code == 0, found.output
    assert harness.run_program.call_count == len(probes)
    assert claim.name in found.output


def rests_on_programs(claim: Claim) -> bool:
    """Return whether a claim needs no records."""
    kinds = {type(measurement.measure) for measurement in claim.measurements}
    return kinds == {ProgramMeasure} and not claim.absent and not claim.needs.lacking
