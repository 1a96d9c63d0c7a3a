"""What a case needs on a device: the parent's side of the planners, each of which runs in its framework's environment as
`python -m framebench.features.devices.<planner> CASE DEVICE` and prints one JSON object last: the fields of `Planned` that it
knows."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.version import Version
from pydantic import ValidationError

from framebench.engine import environments, releases
from framebench.engine.environments import Environment, Say, SetupError
from framebench.extensions import worker_module
from framebench.features.devices.catalog import Device, find
from framebench.features.devices.plans import store
from framebench.features.devices.plans.fingerprint import fingerprint
from framebench.features.devices.plans.naming import cases_of
from framebench.features.devices.plans.planned import Origin, Planned, Source
from framebench.models import spec
from framebench.records import provenance
from framebench.records.pins import REQUIREMENTS, pinned_version, pins
from framebench.suite.case import Case

BUDGET_S = 600.0  # for one case
AT_ONCE = 2  # planners: each keeps one or two cores busy and takes up to 3 GB
PACKAGES = {("jax", "gpu"): "jax-cuda", ("jax", "tpu"): "jax-tpu"}  # environments of their own
PLUGINS = {"jax-cuda": ("jax-cuda13-plugin", "jax-cuda13-pjrt")}  # released together with JAX
ASSEMBLER = ("nvidia-cuda-nvcc", "nvidia-nvvm")  # of any release of JAX as it is pinned for the current one
PLANNERS = {"jax": "xla.jax_plan", "torch": "simulation.torch_plan"}
OLDER, OLDER_THAN = "releases.jax_older", Version("0.9")  # of JAX
SOURCES: dict[str, Source] = {"jax": "compiler.plan", "torch": "allocator.simulated"}
JITTOR = (
    "Jittor decides what it allocates while it runs, and has no mode that runs without a device; on a CPU its own allocator's "
    "peak tells what its tensors take"
)
FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")  # of whoever asks: an answer is kept, and must not depend on them
ALONE = {  # a planner's environment: one without a device
    "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TPU_SKIP_MDS_QUERY": "1", "OMP_NUM_THREADS": "1",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # which asks for NVIDIA's libraries
    "JAX_ENABLE_COMPILATION_CACHE": "false",  # what is taken from a cache tells nothing of its plan
}  # fmt: skip
Listener = Callable[[Planned, bool], None]  # what was told, and whether it was there already


def obstacle(case: Case, device: Device) -> str | None:
    """Why nothing can tell what the case needs there, if nothing can."""
    if case.framework not in SOURCES:
        return JITTOR
    if not case.support.supported:
        return case.support.why
    if case.framework == "torch" and device.kind != "gpu":
        return "PyTorch is planned for GPUs alone"
    return None


def environment_of(framework: str, device: Device, version: str, say: Say) -> Environment:
    """The environment that tells, built now if it is not there. Raises SetupError."""
    package = PACKAGES.get((framework, device.kind), "")
    if version == pinned_version(framework):
        return environments.ensure(framework, say=say, package=package)
    if package not in PLUGINS:
        raise SetupError(f"only JAX's releases are planned, and only for GPUs: not {framework} {version} for {device.name}")
    pinned = pins(REQUIREMENTS / f"{package}.txt")
    more = [f"{name}=={version}" for name in PLUGINS[package]] + [f"{name}=={pinned[name]}" for name in ASSEMBLER]
    return releases.beside(framework, version, package, more, say)


def plan_all(
    cases: Sequence[Case], device: Device, results: Path, say: Say, told: Listener = lambda *_: None, again: bool = False,
    version: str | None = None, environment: Environment | None = None,
) -> list[Planned]:  # fmt: skip
    """Each case on the device, in the order of the cases: from the files, or planned now, two at a time, and kept.
    `environment`: in the place of the pinned ones.

    A TPU's compiler takes a lock, so of its cases one at a time. What failed is tried again when it is asked for again.
    """
    found = {} if again else take_up(cases, device, results, version)
    for kept in found.values():
        told(kept, True)
    for planned in _now([case for case in cases if case not in found], device, results, say, version, environment):
        found[Case.of(planned.case)] = planned
        told(planned, False)
    return [found[case] for case in cases]


def planned_for(cases: Sequence[Case | str], device: str, results: Path, say: Say, version: str | None = None) -> list[Planned]:
    """The same for other features, of cases or selectors, and of a release that is not the pinned one if it is named.

    Raises UnknownDevice, UnknownCase."""
    chosen = [one for case in cases for one in (cases_of([case]) if isinstance(case, str) else [case])]
    return plan_all(list(dict.fromkeys(chosen)), find(device), results, say, version=version)


def take_up(cases: Sequence[Case], device: Device, results: Path, version: str | None = None) -> dict[Case, Planned]:
    """What was told before by the same code and version, where it was an answer. A user's file may have changed."""
    frameworks = {case.framework for case in cases}
    files = {f: store.file(results, device.name, f, version or pinned_version(f)) for f in frameworks}
    kept = {case: planned for file in files.values() for case, planned in store.read(file).items()}
    return {case: kept[case.id] for case in cases if case.id in kept and _good(kept[case.id], case, device)}


