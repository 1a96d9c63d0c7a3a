"""What a measurement needs, and whether this machine has it."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import psutil

from framebench.doctor import cuda_check
from framebench.engine import environments, installed
from framebench.engine.environments import SetupError
from framebench.instruments.host import MALLOC_ENV, HostPeak
from framebench.records import provenance
from framebench.records.store import calibration_file
from framebench.strategies.strategy import FRAMEWORKS

WORKER, OVERHEAD = "framebench.doctor.worker", "framebench.doctor.torch_overhead"
LIMITS = {"bias": 0.01, "spread": 0.01, "lost": 0.05, "overhead": 1.02, "busy": 0.25, "steal": 0.02}


class Finding(NamedTuple):
    """One check. What has a figure was measured, and is relative (1 = 100 %) unless its unit says otherwise."""

    check: str
    passed: bool
    detail: str
    figure: float | None = None
    unit: str | None = None
    optional: bool = False


def findings(env: str | None = None) -> list[Finding]:
    """What the machine has; with `env` (see installed.py) what that interpreter has."""
    all_findings = [_hardware(), _host_peak(), git()]
    if env is None:
        all_findings += [*map(tools, FRAMEWORKS), *map(environment, FRAMEWORKS)]
        pythons = {f: environments.describe(f).python for f in FRAMEWORKS}
    else:
        pythons = dict.fromkeys(FRAMEWORKS, installed.interpreter(env))
    return all_findings + [Finding(need.what, need.there, need.detail, optional=True) for need in cuda_check.needs(pythons)]


def calibration(say: environments.Say = lambda _: None, env: str | None = None) -> list[Finding]:
    """How wrong measurements made here and now may be: known sizes and lengths through the whole harness, everywhere."""
    all_findings = [*interference()]
    built = [e for f in FRAMEWORKS if environments.built(e := environments.describe(f))]
    for ready in installed.ready(FRAMEWORKS, env, say).values() if env else built:
        framework = ready.framework
        say(f"known sizes and lengths in {ready.name}")
        try:
            printed = environments.run_module(ready, WORKER, framework, OMP_NUM_THREADS="1", **MALLOC_ENV)
        except SetupError as error:  # such as a Jittor that cannot be built for the card
            all_findings.append(Finding(f"{framework}: calibration", False, str(error).splitlines()[-1]))
            continue
        for what, figure in json.loads(printed.splitlines()[-1]).items():
            limit = LIMITS[what.split()[-1] if what.split()[-1] in LIMITS else "lost"]
            detail = f"{figure:+.2%}, allowed {limit:.0%}"
            all_findings.append(Finding(f"{framework}: {what}", abs(figure) <= limit, detail, figure, "relative"))
    if env is None and environments.built(environments.describe("torch")):
        say("the harness's step against a loop written by hand")
        all_findings.append(overhead())
    return all_findings


def overhead() -> Finding:
    printed = environments.run_module(environments.ensure("torch"), OVERHEAD, "15", OMP_NUM_THREADS="1")
    c = json.loads(printed.splitlines()[-1])
    detail = f"{c['ratio']:.3f} [{c['low']:.3f}, {c['high']:.3f}], allowed {LIMITS['overhead']}"
    return Finding("harness / hand-written loop", c["low"] <= LIMITS["overhead"], detail, c["ratio"], "ratio")


def interference() -> list[Finding]:
    """What else the machine is doing now, and how much time its host takes away; the load average would still tell of what has
    ended."""
    shares = psutil.cpu_times_percent(1.0)
    shares_by_name = {"busy": 1 - shares.idle / 100, "steal": getattr(shares, "steal", 0.0) / 100}
    names = {"busy": "cores busy with other things", "steal": "time stolen by the host"}
    return [
        Finding(names[what], share <= LIMITS[what], f"{share:.1%}, allowed {LIMITS[what]:.0%}", share, "relative")
        for what, share in shares_by_name.items()
    ]


def save(all_findings: list[Finding], results: Path) -> Path:
    """Kept beside the records: every later record of this machine carries the summary."""
    path = calibration_file(results)
    path.parent.mkdir(parents=True, exist_ok=True)
    failed = [f.check for f in all_findings if not f.passed]
    summary = {"measured_at": datetime.now(UTC).isoformat(timespec="seconds"), "passed": not failed, "failed": failed}
    figures = {f.check: f.figure for f in all_findings}
    path.write_text(json.dumps(summary | {"figures": figures}, indent=1) + "\n")
    return path


def _hardware() -> Finding:
    h = provenance.hardware()
    return Finding("machine", True, f"{h['cpu']}, {h['cores']} cores, {h['memory_bytes'] / 2**20:,.0f} MiB, {h['system']}")


def _host_peak() -> Finding:
    ok = HostPeak.available()
    return Finding(
        "host.rss instrument", ok, "/proc/self/clear_refs can be written" if ok else "needs Linux's /proc/self/clear_refs"
    )


def git() -> Finding:
    commit = provenance.commit()
    detail = f"commit {commit[:10]}" if commit else "no git commit: records cannot say which code measured them"
    return Finding("git", commit is not None, detail if shutil.which("git") else "git is not installed")


def tools(framework: str) -> Finding:
    try:
        environments.check_tools(framework)
    except SetupError as error:
        return Finding(f"tools for {framework}", False, str(error))
    return Finding(f"tools for {framework}", True, "present")


def environment(framework: str) -> Finding:
    framework_environment = environments.describe(framework)
    if environments.built(framework_environment):
        return Finding(f"environment {framework_environment.name}", True, str(framework_environment.python.parent.parent))
    return Finding(
        f"environment {framework_environment.name}", False, f"not built yet: framebench setup {framework}", optional=True
    )
