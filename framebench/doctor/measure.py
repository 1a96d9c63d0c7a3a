"""What a measurement needs, and whether this machine has it."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import psutil

from framebench.doctor import cuda_check
from framebench.doctor.finding import Finding
from framebench.engine import environments, installed
from framebench.engine.environments import Environment, SetupError
from framebench.instruments.host import MALLOC_ENV, HostPeak
from framebench.records import provenance
from framebench.records.store import find_calibration_file, write_atomically
from framebench.strategies.strategy import FRAMEWORKS

WORKER = "framebench.doctor.worker"
LIMITS = {"bias": 0.01, "spread": 0.01, "lost": 0.05, "busy": 0.25, "steal": 0.02}


def check_machine(env: str | None = None) -> list[Finding]:
    """Return the findings on the machine; with `env` (see installed.py) on that interpreter."""
    detail = "needs Linux's /proc/self/clear_refs, which can be written"
    peak = Finding("host.rss instrument", HostPeak.is_available(), detail)
    findings = [describe_hardware(), peak, check_git()]
    if env is None:
        findings += [check_tools(framework) for framework in FRAMEWORKS]
        findings += [check_environment(framework) for framework in FRAMEWORKS]
        pythons = {framework: environments.describe(framework).python for framework in FRAMEWORKS}
    else:
        pythons = dict.fromkeys(FRAMEWORKS, installed.find_interpreter(env))
    for finding in cuda_check.check_gpu(pythons):
        findings.append(finding._replace(optional=True))
    return findings


def calibrate(say: environments.Say, env: str | None) -> list[Finding]:
    """Return how wrong measurements made here and now may be.

    In the environment of each framework, or in the interpreter that `env` names, tensors of a known
    size and waits of a known length are measured as steps are.
    """
    findings = measure_interference()  # before this command works itself
    if env:
        built = list(installed.find_environments(FRAMEWORKS, env, say).values())
    else:
        described = [environments.describe(framework) for framework in FRAMEWORKS]
        built = [environment for environment in described if environments.is_built(environment)]
    for environment in built:
        say(f"known sizes and lengths in {environment.name}")
        findings += calibrate_in(environment)
    return findings


def calibrate_in(environment: Environment) -> list[Finding]:
    """Return how wrong the instruments are in a framework's environment."""
    framework = environment.framework
    try:
        figures = environments.ask_module(
            environment, WORKER, framework, variables={"OMP_NUM_THREADS": "1", **MALLOC_ENV}
        )
    except SetupError as error:  # such as a Jittor that cannot be built for the GPU
        return [
            Finding(f"{framework}: calibration", passed=False, detail=str(error).splitlines()[-1])
        ]
    findings = []
    for check_name, figure in figures.items():
        quantity = check_name.split()[-1]
        limit = LIMITS[quantity if quantity in ("bias", "spread") else "lost"]
        detail = f"{figure:+.2%}, allowed {limit:.0%}"
        findings.append(
            Finding(f"{framework}: {check_name}", abs(figure) <= limit, detail, figure, "relative")
        )
    return findings


def measure_interference() -> list[Finding]:
    """Measure for a second how busy the cores are, and how much of their time the host takes.

    The load average is not used, since it still counts processes that have ended.
    """
    times = psutil.cpu_times_percent(1.0)
    shares = {
        "cores busy with other things": (1 - times.idle / 100, LIMITS["busy"]),
        # not every kernel reports this
        "time stolen by the host": (getattr(times, "steal", 0.0) / 100, LIMITS["steal"]),
    }
    findings = []
    for check, (share, limit) in shares.items():
        detail = f"{share:.1%}, allowed {limit:.0%}"
        findings.append(Finding(check, share <= limit, detail, share, "relative"))
    return findings


def save(findings: list[Finding], results: Path) -> Path:
    """Write the findings next to the records; each later record of this machine has the summary."""
    path = find_calibration_file(results, provenance.read_machine_name())
    path.parent.mkdir(parents=True, exist_ok=True)
    failed = [finding.check for finding in findings if not finding.passed]
    summary = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "passed": not failed,
        "failed": failed,
        "figures": {finding.check: finding.figure for finding in findings},
    }
    write_atomically(json.dumps(summary, indent=1) + "\n", path)
    return path


def describe_hardware() -> Finding:
    """Return the processor, memory and system of this machine."""
    hardware = provenance.describe_hardware()
    memory = f"{hardware['memory_bytes'] / 2**20:,.0f} MiB"
    return Finding(
        "machine",
        True,
        f"{hardware['cpu']}, {hardware['cores']} cores, {memory}, {hardware['system']}",
    )


def check_git() -> Finding:
    """Check whether records can say which code measured them."""
    commit = provenance.find_commit()
    if not shutil.which("git"):
        detail = "git is not installed"
    elif commit:
        detail = f"commit {commit[:10]}"
    else:
        detail = "no git commit: records cannot say which code measured them"
    return Finding("git", commit is not None, detail)


def check_tools(framework: str) -> Finding:
    """Check whether a framework's environment can be built."""
    try:
        environments.check_tools(framework)
    except SetupError as error:
        return Finding(f"tools for {framework}", passed=False, detail=str(error))
    return Finding(f"tools for {framework}", passed=True, detail="present")


def check_environment(framework: str) -> Finding:
    """Check whether a framework's environment is built, and undamaged."""
    environment = environments.describe(framework)
    check = f"environment {environment.name}"
    if not environments.is_built(environment):
        return Finding(
            check,
            passed=False,
            detail=f"not built yet: framebench setup {framework}",
            optional=True,
        )
    damage = environments.find_damage(environment)
    return Finding(check, not damage, damage or str(environment.python.parent.parent))
