"""What this machine lacks for measuring on an NVIDIA GPU, framework by framework. No framework is imported to find out."""

from __future__ import annotations

import ctypes.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from framebench.engine import environments
from framebench.instruments import nvml
from framebench.strategies.strategy import FRAMEWORKS

LOOK_S = 60.0
# what an interpreter has, by its packages' files: torch's build says its CUDA, jax gets it from a plug-in
LOOK = """
import importlib.metadata, importlib.util, json, pathlib, re

def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

torch = importlib.util.find_spec("torch")
text = pathlib.Path(torch.origin).with_name("version.py").read_text() if torch and torch.origin else ""
built = re.search(r"^cuda[^=]*= *['\\"](.+?)['\\"]", text, re.M)
print(json.dumps({
    "torch": version("torch"), "jax": version("jax"), "jittor": version("jittor"), "nvml": version("nvidia-ml-py"),
    "torch_cuda": built and built[1],
    "jax_plugins": [p for p in ("jax-cuda12-plugin", "jax-cuda13-plugin") if version(p)],
}))
"""


class Need(NamedTuple):
    """One thing that is needed, whether it is there, and what it is or how to get it."""

    what: str
    there: bool
    detail: str


def needs(pythons: dict[str, Path]) -> list[Need]:
    """Driver and device first; then what each framework's interpreter must have. Jittor compiles, and so needs a compiler."""
    all_needs = [driver(), device()]
    for framework in FRAMEWORKS:
        if framework in pythons:
            all_needs += {"torch": torch, "jax": jax, "jittor": jittor}[framework](look(pythons[framework]))
    return all_needs


def look(python: Path) -> dict[str, object]:
    """What LOOK prints there; empty where there is no such interpreter."""
    try:
        done = subprocess.run([str(python), "-c", LOOK], capture_output=True, text=True, timeout=LOOK_S, check=True)
        return json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return {}


def driver() -> Need:
    """By the error that NVML gives: no library, no driver loaded, or no permission."""
    what = "CUDA: driver and NVML"
    try:
        import pynvml

        pynvml.nvmlInit()
        version, cuda = pynvml.nvmlSystemGetDriverVersion(), nvml.cuda_version()
        return Need(what, True, f"driver {version}, serves CUDA up to {cuda}")
    except ImportError:
        return Need(what, False, "the package nvidia-ml-py is not installed here, so no card can be asked anything")
    except pynvml.NVMLError as error:
        return Need(what, False, f"NVML says: {error}; install NVIDIA's driver, or give the container the card")


def device() -> Need:
    what = "CUDA: device"
    if not (names := nvml.gpus()):
        return Need(what, False, "no card: everything runs on the CPU, and cells that need a GPU become `unsupported`")
    if nvml.card() is None:
        return Need(what, False, f"{', '.join(names)}, but CUDA_VISIBLE_DEVICES names none of them")
    return Need(what, True, ", ".join(names))


def torch(has: dict[str, object]) -> list[Need]:
    what = "CUDA: torch"
    if not has.get("torch"):
        return [Need(what, False, "torch is not installed in this environment")]
    if not has["torch_cuda"]:
        return [Need(what, False, f"torch {has['torch']} is a build for the CPU; one for CUDA is needed")]
    return [Need(what, True, f"torch {has['torch']}, built for CUDA {has['torch_cuda']}")]


def jax(has: dict[str, object]) -> list[Need]:
    what = "CUDA: jax"
    if not has.get("jax"):
        return [Need(what, False, "jax is not installed in this environment")]
    if not has["jax_plugins"]:
        return [Need(what, False, f"jax {has['jax']} has no plug-in for CUDA (jax-cuda12-plugin or jax-cuda13-plugin)")]
    return [Need(what, True, f"jax {has['jax']} with {has['jax_plugins'][0]}")]  # type: ignore[index]


def jittor(has: dict[str, object]) -> list[Need]:
    if not has.get("jittor"):
        return [Need("CUDA: jittor", False, "jittor is not installed in this environment")]
    return [compiler(), cudnn()]


def compiler() -> Need:
    """Jittor 1.3.11.0 is C++14; CUDA 13's headers need C++17, and it reads a device field that CUDA 13 no longer has."""
    what, path = "CUDA: nvcc for jittor", environments.nvcc() or shutil.which("nvcc")
    if not path:
        return Need(what, False, "no nvcc on the path or in /usr/local/cuda: Jittor compiles its kernels with it (CUDA 12.2)")
    version_text = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    release = re.search(r"release (\d+)\.(\d+)", version_text)
    if release is None:
        return Need(what, False, f"{path} does not say its release")
    number = f"{path}, CUDA {release[1]}.{release[2]}"
    return Need(what, int(release[1]) < 13, number + ("; Jittor 1.3.11.0 should not build with 13" * (int(release[1]) >= 13)))


def cudnn() -> Need:
    what, library = "CUDA: cuDNN 8 for jittor", ctypes.util.find_library("cudnn")
    if library is None:
        return Need(what, False, "no libcudnn among the system's libraries; Jittor links cuDNN 8")
    return Need(
        what, library.endswith(".so.8"), library if library.endswith(".8") else f"{library}: Jittor names cuDNN 8's files"
    )
