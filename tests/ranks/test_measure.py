"""Cases over real ranks: verified against one rank at the same batch, and proven by what each holds
and sends.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from framebench.engine import environments
from framebench.engine.blocks import Run
from framebench.engine.runner import Options
from framebench.ranks import measure
from framebench.ranks.sharding import FORMULAS, STRATEGIES
from framebench.ranks.worker import run_processes
from framebench.records import provenance
from framebench.records.record import Record
from framebench.suite import profiles
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from tests.marks import rarely
from tests.processes import framebench, run_inside

USUAL = ("fsdp", "fully_sharded")  # each framework's usual way; the others in `make test-all`
ESTIMATED = Path(__file__).parent / "programs" / "measure_estimated.py"


def is_usual(case: Case) -> bool:
    """Return whether `make test` runs this case."""
    return case.strategy in USUAL and case.workload == "transformer" and case.scenario_spec.trains


def list_cases_over_two() -> list[ParameterSet]:
    """Return the smallest cases over two ranks, as parameters of a test."""
    parameters = []
    for case in profiles.list_rank_cases():
        if case.size == "tiny" and case.ranks == 2 and case.support.supported:
            name = f"{case.workload}-{case.scenario}-{case.framework}-{case.strategy}"
            marks = () if is_usual(case) else pytest.mark.all_cases
            parameters.append(pytest.param(case, id=name, marks=marks))
    return parameters


def list_shapes(case: Case) -> list[tuple[int, ...]]:
    """Return the shapes of the trainable parameters."""
    return [
        parameter.shape
        for parameter in case.workload_spec.params(case.config)
        if parameter.trainable
    ]


@cache
def measure_case(case: Case, folder: Path) -> Record:
    """Measure a case once for all tests of this process."""
    with Run("session", Options(), folder) as run:
        return measure.measure(case, environments.find_for_case(case), run)


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.mark.slow
@pytest.mark.parametrize("case", list_cases_over_two())
def test_cases_over_two_ranks_are_verified_and_proven(case, folder):
    record = measure_case(case, folder)
    assert (record.status, record.reason) == ("ok", None), record.log_tail
    assert record.usable, record.effect
    assert record.provenance.versions.keys() >= {
        case.framework,
        case.support.package or case.framework,
    }
    assert [rank.rank for rank in record.ranks] == [0, 1]
    assert record.peak_bytes == max(
        rank.peaks[record.peak_instrument or ""] for rank in record.ranks
    )
    assert record.step_time_s is None, "ranks that share cores have no times"


@pytest.mark.slow
@pytest.mark.parametrize("case", list_cases_over_two())
def test_the_largest_share_of_each_part_is_as_the_strategy_computes(case, folder):
    states = len(case.workload_spec.optimizer.states)
    expected = STRATEGIES[case.strategy].count_bytes(list_shapes(case), case.ranks, states)
    if not case.scenario_spec.trains:
        expected = {"parameters": expected["parameters"]}
    largest_share = Counter()  # of a part, such as the weights, over all ranks
    for rank in measure_case(case, folder).ranks:
        largest_share |= Counter(rank.held)  # the larger of both; parts without bytes are left out
    assert dict(largest_share) == expected


@pytest.mark.slow
@pytest.mark.all_cases
def test_micro_batches_reduce_each_or_together(folder):
    each = measure_case(parse("transformer/torch/train/accumulate+fsdp/b8x2/tiny"), folder)
    together = measure_case(
        parse("transformer/torch/train/accumulate+fsdp_no_sync/b8x2/tiny"), folder
    )
    assert each.usable, (each.reason, each.effect)
    assert together.usable, (together.reason, together.effect)
    sent_by_each = each.effect.evidence["collectives"]
    sent_together = together.effect.evidence["collectives"]
    assert sent_by_each["reduce-scatter"] == 4 * sent_together["reduce-scatter"]
    assert sent_by_each["all-gather"] == sent_together["all-gather"]
    # whole gradients are there inside the step only
    assert [rank.held for rank in each.ranks] == [rank.held for rank in together.ranks]


def test_a_process_that_fails_ends_the_others():
    fails = "import os, sys, time; sys.exit(3) if os.environ['RANK'] == '1' else time.sleep(600)"
    assert run_processes(2, ["-c", fails]) == 3


def test_processes_are_given_a_coordinator_address():
    reads = "import os; assert os.environ['JAX_COORDINATOR_ADDRESS'].startswith('localhost:')"
    assert run_processes(2, ["-c", reads]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "torch/train/fsdp",
        "jax/eval/fully_sharded",
        rarely("jax/train/fully_sharded"),
        rarely("jax/train/fully_sharded_processes"),
        rarely("torch/train/deepspeed_zero3"),
        rarely("torch/eval/fsdp"),
    ],
)
def test_an_undone_sharding_is_not_proven(name, tmp_path):
    """The step stays right without the sharding, so only the proof can tell."""
    case = parse(f"transformer/{name}/b4x2/tiny")
    environment = environments.find_for_case(case)
    command = [str(environment.python)]
    if case.framework == "torch":
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    orders = Options().make_task(case, "time").as_dict() | {"core": None}
    # the usual worker, but it takes the sharding out first
    command += ["-m", "tests.engine.undivided", json.dumps(orders)]
    variables = {
        **environment.list_variables(),
        **case.support.env,
        "PYTHONPATH": str(provenance.ROOT),
        "OMP_NUM_THREADS": "1",
        "PATH": "/usr/bin:/bin",
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        command, env=variables, cwd=provenance.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])["result"]
    assert result["verification"]["passed"], result["verification"]
    assert result["effect"]["proven"] is False


@pytest.mark.slow
@pytest.mark.all_cases
def test_deepspeeds_own_estimates_are_the_formulas():
    case = parse("transformer/torch/train/deepspeed_zero3/b4x2/tiny")
    stage_2 = FORMULAS["estimate_zero2_model_states_mem_needs"]
    stage_3 = FORMULAS["estimate_zero3_model_states_mem_needs"]
    estimates = run_inside(
        environments.find_for_case(case), ESTIMATED, variables=dict(case.support.env)
    )
    assert estimates == [one.compute(1_000_000, 8, 30_000) for one in (stage_2, stage_3)]


def test_a_framework_without_ranks_has_a_record_with_the_reason(tmp_path):
    done = framebench("run", "transformer/jittor/train/fsdp/b4x2/tiny", results=tmp_path)
    assert done.returncode == 0
    assert "unsupported: Jittor's MPI operators" in done.stdout + done.stderr
