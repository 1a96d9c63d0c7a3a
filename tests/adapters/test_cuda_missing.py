"""What is missing for CUDA is named: builds, compilers, memory."""

from __future__ import annotations

from operator import itemgetter
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from framebench.doctor import cuda_check
from framebench.engine import environments, supervisor
from framebench.engine.supervisor import Outcome
from framebench.instruments import limits, nvml
from tests.adapters.fake_gpu import RECORDED


def classify_end(error: dict[str, Any] | None, printed: str = "") -> Outcome:
    """Return why a worker ended, from the error of its last message and what it printed."""
    child = SimpleNamespace(
        phase="import",
        final={"error": error} if error else {},
        log=SimpleNamespace(get_text=Mock(return_value=printed)),
        process=SimpleNamespace(returncode=1),
        expired_s=None,
    )
    return supervisor.classify(child, oom_killed=False)


def test_a_framework_without_cuda_makes_gpu_cells_unsupported():
    message = "needs a GPU, and this torch (2.13.0+cpu) finds none"
    outcome = classify_end(
        {"type": "NoDevice", "message": message, "oom": False, "no_device": True}
    )
    assert (outcome.status, outcome.reason) == ("unsupported", message)


@pytest.mark.parametrize(
    ("printed", "names_compiler"),
    [(RECORDED["jittor_build"]["printed"], True), ("RuntimeError: Compile error", False)],
)
def test_a_failed_build_has_the_compilers_reason(printed, names_compiler):
    outcome = classify_end(
        {"type": "RuntimeError", "message": "Compile error", "oom": False}, printed
    )
    assert outcome.status == "crashed"
    assert ("unsupported GNU version" in (outcome.reason or "")) == names_compiler


@pytest.mark.parametrize("entry", RECORDED["out_of_memory"], ids=itemgetter("from"))
def test_out_of_memory_on_a_gpu_is_recognized(entry):
    """The framework may raise, or die with this in its log."""
    assert limits.is_out_of_memory(RuntimeError(entry["message"]), limited=False)
    end = "terminate called after throwing an instance of 'std::runtime_error'"
    assert classify_end(None, f"{entry['message']}\n{end}").status == "oom"


@pytest.mark.parametrize("entry", RECORDED["otherwise"], ids=itemgetter("from"))
def test_other_errors_on_a_gpu_are_crashes(entry):
    assert not limits.is_out_of_memory(RuntimeError(entry["message"]), limited=True)
    assert classify_end(None, entry["message"]).status == "crashed"


@pytest.mark.parametrize(
    ("gpus", "users_variable"),
    [
        pytest.param((), "/opt/cuda/bin/nvcc", id="without a GPU"),
        pytest.param(("NVIDIA A100",), "", id="against the user's variable"),
    ],
)
def test_jittor_gets_no_cuda_compiler_without_a_gpu_or_against_the_users_variable(
    gpus, users_variable, monkeypatch, tmp_path
):
    compiler = tmp_path / "nvcc"
    compiler.touch()
    monkeypatch.setattr(environments.shutil, "which", Mock(return_value=str(compiler)))
    monkeypatch.setattr(nvml, "list_gpus", Mock(return_value=gpus))
    monkeypatch.setenv("nvcc_path", users_variable)
    assert environments.describe("jittor").list_variables()["nvcc_path"] == ""


def test_jittor_gets_the_compiler_with_cudas_libraries(monkeypatch, tmp_path):
    """A script on the path that calls the compiler is taken only if there is no other."""
    monkeypatch.delenv("nvcc_path", raising=False)
    monkeypatch.setattr(nvml, "list_gpus", Mock(return_value=("NVIDIA A100",)))
    script = tmp_path / "bin/nvcc"
    compiler = tmp_path / "cuda/bin/nvcc"
    library = tmp_path / "cuda/lib64/libcudart.so"
    for file in (script, compiler, library):
        file.parent.mkdir(parents=True)
    script.touch()
    compiler.touch()
    monkeypatch.setattr(environments.shutil, "which", Mock(return_value=str(script)))
    monkeypatch.setattr(environments, "USUAL_NVCC", compiler)
    jittor = environments.describe("jittor")
    assert jittor.list_variables()["nvcc_path"] == str(script)
    library.touch()
    assert jittor.list_variables()["nvcc_path"] == str(compiler)


@pytest.mark.parametrize(
    ("installed", "is_met", "detail"),
    [
        ({"torch": "2.13.0+cpu", "torch_cuda": None}, False, "build for the CPU"),
        ({"torch": "2.11.0+cu130", "torch_cuda": "13.0"}, True, "built for CUDA 13.0"),
        ({}, False, "not installed"),
    ],
)
def test_the_build_of_torch_is_named(installed, is_met, detail):
    (requirement,) = cuda_check.check_torch(installed)
    assert requirement.passed == is_met
    assert detail in requirement.detail


@pytest.mark.parametrize(("release", "is_met"), [("12.2", True), ("13.0", False)])
def test_jittor_builds_with_cuda_12_alone(release, is_met, monkeypatch):
    monkeypatch.setattr(cuda_check.shutil, "which", Mock(return_value="/opt/nvcc"))
    printed = f"Cuda compilation tools, release {release}, V{release}.9\n"
    answer = SimpleNamespace(stdout=printed)
    monkeypatch.setattr(cuda_check.subprocess, "run", Mock(return_value=answer))
    assert cuda_check.check_compiler().passed == is_met