def _good(kept: Planned, case: Case, device: Device) -> bool:
    return case.workload != spec.OWN and kept.outcome != "failed" and kept.origin.code == fingerprint(case, device)


def _now(
    cases: Sequence[Case], device: Device, results: Path, say: Say, version: str | None, environment: Environment | None
) -> Iterator[Planned]:
    """As they are told."""
    able = [case for case in cases if not obstacle(case, device)]
    ready = {case.framework: environment for case in able} if environment else _ready(able, device, say, version)
    workers = 1 if device.kind == "tpu" else AT_ONCE
    with ended_as_by_hand(), ThreadPoolExecutor(workers) as pool:
        # the fingerprint here: CPython 3.11's `ast` shares a counter between threads (python/cpython#106905)
        tasks = [(case, device, ready.get(case.framework), version, fingerprint(case, device)) for case in cases]
        waiting = [pool.submit(_one, *task) for task in tasks]
        try:
            for done in as_completed(waiting):
                planned = done.result()
                store.write(results, planned)
                yield planned
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(RUNNING):
                _end(process)
            raise


@contextlib.contextmanager
def ended_as_by_hand() -> Iterator[None]:
    """SIGTERM ends what runs in here as Ctrl-C does, and with it the planners, which are in sessions of their own."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _ready(cases: Sequence[Case], device: Device, say: Say, version: str | None) -> dict[str, Environment | SetupError]:
    """The environment of each framework, built now if it is not there; or why it cannot be."""
    ready: dict[str, Environment | SetupError] = {}
    for case in cases:
        if case.framework not in ready:
            try:
                wanted = version or pinned_version(case.framework)
                ready[case.framework] = environment_of(case.framework, device, wanted, say)
            except SetupError as error:
                ready[case.framework] = error
    return ready


def _one(case: Case, device: Device, environment: Environment | SetupError | None, version: str | None, code: str) -> Planned:
    """What became of it; never raises for a planner's fault."""
    start = time.monotonic()
    if why := obstacle(case, device):
        said: dict[str, Any] = {"outcome": "not planned", "reason": why}
    elif not isinstance(environment, Environment):
        said = {"outcome": "failed", "reason": f"no compiler for it: {_short(str(environment))}"}
    else:
        said = ask(environment, case, device)
    versions = said.pop("versions", {})
    release = version or pinned_version(case.framework)
    told: dict[str, Any] = {
        "case": case.id, "device": device.name, "framework": case.framework, "framework_version": release,
        "source": SOURCES.get(case.framework), "origin": _origin(code, versions, start),
    }  # fmt: skip
    try:
        return Planned(**told, **said)
    except (ValidationError, TypeError) as error:
        return Planned(**told, outcome="failed", reason=f"the prediction does not hold: {_short(str(error))}")


def _origin(code: str, versions: dict[str, str], start: float) -> Origin:
    return Origin(
        planned_at=datetime.now(UTC), command=provenance.command(), commit=provenance.commit(), dirty=provenance.dirty(),
        code=code, versions=versions, wall_s=round(time.monotonic() - start, 1),
    )  # fmt: skip


def planner(environment: Environment) -> str:
    """The feature's worker that plans in this environment."""
    older = environment.framework == "jax" and Version(environment.version) < OLDER_THAN
    return OLDER if older else PLANNERS[environment.framework]


RUNNING: set[subprocess.Popen[str]] = set()


def ask(environment: Environment, case: Case, device: Device) -> dict[str, Any]:
    """What the framework's planner prints; `failed` with its last words where it prints nothing, or takes too long."""
    ours = {name: value for name, value in os.environ.items() if name not in FLAGS}
    paths = {**ours, **environment.variables(), **ALONE, "PYTHONPATH": environments.import_path()}
    module = worker_module("devices", planner(environment))
    command = [str(environment.python), "-P", "-m", module, case.id, device.name]
    process = subprocess.Popen(
        command, env=paths, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    RUNNING.add(process)
    try:
        printed, errors = process.communicate(timeout=BUDGET_S)
    except subprocess.TimeoutExpired:
        _end(process)
        process.communicate()
        return {"outcome": "failed", "reason": f"planning took longer than {BUDGET_S / 60:.0f} minutes"}
    finally:
        RUNNING.discard(process)
    try:
        return dict(json.loads(printed.strip().splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        return {"outcome": "failed", "reason": _ended(process.returncode, errors)}


def _ended(code: int, errors: str) -> str:
    if code == -signal.SIGKILL:
        return "the planner was killed: this machine ran out of memory, or somebody ended it"
    return f"the planner ended with {code}: {_short(errors)}"


def _end(process: subprocess.Popen[str]) -> None:
    """And whatever it has started: compilers start processes of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _short(text: str) -> str:
    """The line that names the last exception, or else the last one: messages of PyTorch's go on for pages."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Exit|Fault|Interrupt): ", line)]
    return (named or lines or ["it said nothing"])[-1].strip()[:500]
