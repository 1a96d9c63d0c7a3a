"""The list for a GPU, and its rehearsal: the same script and reports on the CPU, under the name of
a GPU that is none.
"""

from __future__ import annotations

import sys
import tarfile
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from framebench.engine.environments import describe
from framebench.records import provenance, store
from framebench.suite.selectors import parse
from tests import fake_records
from tests.callbacks import ignore
from tests.fake_records import RIGHT
from tests.processes import run_process
from tests.record_files import list_files, load_fields, save_fields
from tools import gpu
from tools.gpu import LIST, ListedCase, read_list, shrink_for_rehearsal

SHORT = """\
block,rounds,case,seconds,gib
verification,0,transformer/torch/train/fp32/b4/tiny,30,1
in PyTorch,8,transformer/torch/train/fp32/b8/full,30,10
in PyTorch,8,transformer/torch/train/offload/b8/full,30,6
in JAX,8,transformer/jax/eval/no_grad/b8/full,30,5
too large for any GPU,8,resnet50/torch/train/fp32/b64/full,30,500
"""


@pytest.fixture(scope="module")
def rehearsed(environment, tmp_path_factory) -> Path:
    """Return the results of a rehearsal."""
    pytest.importorskip("sphinx", reason="Sphinx is not installed: `make test-site` installs it")
    folder = tmp_path_factory.mktemp("gpu-session")
    (folder / "list.csv").write_text(SHORT)
    options = ["--results", folder / "results", "--list", folder / "list.csv"]
    run_process(["tools/gpu.sh", "--rehearse", *options], PYTHON=sys.executable)
    return folder / "results"


@pytest.mark.all_cases
def test_every_rehearsed_case_has_a_record_of_the_made_up_gpu(rehearsed):
    records = {}
    for record in store.read_all(rehearsed):
        case = record.parsed
        records[case.framework, case.scenario, case.strategy, bool(record.step_s)] = record
        assert record.provenance.machine == "made-up-gpu"
        assert record.provenance.core is None, "nothing was pinned"
        assert record.provenance.hardware["gpus"] == ["a rehearsal, no GPU"]
    offloaded = records["torch", "train", "offload", False]
    assert "finds none it can use" in offloaded.reason, "said by the worker"
    assert {key: record.status for key, record in records.items()} == {
        ("torch", "train", "fp32", False): "ok",  # verification alone
        ("torch", "train", "fp32", True): "ok",
        ("torch", "train", "offload", False): "unsupported",
        ("torch", "eval", "no_grad", True): "ok",  # beside JAX's
        ("jax", "eval", "no_grad", True): "ok",
    }


@pytest.mark.all_cases
def test_a_packed_session_resumes_elsewhere(rehearsed, tmp_path, monkeypatch):
    """Nothing that has an answer is measured again; what crashed is, once the code is another."""
    with tarfile.open(rehearsed.with_suffix(".tgz")) as archive:
        archive.extractall(tmp_path, filter="data")
    results = tmp_path / "results"
    blocks = shrink_for_rehearsal(read_list(rehearsed.parent / "list.csv"))
    measured = []

    def measure(name, rows, *_):
        for row in rows:
            measured.append(row.case.id)
        return []

    def resume():
        environments = {name: describe(name) for name in ("torch", "jax")}
        gpu.measure_blocks(blocks, environments, results, time.monotonic() + 3600)
        return measured

    monkeypatch.setenv("FRAMEBENCH_MACHINE", "made-up-gpu")
    monkeypatch.setattr(gpu, "measure", measure)
    monkeypatch.setattr(gpu, "read_free_gpu_memory", Mock(return_value=80 * 2**30))
    assert resume() == []

    crashed = crash_all_of_jax(results)
    assert resume() == []
    monkeypatch.setattr(provenance, "find_commit", Mock(return_value="another"))
    assert resume() == [crashed]


def crash_all_of_jax(results: Path) -> str:
    """Replace JAX's records by one that says that its case crashed; return that case."""
    (ok,) = [record for record in store.read_all(results) if record.parsed.framework == "jax"]
    for file in list_files(results):
        others = [fields for fields in load_fields(file) if "/jax/" not in fields["case"]]
        save_fields(file, others)
    crashed = ok.model_copy(update={"status": "crashed", "reason": "planted"})
    store.append(crashed, store.find_file(results, "made-up-gpu", "jax-0"))
    return ok.case


