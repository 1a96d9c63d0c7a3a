"""The list for a GPU, and its rehearsal: the same script and reports on the CPU, under the name of
a GPU that is none.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from framebench.engine import capacity as room
from framebench.engine.environments import Environment, describe
from framebench.records import provenance, store
from framebench.records.record import Record
from framebench.suite.case import is_declared
from framebench.suite.selectors import parse
from tests.processes import ROOT
from tests.record_files import list_files, load_fields, save_fields
from tools import gpu
from tools.gpu import LIST, ListedCase, read_list, shrink_for_rehearsal

SHORT = (  # block, case as in the list, GiB
    ("verification", "transformer/torch/train/fp32/b4/tiny", 1),
    ("in PyTorch", "transformer/torch/train/fp32/b8/full", 10),
    ("in PyTorch", "transformer/torch/train/offload/b8/full", 6),
    ("in JAX", "transformer/jax/eval/no_grad/b8/full", 5),
    ("too large for any GPU", "resnet50/torch/train/fp32/b64/full", 500),
)
HALF_AN_HOUR = 1800
STARTS = 4 * 60  # seconds of it for starting the machine, and the interpreters of three commands


def write(file: Path, rows: Iterable[tuple[str, str, int]]) -> Path:
    lines = (
        [1, block, 0 if block == "verification" else 8, case, 30, gib] for block, case, gib in rows
    )
    with file.open("w") as text:
        csv.writer(text).writerows([["half", "block", "rounds", "case", "seconds", "gib"], *lines])
    return file


def rehearse(results: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = ["tools/gpu.sh", "--rehearse", "--results", str(results), *more]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def made(
    environment: dict[str, Environment], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """The results of a rehearsal, and what it said."""
    folder = tmp_path_factory.mktemp("gpu-session")
    done = rehearse(folder / "results", "--list", str(write(folder / "list.csv", SHORT)))
    assert done.returncode == 0, done.stderr
    return folder / "results", done.stdout + done.stderr


@pytest.fixture(scope="module")
def records(made: tuple[Path, str]) -> list[Record]:
    return list(store.read_all(made[0]))


@pytest.mark.all_cases
def test_every_case_of_the_list_has_its_record(records: list[Record]) -> None:
    result = {
        (r.parsed.framework, r.parsed.scenario, r.parsed.strategy, bool(r.step_s)): r
        for r in records
    }
    assert {key: r.status for key, r in result.items()} == {
        ("torch", "train", "fp32", False): "ok",  # verification alone
        ("torch", "train", "fp32", True): "ok",
        ("torch", "train", "offload", False): "unsupported",
        ("torch", "eval", "no_grad", True): "ok",  # beside JAX's
        ("jax", "eval", "no_grad", True): "ok",
    }
    assert "finds none it can use" in (result["torch", "train", "offload", False].reason or ""), (
        "said by the worker"
    )


@pytest.mark.all_cases
def test_a_rehearsal_records_the_made_up_gpu(records: list[Record]) -> None:
    assert {r.provenance.machine for r in records} == {"made-up-gpu"}
    assert {r.provenance.core for r in records} == {None}, "nothing was pinned"
    assert all(r.provenance.hardware["gpus"] == ["a rehearsal, no GPU"] for r in records)
    assert all("memory_bytes" in r.provenance.gpu["before"] for r in records)


@pytest.mark.all_cases
def test_a_packed_session_resumes_elsewhere(
    made: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that has an answer is measured again; what crashed is, once the code is another."""
    with tarfile.open(made[0].with_suffix(".tgz")) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "made-up-gpu")
    asked: list[str] = []
    monkeypatch.setattr(
        gpu, "measure", lambda name, rows, *_: asked.extend(one.case.id for one in rows) or []
    )
    monkeypatch.setattr(gpu, "read_free_gpu_memory", lambda: 80 * 2**30)
    blocks = shrink_for_rehearsal(read_list(made[0].parent / "list.csv"))
    ready = {name: describe(name) for name in ("torch", "jax")}
    results = tmp_path / "results"
    assert gpu.measure_blocks(blocks, ready, results, time.monotonic() + 3600) == []
    assert asked == []
    ok = next(r for r in store.read_all(results) if r.parsed.framework == "jax")
    for file in list_files(results):
        save_fields(file, [one for one in load_fields(file) if "/jax/" not in one["case"]])
    crashed = ok.model_copy(update={"status": "crashed", "reason": "planted"})
    store.append(crashed, store.find_file(results, "made-up-gpu", "jax-0"))
    gpu.measure_blocks(blocks, ready, results, time.monotonic() + 3600)
    assert asked == []
    monkeypatch.setattr(provenance, "find_commit", lambda: "another")
    gpu.measure_blocks(blocks, ready, results, time.monotonic() + 3600)
    assert asked == [ok.case]


