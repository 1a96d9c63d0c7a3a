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
from tests.adapters.fake_gpu import FakeNvml, refuse


def classify(final: dict[str, Any], printed: str = "") -> Outcome:
    """Return why a worker ended, from its last message and what it printed."""
    log = SimpleNamespace(text=lambda lines: printed)
    process = SimpleNamespace(returncode=1)
    child: Any = SimpleNamespace(
        phase="import", final=final, log=log, process=process, expired_s=None
    )
    return supervisor.classify(child, False)


def test_a_framework_without_cuda_makes_gpu_cells_unsupported(tmp_path: Path) -> None:
    error = {
        "type": "NoDevice",
        "message": "needs a GPU, and this torch (2.13.0+cpu) finds none",
        "oom": False,
        "no_device": True,
    }
    outcome = classify({"error": error})
    assert (outcome.status, outcome.reason) == ("unsupported", error["message"])


def test_a_failed_build_has_the_compilers_reason(tmp_path: Path) -> None:
    error = {"type": "RuntimeError", "message": "Compile error", "oom": False}
    outcome = classify({"error": error}, recorded.JITTOR_BUILD)
    assert outcome.status == "crashed"
    assert "unsupported GNU version" in (outcome.reason or "")


def test_an_error_without_compiler_output_names_no_compiler(tmp_path: Path) -> None:
    error = {"type": "RuntimeError", "message": "Compile error", "oom": False}
    outcome = classify({"error": error}, "Traceback\nRuntimeError: Compile error")
    assert "compiler" not in (outcome.reason or "")


@pytest.mark.parametrize(
    "message", recorded.OUT_OF_MEMORY.values(), ids=recorded.OUT_OF_MEMORY.keys()
)
def test_out_of_memory_on_a_gpu_is_recognized(message: str, tmp_path: Path) -> None:
    """The framework may raise, or die with this in its log."""
    assert limits.is_out_of_memory(RuntimeError(message), limited=False)
    end = "terminate called after throwing an instance of 'std::runtime_error'"
    assert classify({}, f"{message}\n{end}").status == "oom"


def test_jittors_message_of_a_full_gpu_is_recognized() -> None:
    """src/mem/allocator/cuda_device_allocator.cc of 1.3.10.0 and 1.3.11.0.

    Nobody was found to have recorded it.
    """
    assert limits.is_out_of_memory(
        RuntimeError("Unable to alloc cuda device memory for size 1048576"), limited=False
    )


@pytest.mark.parametrize("message", recorded.OTHERWISE.values(), ids=recorded.OTHERWISE.keys())
def test_other_errors_on_a_gpu_are_no_lack_of_memory(message: str, tmp_path: Path) -> None:
    assert not limits.is_out_of_memory(RuntimeError(message), limited=True)
    assert classify({}, message).status == "crashed"


def test_jittor_gets_no_compiler_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "list_gpus", lambda: ())
    monkeypatch.setenv("nvcc_path", "/opt/cuda/bin/nvcc")
    assert environments.describe("jittor").variables()["nvcc_path"] == ""


def test_jittor_gets_the_compiler_with_cudas_libraries(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not a script on the path that calls it, unless there is no other."""
    monkeypatch.delenv("nvcc_path", raising=False)
    jittor = environments.describe("jittor")
    monkeypatch.setattr(nvml, "list_gpus", lambda: ("NVIDIA A100",))
    script = tmp_path / "bin/nvcc"
    compiler = tmp_path / "cuda/bin/nvcc"
    library = tmp_path / "cuda/lib64/libcudart.so"
    for file in (script, compiler, library):
        file.parent.mkdir(parents=True, exist_ok=True)
    script.touch()
    compiler.touch()
    monkeypatch.setattr(environments.shutil, "which", lambda name: str(script))
    monkeypatch.setattr(environments, "USUAL_NVCC", compiler)
    assert jittor.variables()["nvcc_path"] == str(script)
    library.touch()
    assert jittor.variables()["nvcc_path"] == str(compiler)


def test_jittors_own_variable_decides_its_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "list_gpus", lambda: ("NVIDIA A100",))
    monkeypatch.setenv("nvcc_path", "")
    assert environments.describe("jittor").variables()["nvcc_path"] == ""


def test_what_is_missing_for_cuda_is_named(
    environment: dict[str, Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = FakeNvml(nvmlInit=refuse)
    monkeypatch.setitem(sys.modules, "pynvml", gone)  # type: ignore[arg-type]
    monkeypatch.setattr(nvml, "list_gpus", lambda: ())
    monkeypatch.setattr(cuda_check.shutil, "which", lambda name: None)
    interpreters = {framework: each.python for framework, each in environment.items()}
    requirements = {each.what: each for each in cuda_check.list_requirements(interpreters)}
    expected = {
        "CUDA: driver and NVML": "install NVIDIA's driver",
        "CUDA: device": "no GPU",
        "CUDA: nvcc for jittor": "no nvcc on the path",
    }
    for what, hint in expected.items():
        assert not requirements[what].is_met
        assert hint in requirements[what].detail


@pytest.mark.parametrize(
    ("installed", "is_met", "detail"),
    [
        ({"torch": "2.13.0+cpu", "torch_cuda": None}, False, "build for the CPU"),
        ({"torch": "2.11.0+cu130", "torch_cuda": "13.0"}, True, "built for CUDA 13.0"),
        ({}, False, "not installed"),
    ],
)
def test_the_build_of_torch_is_named(installed: dict[str, Any], is_met: bool, detail: str) -> None:
    (requirement,) = cuda_check.check_torch(installed)
    assert requirement.is_met == is_met
    assert detail in requirement.detail


@pytest.mark.parametrize(("release", "is_met"), [("12.2", True), ("13.0", False)])
def test_jittor_builds_with_cuda_12_alone(
    release: str, is_met: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_check.shutil, "which", lambda name: "/opt/nvcc")
    version = f"Cuda compilation tools, release {release}, V{release}.9"
    printed = SimpleNamespace(stdout=f"nvcc: NVIDIA (R) Cuda compiler driver\n{version}\n")
    monkeypatch.setattr(cuda_check.subprocess, "run", lambda *_, **__: printed)
    assert cuda_check.check_compiler().is_met == is_met