def make_listed(case: str, gib: float, seconds: float = 10.0) -> ListedCase:
    """Return a line of a list."""
    return ListedCase("a block", 8, parse(case), seconds, gib)


def test_a_block_without_enough_time_is_skipped(tmp_path, monkeypatch):
    case = "transformer/torch/train/fp32/b8/full"
    blocks = {
        "slow": [make_listed(case, 1, seconds=500.0)],
        "late": [make_listed(case, 1, seconds=50.0)],
        "small": [make_listed(case, 1, seconds=5.0)],
    }
    began = []

    def measure(name, *_):
        began.append(name)
        return []

    monkeypatch.setattr(gpu, "measure", measure)
    monkeypatch.setattr(gpu, "read_free_gpu_memory", ignore)
    gpu.measure_blocks(blocks, {"torch": describe("torch")}, tmp_path, time.monotonic() + 20)
    assert began == ["small"]


def test_a_case_of_three_blocks_is_measured_three_times(tmp_path, monkeypatch):
    """What failed in its first block is not tried in the others."""
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "m")
    line = "5,transformer/torch/train/{}/b4/tiny,30,1\n"
    rows = [f"block {number},{line.format('fp32')}" for number in (1, 2, 3)]
    rows.append(f"block 1,{line.format('offload')}")
    rows.append(f"block 2,{line.format('offload')}")
    (tmp_path / "list.csv").write_text("block,rounds,case,seconds,gib\n" + "".join(rows))
    blocks = read_list(tmp_path / "list.csv")
    environments = {"torch": describe("torch")}
    results = tmp_path / "results"

    def list_left():
        left = []
        for name, rows in blocks.items():
            for listed in gpu.select_left(rows, results, environments):
                left.append(f"{name}: {listed.case.strategy}")
        return left

    both = ["block 1: fp32", "block 1: offload", "block 2: fp32", "block 2: offload"]
    file = store.find_file(results, "m", "torch-2.13.0")
    assert list_left() == [*both, "block 3: fp32"]
    failed = parse("transformer/torch/train/offload/b4/tiny")
    store.append(fake_records.record(failed, status="unsupported", reason="needs a GPU"), file)
    assert list_left() == ["block 1: fp32", "block 2: fp32", "block 3: fp32"]
    timed = fake_records.record(
        parse("transformer/torch/train/fp32/b4/tiny"), **RIGHT, step_s=[0.1]
    )
    store.append(timed, file)
    assert list_left() == ["block 2: fp32", "block 3: fp32"]
    store.append(timed, file)
    assert list_left() == ["block 3: fp32"]


def test_cases_alive_at_once_fit_the_gpu():
    large = []
    for strategy in ("fp32", "amp_bf16", "checkpoint"):
        large.append(make_listed(f"transformer/torch/train/{strategy}/b8/full", 30))
    jax = make_listed("transformer/jax/train/fp32/b8/full", 5)
    tiny = make_listed("transformer/jax/train/fp32/b4/tiny", 1)
    free = 80 * gpu.GIB
    assert gpu.split_by_memory([*large, tiny], free) == [large[:2], [large[2], tiny]]
    assert gpu.split_by_memory([tiny, large[0], jax, large[1]], free) == [
        [tiny, large[0]],
        [jax],
        [large[1]],
    ]
    assert gpu.split_by_memory(large, None) == [large], "where the GPU does not tell"


def test_parts_of_a_large_block_have_their_own_sessions(monkeypatch, tmp_path):
    """Without times a session's blocks are counted among the cases of a call: two parts would give
    two blocks one name.
    """
    rows = read_list(LIST)["claims about what a GPU holds"]
    sessions = []

    def measure_all(cases, session, *_):
        sessions.append(session.id)
        return ["ok"] * len(cases)

    monkeypatch.setattr(gpu, "measure_all", measure_all)
    assert gpu.measure("claims", rows, {}, tmp_path, 40 * 2**30) == ["ok"] * len(rows)
    assert len(set(sessions)) == len(sessions)
    assert len(sessions) > 1