def test_a_smaller_block_runs_if_the_next_does_not_fit_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = parse("transformer/torch/train/fp32/b8/full")
    blocks = {}
    for name, seconds in {"slow": 500.0, "late": 50.0, "small": 5.0}.items():
        blocks[name] = [ListedCase("1", name, 8, case, seconds, 1)]
    began: list[str] = []
    monkeypatch.setattr(gpu, "measure", lambda name, *_: began.append(name) or [])
    monkeypatch.setattr(gpu, "read_free_gpu_memory", lambda: None)

    gpu.measure_blocks(blocks, {"torch": describe("torch")}, tmp_path, time.monotonic() + 20)

    assert began == ["small"]


def test_the_time_limit_interrupts() -> None:
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), gpu.interrupt_at(started + 0.2):
        time.sleep(60)
    assert time.monotonic() - started < 10


def test_uncommitted_code_is_not_packed(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "gpu.sh", tmp_path / "tools")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    done = subprocess.run(["tools/gpu.sh", "--pack"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "commit first" in done.stdout
    assert not (tmp_path / "gpu-session").exists()


def test_a_copy_without_its_repository_knows_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "query_git", lambda *_: None)
    assert provenance.find_commit() is None
    monkeypatch.setenv("FRAMEBENCH_COMMIT", "f" * 40)
    assert provenance.find_commit() == provenance.name_code() == "f" * 40


def test_the_list_can_be_measured() -> None:
    """All are known cases that a GPU can do, each once for memory alone and once for times at
    most.
    """
    listed = [one for rows in read_list(LIST).values() for one in rows]
    for one in listed:
        assert is_declared(one.case), one.case.id
        assert one.case.support.supported, one.case.id
    different = {(one.case, one.rounds > 0) for one in listed}
    assert len(different) == len(listed)


def test_the_first_half_of_the_list_takes_half_an_hour() -> None:
    listed = [one for rows in read_list(LIST).values() for one in rows]
    first = [one for one in listed if one.half == "1"]
    timed = [one for one in first if one.rounds]
    assert len(timed) >= 20
    assert sum(one.seconds for one in first) < HALF_AN_HOUR - STARTS


def test_the_cases_of_a_timed_block_are_alive_together_on_a_gpu_of_80_gib() -> None:
    for name, rows in read_list(LIST).items():
        assert len({(one.rounds, one.half) for one in rows}) == 1, name
        sizes = [one.gib for one in rows]
        if rows[0].rounds:
            assert sum(sizes) + max(sizes) < 80 * room.GPU_SHARE, name


def one(case: str, gib: float, rounds: int = 0) -> ListedCase:
    return ListedCase("1", "a block", rounds, parse(case), 10.0, gib)


def test_cases_alive_at_once_fit_the_gpu() -> None:
    torch = [
        one(f"transformer/torch/train/{name}/b8/full", 30)
        for name in ("fp32", "amp_bf16", "checkpoint")
    ]
    jax = one("transformer/jax/train/fp32/b8/full", 5)
    tiny = one("transformer/jax/train/fp32/b4/tiny", 1)
    assert gpu.split_by_memory([*torch, tiny], 80 * gpu.GIB) == [torch[:2], [torch[2], tiny]]
    assert gpu.split_by_memory([tiny, torch[0], jax, torch[1]], 80 * gpu.GIB) == [
        [tiny, torch[0]],
        [jax],
        [torch[1]],
    ]
    assert gpu.split_by_memory(torch, None) == [torch], "where the GPU does not tell"


def test_parts_of_a_large_block_have_their_own_sessions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without times a session's blocks are counted among the cases of a call: two parts would give
    two blocks one name.
    """
    rows = read_list(LIST)["claims about what a GPU holds"]
    parts: list[tuple[str, int]] = []
    monkeypatch.setattr(
        gpu,
        "measure_all",
        lambda cases, opened, *_: parts.append((opened.id, len(cases))) or ["ok"] * len(cases),
    )
    assert gpu.measure("claims", rows, {}, tmp_path, 40 * 2**30) == ["ok"] * len(rows)
    assert len(parts) > 1 < len({session for session, _ in parts}) == len(parts)
    assert sum(number for _, number in parts) == len(rows)
