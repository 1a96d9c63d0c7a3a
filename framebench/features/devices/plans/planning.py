"""What cases need on a device: taken up from what is kept, or planned now, two at a time."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from framebench.engine import environments, releases
from framebench.engine.environments import Environment, Say, SetupError
from framebench.features.devices.catalog import Device, find
from framebench.features.devices.plans import process, store
from framebench.features.devices.plans.naming import cases_of
from framebench.features.devices.plans.planned import Origin, Planned, Source
from framebench.features.devices.plans.version import PLANNER_VERSION, is_current
from framebench.models import spec
from framebench.records import provenance
from framebench.records.pins import REQUIREMENTS, pinned_version, pins
from framebench.suite.case import Case, UnknownCase

AT_ONCE = 2  # planners: each keeps one or two cores busy and takes up to 3 GB
PACKAGES = {("jax", "gpu"): "jax-cuda", ("jax", "tpu"): "jax-tpu", ("torch", "gpu"): "torch-cudnn"}  # environments of their own
PLUGINS = {"jax-cuda": ("jax-cuda13-plugin", "jax-cuda13-pjrt")}  # released together with JAX
ASSEMBLER = ("nvidia-cuda-nvcc", "nvidia-nvvm")  # of any release of JAX as it is pinned for the current one
SOURCES: dict[str, Source] = {"jax": "compiler.plan", "torch": "allocator.simulated"}
JITTOR = (
    "Jittor decides what it allocates while it runs, and has no mode that runs without a device; on a CPU its own allocator's "
    "peak tells what its tensors take"
)
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
        return with_cudnn(say, package) if framework == "torch" else environments.ensure(framework, say=say, package=package)
    if framework == "torch":  # simulated on tensors without numbers, so any build of it will do
        return releases.beside(framework, version, "", (), say)
    if package not in PLUGINS:
        raise SetupError(f"releases are planned for GPUs alone: not {framework} {version} for {device.name}")
    pinned = pins(REQUIREMENTS / f"{package}.txt")
    more = [f"{name}=={version}" for name in PLUGINS[package]] + [f"{name}=={pinned[name]}" for name in ASSEMBLER]
    return releases.beside(framework, version, package, more, say)


def with_cudnn(say: Say, package: str) -> Environment:
    """PyTorch's, or the one without where cuDNN cannot be had. Raises SetupError."""
    try:
        return environments.ensure("torch", say=say, package=package)
    except SetupError as error:
        say(f"cuDNN cannot be had, so convolutions are planned without workspaces: {process.short(str(error))}")
        return environments.ensure("torch", say=say)


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


def planned_for(cases: Sequence[Case | str], device: str, results: Path, say: Say, release: str | None = None) -> list[Planned]:
    """The same for other features, of cases or selectors. By a `release` such as jax==0.9.2 only those of its framework.

    Raises UnknownDevice, UnknownCase."""
    chosen = [one for case in cases for one in (cases_of([case]) if isinstance(case, str) else [case])]
    framework, _, version = (release or "").partition("==")
    ours = [case for case in dict.fromkeys(chosen) if framework in ("", case.framework)]
    if chosen and not ours:
        raise UnknownCase(f"{release} has none of these cases: {', '.join(map(str, cases))}; name one of {framework}")
    return plan_all(ours, find(device), results, say, version=version or None)


def take_up(cases: Sequence[Case], device: Device, results: Path, version: str | None = None) -> dict[Case, Planned]:
    """What was told before by the same code and version, where it was an answer: published ones and one's own.

    A user's file may have changed."""
    frameworks = {case.framework for case in cases}
    found: dict[Case, Planned] = {}
    for root in dict.fromkeys((results, store.own(results))):
        files = [store.file(root, device.name, f, version or pinned_version(f)) for f in frameworks]
        kept = {case: planned for file in files for case, planned in store.read(file).items()}
        found |= {case: kept[case.id] for case in cases if case.id in kept and _is_reusable(kept[case.id], case)}
    return found


def _is_reusable(cached: Planned, case: Case) -> bool:
    """Return whether a cached prediction answers for the case.

    A user's file may have changed, and what failed is tried again.
    """
    return case.workload != spec.OWN and cached.outcome != "failed" and is_current(cached.origin.code)


def _now(
    cases: Sequence[Case], device: Device, results: Path, say: Say, version: str | None, environment: Environment | None
) -> Iterator[Planned]:
    """As they are told."""
    able = [case for case in cases if not obstacle(case, device)]
    ready = {case.framework: environment for case in able} if environment else _ready(able, device, say, version)
    workers = 1 if device.kind == "tpu" else AT_ONCE
    with ended_as_by_hand(), ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(_one, case, device, ready.get(case.framework), version) for case in cases]
        try:
            for done in as_completed(waiting):
                planned = done.result()
                store.write(store.own(results), planned)
                yield planned
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for running in list(process.RUNNING):
                process.end(running)
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


def _one(case: Case, device: Device, environment: Environment | SetupError | None, version: str | None) -> Planned:
    """What became of it; never raises for a planner's fault."""
    start = time.monotonic()
    if why := obstacle(case, device):
        said: dict[str, Any] = {"outcome": "not planned", "reason": why}
    elif not isinstance(environment, Environment):
        said = {"outcome": "failed", "reason": f"no compiler for it: {process.short(str(environment))}"}
    else:
        said = process.ask(environment, case, device)
    versions = said.pop("versions", {})
    release = version or pinned_version(case.framework)
    told: dict[str, Any] = {
        "case": case.id, "device": device.name, "framework": case.framework, "framework_version": release,
        "source": SOURCES.get(case.framework), "origin": _origin(versions, start),
    }  # fmt: skip
    try:
        return Planned(**told, **said)
    except (ValidationError, TypeError) as error:
        return Planned(**told, outcome="failed", reason=f"the prediction does not hold: {process.short(str(error))}")


def _origin(versions: dict[str, str], start: float) -> Origin:
    return Origin(
        planned_at=datetime.now(UTC), command=provenance.command(), commit=provenance.commit(), dirty=provenance.dirty(),
        code=str(PLANNER_VERSION), versions=versions, wall_s=round(time.monotonic() - start, 1),
    )  # fmt: skip
