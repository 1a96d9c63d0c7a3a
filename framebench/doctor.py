"""What a measurement needs, and whether this machine has it."""

from __future__ import annotations

import shutil
from typing import NamedTuple

from framebench import environments, provenance
from framebench.environments import SetupError
from framebench.instruments import nvml
from framebench.instruments.host import HostPeak
from framebench.strategies import FRAMEWORKS


class Finding(NamedTuple):
    what: str
    ok: bool
    detail: str
    optional: bool = False


def findings() -> list[Finding]:
    return [hardware(), host_peak(), git(), gpu(), *map(tools, FRAMEWORKS), *map(environment, FRAMEWORKS)]


def hardware() -> Finding:
    h = provenance.hardware()
    return Finding("machine", True, f"{h['cpu']}, {h['cores']} cores, {h['memory_bytes'] / 2**30:.1f} GiB, {h['system']}")


def host_peak() -> Finding:
    ok = HostPeak.available()
    return Finding(
        "host.rss instrument", ok, "/proc/self/clear_refs can be written" if ok else "needs Linux's /proc/self/clear_refs"
    )


def git() -> Finding:
    commit = provenance.commit()
    detail = f"commit {commit[:10]}" if commit else "no git commit: records cannot say which code measured them"
    return Finding("git", commit is not None, detail if shutil.which("git") else "git is not installed")


def gpu() -> Finding:
    if names := nvml.gpus():
        return Finding("GPU", True, ", ".join(names))
    return Finding("GPU", False, "no NVIDIA driver answers; everything else runs on the CPU", optional=True)


def tools(framework: str) -> Finding:
    try:
        environments.check_tools(framework)
    except SetupError as error:
        return Finding(f"tools for {framework}", False, str(error))
    return Finding(f"tools for {framework}", True, "present")


def environment(framework: str) -> Finding:
    found = environments.describe(framework)
    if environments.built(found):
        return Finding(f"environment {found.name}", True, str(found.python.parent.parent))
    return Finding(f"environment {found.name}", False, f"not built yet: framebench setup {framework}", optional=True)
