"""Check what measuring on an NVIDIA GPU needs, for each framework. No framework is imported."""

from __future__ import annotations

import ctypes.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from framebench.doctor.finding import Finding
from framebench.engine import children, environments
from framebench.instruments import nvml
from framebench.instruments.parent_death import die_with_parent
from framebench.strategies.strategy import FRAMEWORKS

LOOK_S = 60.0
# Prints the versions of an interpreter's packages, from their files: torch's version file names the
# CUDA of the build, jax gets CUDA from a plug-in.
LOOK = """
import importlib.metadata, importlib.util, json, pathlib, re

def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

torch = importlib.util.find_spec("torch")
text = ""
if torch and torch.origin:
    text = pathlib.Path(torch.origin).with_name("version.py").read_text()
built = re.search(r"^cuda[^=]*= *['\\"](.+?)['\\"]", text, re.M)
print(json.dumps({
    "torch": version("torch"), "jax": version("jax"), "jittor": version("jittor"),
    "torch_cuda": built and built[1],
    "jax_plugins": [p for p in ("jax-cuda12-plugin", "jax-cuda13-plugin") if version(p)],
}))
"""


def check_gpu(pythons: dict[str, Path]) -> list[Finding]:
    """Return what measuring on a GPU needs: driver and device first, then that of each framework.

    Args:
        pythons: The interpreter that is checked for each framework.
    """
    findings = [check_driver(), check_device()]
    checks = {"torch": check_torch, "jax": check_jax, "jittor": check_jittor}
    for framework in FRAMEWORKS:
        if framework in pythons:
            findings += checks[framework](read_package_versions(pythons[framework]))
    return findings


def read_package_versions(python: Path) -> dict[str, Any]:
    """Return the report of LOOK on an interpreter's packages, or {} if it cannot be run."""
    try:
        ended = children.run_program([str(python), "-c", LOOK], {**os.environ}, LOOK_S)
        packages: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError):  # TimeoutError is an OSError
        return {}
    return packages


def check_driver() -> Finding:
    """Check whether NVML can be used; if not, its error names the missing library or driver."""
    check_name = "CUDA: driver and NVML"
    try:
        import pynvml
    except ImportError:
        detail = "the package nvidia-ml-py is not installed here, so no GPU can be queried"
        return Finding(check_name, passed=False, detail=detail)
    try:
        pynvml.nvmlInit()
        version, cuda = pynvml.nvmlSystemGetDriverVersion(), nvml.read_cuda_version()
    except pynvml.NVMLError as error:
        detail = f"NVML says: {error}; install NVIDIA's driver, or give the container the GPU"
        return Finding(check_name, passed=False, detail=detail)
    return Finding(check_name, passed=True, detail=f"driver {version}, serves CUDA up to {cuda}")


def check_device() -> Finding:
    """Check whether there is a GPU that may be used."""
    names = ", ".join(nvml.list_gpus())
    is_visible = bool(names) and nvml.find_gpu() is not None
    detail = names
    if not names:
        detail = (
            "no GPU: everything runs on the CPU, and strategies that need a GPU are recorded as "
            "`unsupported`"
        )
    elif not is_visible:
        detail = f"{names}, but CUDA_VISIBLE_DEVICES names none of them"
    return Finding("CUDA: device", is_visible, detail)


def check_torch(packages: dict[str, Any]) -> list[Finding]:
    """Check whether PyTorch is a build for CUDA."""
    cuda = packages.get("torch_cuda")
    lacking = "is a build for the CPU; one for CUDA is needed"
    return [judge_build("torch", packages, cuda and f"built for CUDA {cuda}", lacking)]


def check_jax(packages: dict[str, Any]) -> list[Finding]:
    """Check whether JAX has a plug-in for CUDA."""
    plugins = packages.get("jax_plugins")
    lacking = "has no plug-in for CUDA (jax-cuda12-plugin or jax-cuda13-plugin)"
    return [judge_build("jax", packages, plugins and f"with {plugins}", lacking)]


def judge_build(name: str, packages: dict[str, Any], cuda: str | None, lacking: str) -> Finding:
    """Return whether a package is there and can use CUDA; `lacking` says what it lacks if not."""
    version = packages.get(name)
    detail = f"{name} {version}, {cuda or lacking}"
    if not version:
        detail = f"{name} is not installed in this environment"
    return Finding(f"CUDA: {name}", bool(version and cuda), detail)


def check_jittor(packages: dict[str, Any]) -> list[Finding]:
    """Check for the compiler with which Jittor compiles its kernels, and for cuDNN."""
    if not packages.get("jittor"):
        return [
            Finding(
                "CUDA: jittor", passed=False, detail="jittor is not installed in this environment"
            )
        ]
    return [check_compiler(), check_cudnn()]


def check_compiler() -> Finding:
    """Check the release of nvcc.

    CUDA 13 is too new: its headers need C++17, and Jittor 1.3.11.0 is C++14 and reads a device
    field that CUDA 13 no longer has.
    """
    check_name = "CUDA: nvcc for jittor"
    path = environments.find_nvcc() or shutil.which("nvcc")
    if not path:
        detail = (
            "no nvcc on the path or in /usr/local/cuda: Jittor compiles its kernels with it "
            "(CUDA 12.2)"
        )
        return Finding(check_name, passed=False, detail=detail)
    version_text = subprocess.run(
        [path, "--version"], capture_output=True, text=True, preexec_fn=die_with_parent
    ).stdout
    release = re.search(r"release (\d+)\.(\d+)", version_text)
    if release is None:
        return Finding(check_name, passed=False, detail=f"{path} does not say its release")
    detail = f"{path}, CUDA {release[1]}.{release[2]}"
    if int(release[1]) >= 13:
        return Finding(
            check_name, passed=False, detail=f"{detail}; Jittor 1.3.11.0 should not build with 13"
        )
    return Finding(check_name, passed=True, detail=detail)


def check_cudnn() -> Finding:
    """Check whether cuDNN 8, which Jittor links, is among the system's libraries."""
    library = ctypes.util.find_library("cudnn")
    is_met = library is not None and library.endswith(".so.8")
    detail = library or "no libcudnn among the system's libraries"
    if not is_met:
        detail += "; Jittor names cuDNN 8's files"
    return Finding("CUDA: cuDNN 8 for jittor", is_met, detail)
