"""Cases over real ranks: verified against one rank at the same batch, and proven by what each holds and sends."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from math import prod
from pathlib import Path

import pytest

from framebench.engine import environments
from framebench.engine.blocks import Run
from framebench.engine.runner import Options
from framebench.engine.supervisor import Worker
from framebench.ranks import measure as ranks
from framebench.ranks.sharding import DEEPSPEED, STRATEGIES, WIDE
from framebench.ranks.worker import start
from framebench.records import provenance
from framebench.records.record import Record
from framebench.suite import profiles
from framebench.suite.case import Case
from framebench.suite.selectors import parse, select
from framebench.worker.verification import drop_local_buffers
from tests.processes import framebench, run_inside

SEEN = ("fsdp", "fully_sharded")  # each framework's usual way; the others in `make test-all`
CASES = [c for c in profiles.list_rank_cases() if c.size == "tiny" and c.support.supported]
OVER_TWO = [
    pytest.param(
        case,
        id=f"{case.workload}-{case.scenario}-{case.framework}-{case.strategy}",
        marks=[] if case.strategy in SEEN and case.workload == "transformer" and case.stage.trains else [pytest.mark.all_cells],
    )
    for case in CASES
    if case.ranks == 2
]
PLAIN = Options()
RANKED = "transformer/torch/train/fsdp/b4x2/tiny"


def shapes(case: Case) -> list[tuple[int, ...]]:
    return [p.shape for p in case.spec.params(case.config) if p.trainable]


@cache
def measured(case: Case, folder: Path) -> Record:
    with Run("session", PLAIN, folder) as run:
        return ranks.measure(case, environments.of_case(case), run)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.mark.slow
@pytest.mark.parametrize("case", OVER_TWO)
def test_cases_over_two_ranks_are_verified_and_proven(case: Case, folder: Path) -> None:
    record = measured(case, folder)
    assert (record.status, record.reason) == ("ok", None), record.log_tail
    assert record.usable, record.effect
    assert record.provenance.versions.keys() >= {case.framework, case.support.package or case.framework}
    assert [rank.rank for rank in record.ranks] == [0, 1]
    assert record.peak_bytes == max(rank.peaks[record.peak_instrument or ""] for rank in record.ranks)
    assert record.step_time_s is None, "ranks that share cores have no times"


@pytest.mark.slow
@pytest.mark.parametrize("case", OVER_TWO)
def test_the_fullest_rank_holds_what_the_rule_of_the_implementation_says(case: Case, folder: Path) -> None:
    every, states = measured(case, folder).ranks, len(case.spec.optimizer.states)
    rule = STRATEGIES[case.strategy].bytes(shapes(case), case.ranks, states)
    rule = {part: size for part, size in rule.items() if case.stage.trains or part == "parameters"}
    fullest = {
        part: max(rank.held.get(part, 0) for rank in every) for part in {*rule, *(p for rank in every for p in rank.held)}
    }
    assert {part: size for part, size in fullest.items() if size} == rule


@pytest.mark.slow
@pytest.mark.all_cells
def test_micro_batches_reduce_each_or_together(folder: Path) -> None:
    each, together = (
        measured(parse(f"transformer/torch/train/accumulate+{name}/b8x2/tiny"), folder) for name in ("fsdp", "fsdp_no_sync")
    )
    assert each.usable, (each.reason, each.effect)
    assert together.usable, (together.reason, together.effect)
    sent = [record.effect.evidence["collectives"] for record in (each, together) if record.effect]
    assert sent[0]["reduce-scatter"] == 4 * sent[1]["reduce-scatter"]
    assert sent[0]["all-gather"] == sent[1]["all-gather"]
    assert [r.held for r in each.ranks] == [r.held for r in together.ranks], "whole gradients are there inside the step only"


@pytest.mark.slow
@pytest.mark.all_cells
def test_four_ranks_of_whole_tensors_are_not_alike(folder: Path) -> None:
    case = parse("transformer/torch/train/zero_optimizer/b4x4/tiny")
    record = measured(case, folder)
    assert record.usable, record.reason
    states = [rank.held["optimizer states"] for rank in record.ranks]
    assert sum(states) == 2 * WIDE * sum(map(prod, shapes(case)))
    assert max(states) == STRATEGIES["zero_optimizer"].bytes(shapes(case), 4)["optimizer states"] > min(states)


def test_ranks_of_pytorch_normalise_alone_as_micro_batches_do() -> None:
    torch, jax = (parse(f"resnet50/{name}/b4x2/tiny") for name in ("torch/train/fsdp", "jax/train/fully_sharded"))
    assert (torch.golden_key, jax.golden_key) == ("tiny/train/b4/m2", "tiny/train/b4")
    tensors = {"weight": {}, "buffer": {}}
    assert drop_local_buffers(torch, tensors).keys() == {"weight"}
    assert (
        drop_local_buffers(jax, tensors) == drop_local_buffers(parse("resnet50/torch/train/fp32/b4/tiny"), tensors) == tensors
    )


def test_a_process_that_fails_ends_the_others() -> None:
    fails = "import os, sys, time; sys.exit(3) if os.environ['RANK'] == '1' else time.sleep(600)"
    assert start(2, ["-c", fails]) == 3
    assert start(2, ["-c", "import os; assert os.environ['JAX_COORDINATOR_ADDRESS'].startswith('localhost:')"]) == 0


UNDIVIDED = "tests.engine.undivided"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "torch/train/fsdp",
        "jax/eval/fully_sharded",
        *(
            pytest.param(name, marks=pytest.mark.all_cells)
            for name in (
                "jax/train/fully_sharded",
                "jax/train/fully_sharded_processes",
                "torch/train/deepspeed_zero3",
                "torch/eval/fsdp",
            )
        ),
    ],
)
def test_an_undone_sharding_is_not_proven(name: str, tmp_path: Path) -> None:
    case = parse(f"transformer/{name}/b4x2/tiny")
    environment = environments.of_case(case)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if case.framework == "torch" else []
    done = subprocess.run(
        [str(environment.python), *launcher, "-m", UNDIVIDED, json.dumps(PLAIN.task(case, "time").as_dict() | {"core": None})],
        env={**environment.variables(), **case.support.env, "PYTHONPATH": str(provenance.ROOT), "OMP_NUM_THREADS": "1",
             "PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        cwd=provenance.ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])["result"]
    assert found["verification"]["passed"], found["verification"]
    assert found["effect"]["proven"] is False


PROGRAMS = Path(__file__).parent / "programs"
ESTIMATED = PROGRAMS / "measure_estimated.py"


@pytest.mark.slow
@pytest.mark.all_cells
def test_deepspeeds_own_estimates_are_the_formulas() -> None:
    case = parse("transformer/torch/train/deepspeed_zero3/b4x2/tiny")
    message = run_inside(environments.of_case(case), ESTIMATED, variables=dict(case.support.env))
    assert message == [formula.at(1_000_000, 8, 30_000) for formula in DEEPSPEED]


def test_the_first_error_of_several_ranks_is_the_cause(tmp_path: Path) -> None:
    script = tmp_path / "python"
    errors = [json.dumps({"error": {"type": "E", "message": text, "oom": False}}) for text in ("the cause", "peer closed")]
    script.write_text("#!/bin/sh\n" + "".join(f"echo '{error}'\n" for error in errors) + "exit 1\n")
    script.chmod(0o755)
    worker = Worker(environments.Environment("torch", "0", script), "ranks", {}, {}, tmp_path / "log")
    outcome = worker.end(lambda phase: None, 60)
    assert outcome.status == "crashed"
    assert "the cause" in (outcome.reason or "")


def test_selectors_mean_ranks_only_where_they_are_named() -> None:
    assert {c.ranks for c in select("transformer/torch/train")} == {1}
    assert {c.id for c in select("transformer/torch/train/fsdp//tiny", ranks=True)} == {
        "transformer/torch/train/fsdp/b4x2/tiny", "transformer/torch/train/fsdp/b4x4/tiny",
    }  # fmt: skip
    several = select("transformer/torch/train/{ddp,fsdp,fsdp_keep}/b4x2", ranks=True)
    assert [c.strategy for c in several] == ["ddp", "fsdp", "fsdp_keep"]
    assert {c.strategy for c in select("transformer/torch/train/fsdp*/b4x2", ranks=True)} == {
        "fsdp",
        "fsdp_keep",
        "fsdp_no_sync",
    }
    assert parse("transformer/torch/train/fsdp+checkpoint/b4x2/tiny").strategy == "checkpoint+fsdp"
    assert not any(c.ranks > 1 for name in profiles.PROFILES for c in profiles.list_profile_cases(name))


def test_a_command_of_single_processes_refuses_ranks(tmp_path: Path) -> None:
    done = framebench("compare", RANKED, RANKED, "--results", str(tmp_path))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_a_framework_without_ranks_has_a_record_with_the_reason(tmp_path: Path) -> None:
    done = framebench("run", "transformer/jittor/train/fsdp/b4x2/tiny", "--results", str(tmp_path))
    assert done.returncode == 0
    assert "unsupported: Jittor's MPI operators" in done.stdout + done.stderr
