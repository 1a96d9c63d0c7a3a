"""Check what measuring on an NVIDIA GPU needs, for each framework. No framework is imported."""

from __future__ import annotations

import ctypes.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple, TypedDict, cast

from framebench.engine import children, environments
from framebench.instruments import nvml
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
    "nvml": version("nvidia-ml-py"),
    "torch_cuda": built and built[1],
    "jax_plugins": [p for p in ("jax-cuda12-plugin", "jax-cuda13-plugin") if version(p)],
}))
"""


class Requirement(NamedTuple):
    """One thing that measuring on a GPU needs."""

    what: str
    is_met: bool
    detail: str  # which version there is, or how to get one


class Packages(TypedDict, total=False):
    """What LOOK prints: versions of packages, None for one that is not installed."""

    torch: str | None
    jax: str | None
    jittor: str | None
    nvml: str | None
    torch_cuda: str | None
    jax_plugins: list[str]


def list_requirements(pythons: dict[str, Path]) -> list[Requirement]:
    """Return the requirements: driver and device first, then those of each framework.

    Args:
        pythons: By framework, the interpreter that is checked.
    """
    requirements = [check_driver(), check_device()]
    checks = {"torch": check_torch, "jax": check_jax, "jittor": check_jittor}
    for framework in FRAMEWORKS:
        if framework in pythons:
            requirements += checks[framework](look(pythons[framework]))
    return requirements


def look(python: Path) -> Packages:
    """Return the packages of an interpreter; empty if it cannot be run."""
    try:
        ended = children.run_program([str(python), "-c", LOOK], {**os.environ}, LOOK_S)
        packages = json.loads(ended.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError):  # TimeoutError is an OSError
        return {}
    is_answer = ended.code == 0 and isinstance(packages, dict)
    return cast("Packages", packages) if is_answer else {}


def check_driver() -> Requirement:
    """Check whether NVML can be used; if not, its error tells a missing library from a driver."""
    what = "CUDA: driver and NVML"
    try:
        import pynvml

        pynvml.nvmlInit()
        version, cuda = pynvml.nvmlSystemGetDriverVersion(), nvml.read_cuda_version()
        return Requirement(what, True, f"driver {version}, serves CUDA up to {cuda}")
    except ImportError:
        return Requirement(
            what,
            False,
            "the package nvidia-ml-py is not installed here, so no GPU can be queried",
        )
    except pynvml.NVMLError as error:
        return Requirement(
            what,
            False,
            f"NVML says: {error}; install NVIDIA's driver, or give the container access to the GPU",
        )


def check_device() -> Requirement:
    """Check whether there is a GPU that may be used."""
    what = "CUDA: device"
    names = nvml.list_gpus()
    if not names:
        return Requirement(
            what,
            False,
            "no GPU: everything runs on the CPU, and strategies that need a GPU are recorded as "
            "`unsupported`",
        )
    if nvml.find_gpu() is None:
        return Requirement(
            what, False, f"{', '.join(names)}, but CUDA_VISIBLE_DEVICES names none of them"
        )
    return Requirement(what, True, ", ".join(names))


def check_torch(packages: Packages) -> list[Requirement]:
    """Check whether PyTorch is a build for CUDA."""
    what = "CUDA: torch"
    version = packages.get("torch")
    if not version:
        return [Requirement(what, False, "torch is not installed in this environment")]
    cuda = packages.get("torch_cuda")
    if not cuda:
        return [
            Requirement(
                what, False, f"torch {version} is a build for the CPU; one for CUDA is needed"
            )
        ]
    return [Requirement(what, True, f"torch {version}, built for CUDA {cuda}")]


def check_jax(packages: Packages) -> list[Requirement]:
    """Check whether JAX has a plug-in for CUDA."""
    what = "CUDA: jax"
    version = packages.get("jax")
    if not version:
        return [Requirement(what, False, "jax is not installed in this environment")]
    plugins = packages.get("jax_plugins")
    if not plugins:
        return [
            Requirement(
                what,
                False,
                f"jax {version} has no plug-in for CUDA (jax-cuda12-plugin or jax-cuda13-plugin)",
            )
        ]
    return [Requirement(what, True, f"jax {version} with {plugins[0]}")]


def check_jittor(packages: Packages) -> list[Requirement]:
    """Check what Jittor needs: it compiles, and so needs a compiler."""
    if not packages.get("jittor"):
        return [Requirement("CUDA: jittor", False, "jittor is not installed in this environment")]
    return [check_compiler(), check_cudnn()]


def check_compiler() -> Requirement:
    """Check the release of nvcc.

    Jittor 1.3.11.0 is C++14; CUDA 13's headers need C++17, and it reads a device field that CUDA 13
    no longer has.
    """
    what = "CUDA: nvcc for jittor"
    path = environments.nvcc() or shutil.which("nvcc")
    if not path:
        return Requirement(
            what,
            False,
            "no nvcc on the path or in /usr/local/cuda: Jittor compiles its "
            "kernels with it (CUDA 12.2)",
        )
    version_text = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    release = re.search(r"release (\d+)\.(\d+)", version_text)
    if release is None:
        return Requirement(what, False, f"{path} does not say its release")
    detail = f"{path}, CUDA {release[1]}.{release[2]}"
    if int(release[1]) >= 13:
        return Requirement(what, False, f"{detail}; Jittor 1.3.11.0 should not build with 13")
    return Requirement(what, True, detail)


def check_cudnn() -> Requirement:
    """Check whether cuDNN 8 is among the system's libraries."""
    what = "CUDA: cuDNN 8 for jittor"
    library = ctypes.util.find_library("cudnn")
    if library is None:
        return Requirement(
            what, False, "no libcudnn among the system's libraries; Jittor links cuDNN 8"
        )
    if library.endswith(".so.8"):
        return Requirement(what, True, library)
    return Requirement(what, False, f"{library}: Jittor names cuDNN 8's files")
