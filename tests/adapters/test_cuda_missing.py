"""What is missing for CUDA is named: builds, compilers, memory."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framebench.doctor import cuda_check
from framebench.engine import environments, supervisor
from framebench.engine.environments import Environment
from framebench.engine.supervisor import Outcome
from framebench.instruments import limits, nvml
from tests.adapters import recorded
from tests.adapters.fake_card import FakeNvml, refuse


def spoken(final: dict[str, Any], folder: Path, tail: str = "") -> Outcome:
    log = folder / "log"
    log.write_text(tail)
    child: Any = SimpleNamespace(phase="import", final=final, log=log, process=SimpleNamespace(returncode=1), expired_s=None)
    return supervisor.classify(child, False)


def test_a_framework_without_cuda_makes_gpu_cells_unsupported(tmp_path: Path) -> None:
    error = {
        "type": "NoDevice",
        "message": "needs a GPU, and this torch (2.13.0+cpu) finds none",
        "oom": False,
        "no_device": True,
    }
    found = spoken({"error": error}, tmp_path)
    assert (found.status, found.reason) == ("unsupported", error["message"])


def test_the_compiler_s_reason_is_told(tmp_path: Path) -> None:
    error = {"type": "RuntimeError", "message": "Compile error", "oom": False}
    found = spoken({"error": error}, tmp_path, recorded.JITTOR_BUILD)
    assert found.status == "crashed"
    assert "unsupported GNU version" in (found.reason or "")
    assert "compiler" not in (spoken({"error": error}, tmp_path, "Traceback\nRuntimeError: Compile error").reason or "")


@pytest.mark.parametrize("said", recorded.OUT_OF_MEMORY.values(), ids=recorded.OUT_OF_MEMORY.keys())
def test_memory_that_ran_out_on_a_card(said: str, tmp_path: Path) -> None:
    """Whether the framework raises, or dies with this in its log."""
    assert limits.is_out_of_memory(RuntimeError(said), limited=False)
    assert spoken({}, tmp_path, f"{said}\nterminate called after throwing an instance of 'std::runtime_error'").status == "oom"


def test_what_jittor_s_source_says_of_a_full_card() -> None:
    """src/mem/allocator/cuda_device_allocator.cc of 1.3.10.0 and 1.3.11.0; nobody was found to have recorded it."""
    assert limits.is_out_of_memory(RuntimeError("Unable to alloc cuda device memory for size 1048576"), limited=False)


@pytest.mark.parametrize("said", recorded.OTHERWISE.values(), ids=recorded.OTHERWISE.keys())
def test_what_else_went_wrong_on_a_card(said: str, tmp_path: Path) -> None:
    assert not limits.is_out_of_memory(RuntimeError(said), limited=True)
    assert spoken({}, tmp_path, said).status == "crashed"


def test_jittor_gets_a_compiler_where_a_card_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The one with CUDA's libraries beside it, not a script on the path that calls it; or what Jittor's own variable says."""
    monkeypatch.delenv("nvcc_path", raising=False)
    jittor = environments.describe("jittor")
    monkeypatch.setattr(nvml, "list_gpus", lambda: ())
    with monkeypatch.context() as asked:
        asked.setenv("nvcc_path", "/opt/cuda/bin/nvcc")
        assert jittor.variables()["nvcc_path"] == ""
    monkeypatch.setattr(nvml, "list_gpus", lambda: ("NVIDIA A100",))
    script, compiler, library = (tmp_path / name for name in ("bin/nvcc", "cuda/bin/nvcc", "cuda/lib64/libcudart.so"))
    for file in (script, compiler, library):
        file.parent.mkdir(parents=True, exist_ok=True)
    for file in (script, compiler):
        file.touch()
    monkeypatch.setattr(environments.shutil, "which", lambda name: str(script))
    monkeypatch.setattr(environments, "USUAL_NVCC", compiler)
    assert jittor.variables()["nvcc_path"] == str(script)
    library.touch()
    assert jittor.variables()["nvcc_path"] == str(compiler)
    monkeypatch.setenv("nvcc_path", "")
    assert jittor.variables()["nvcc_path"] == ""


def test_what_is_missing_for_cuda_is_named(environment: dict[str, Environment], monkeypatch: pytest.MonkeyPatch) -> None:
    gone = FakeNvml(nvmlInit=refuse)
    monkeypatch.setitem(sys.modules, "pynvml", gone)  # type: ignore[arg-type]
    monkeypatch.setattr(nvml, "list_gpus", lambda: ())
    monkeypatch.setattr(cuda_check.shutil, "which", lambda name: None)
    found = {n.what: n for n in cuda_check.list_needs({f: e.python for f, e in environment.items()})}
    said = {
        "CUDA: driver and NVML": "install NVIDIA's driver",
        "CUDA: device": "no card",
        "CUDA: nvcc for jittor": "no nvcc on the path",
    }
    for what, text in said.items():
        assert not found[what].there
        assert text in found[what].detail


@pytest.mark.parametrize(
    ("has", "there", "said"),
    [
        ({"torch": "2.13.0+cpu", "torch_cuda": None}, False, "build for the CPU"),
        ({"torch": "2.11.0+cu130", "torch_cuda": "13.0"}, True, "built for CUDA 13.0"),
        ({}, False, "not installed"),
    ],
)
def test_torch_s_build(has: dict[str, Any], there: bool, said: str) -> None:
    (need,) = cuda_check.check_torch(has)
    assert (need.there, said in need.detail) == (there, True)


@pytest.mark.parametrize(("release", "there"), [("12.2", True), ("13.0", False)])
def test_jittor_s_compiler(release: str, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_check.shutil, "which", lambda name: "/opt/nvcc")
    said = SimpleNamespace(
        stdout=f"nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {release}, V{release}.9\n"
    )
    monkeypatch.setattr(cuda_check.subprocess, "run", lambda *_, **__: said)
    assert cuda_check.check_compiler().there == there
