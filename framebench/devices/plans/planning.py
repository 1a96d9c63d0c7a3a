"""What cases need on a device: from cached predictions, or planned now, two at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from framebench.devices.catalog import Device, find
from framebench.devices.plans import process, store
from framebench.devices.plans.answer import Answer, shorten_error
from framebench.devices.plans.naming import cases_of
from framebench.devices.plans.planned import Origin, Planned, Source
from framebench.devices.plans.version import PLANNER_VERSION, is_current
from framebench.devices.simulation import cudnn
from framebench.engine import environments, releases
from framebench.engine.children import CHILDREN
from framebench.engine.environments import Environment, Say, SetupError
from framebench.models import spec
from framebench.records import provenance
from framebench.records.pins import REQUIREMENTS, find_pinned_version, read_pins
from framebench.suite.case import Case, UnknownCase

AT_ONCE = 2  # planners: each keeps one or two cores busy and takes up to 3 GB
# environments of their own
PACKAGES = {
    ("jax", "gpu"): "jax-cuda",
    ("jax", "tpu"): "jax-tpu",
    ("torch", "gpu"): process.WITH_CUDNN,
}
PLUGINS = ("jax-cuda13-plugin", "jax-cuda13-pjrt")  # released together with JAX
# of any release of JAX as it is pinned for the current one
ASSEMBLER = ("nvidia-cuda-nvcc", "nvidia-nvvm")
SOURCES: dict[str, Source] = {"jax": "compiler.plan", "torch": "allocator.simulated"}
JITTOR = (
    "Jittor decides what it allocates while it runs, and has no mode that runs without a device; "
    "on a CPU its own allocator's "
    "peak tells what its tensors take"
)
Listener = Callable[[Planned, bool], None]  # called with a prediction, and whether it was cached


def explain_unpredictable_on_device(case: Case, device: Device) -> str | None:
    """Return why the needs of this case on a device cannot be predicted, or None if they can."""
    if case.framework not in SOURCES:
        return JITTOR
    if not case.support.supported:
        return case.support.why
    if case.framework == "torch" and device.kind != "gpu":
        return "PyTorch is planned for GPUs alone"
    return None


def ensure_environment(framework: str, device: Device, version: str, say: Say) -> Environment:
    """Return the environment that predicts, built now if it is not there. Raises SetupError."""
    package = PACKAGES.get((framework, device.kind), "")
    if version == find_pinned_version(framework):
        if framework == "torch":
            return ensure_cudnn(say) or environments.ensure("torch", say=say)
        return environments.ensure(framework, say=say, package=package)
    if framework == "torch":  # simulated on fake tensors, so any build of it will do
        return releases.ensure_release(framework, version, "", (), say)
    if device.kind != "gpu":
        raise SetupError(
            f"releases are planned for GPUs alone: not {framework} {version} for {device.name}"
        )
    pinned = read_pins(REQUIREMENTS / f"{package}.txt")
    requirements = [f"{name}=={version}" for name in PLUGINS]
    requirements += [f"{name}=={pinned[name]}" for name in ASSEMBLER]
    return releases.ensure_release(framework, version, package, requirements, say)


def ensure_cudnn(say: Say) -> Environment | None:
    """Return PyTorch's environment that has cuDNN, built now if it is not there yet.

    None where the user names another cuDNN, or, with a sentence, where it cannot be built.
    """
    if cudnn.FOLDER_VARIABLE in os.environ:
        return None
    try:
        return environments.ensure("torch", say=say, package=process.WITH_CUDNN)
    except SetupError as error:
        reason = shorten_error(str(error))
        say(f"cuDNN cannot be had, so convolutions are planned without workspaces: {reason}")
        return None


def plan_all(
    cases: Sequence[Case],
    device: Device,
    results: Path,
    say: Say,
    listener: Listener | None = None,
    again: bool = False,
    version: str | None = None,
    environment: Environment | None = None,
) -> list[Planned]:
    """Return the prediction of each case, in the order of the cases: cached, or planned now and
    cached.

    Args:
        cases: Of any framework. What failed before is tried again.
        device: The target device.
        results: The folder of cached predictions.
        say: Called with what takes long.
        listener: Called with each prediction.
        again: Whether to recompute what is cached.
        version: Of the framework, if not the pinned one.
        environment: In the place of the pinned ones.
    """
    planned: dict[Case, Planned] = {}

    def add(case: Case, prediction: Planned, is_cached: bool) -> None:
        planned[case] = prediction
        if listener:
            listener(prediction, is_cached)

    if not again:
        for case, cached in find_cached(cases, device, results, version).items():
            add(case, cached, True)
    missing = [case for case in cases if case not in planned]
    for new in plan_now(missing, device, results, say, version, environment):
        add(Case.from_id(new.case), new, False)
    return [planned[case] for case in cases]


def planned_for(
    cases: Sequence[Case | str],
    device: str,
    results: Path,
    say: Say,
    release: str | None = None,
) -> list[Planned]:
    """Return the prediction of each case or selector, for other features.

    By a `release` such as jax==0.9.2 only those of its framework. Raises UnknownDevice,
    UnknownCase.
    """
    chosen: list[Case] = []
    for case in cases:
        chosen += cases_of([case]) if isinstance(case, str) else [case]
    framework, _, version = (release or "").partition("==")
    of_framework = [case for case in dict.fromkeys(chosen) if framework in ("", case.framework)]
    if chosen and not of_framework:
        raise UnknownCase(
            f"{release} has none of these cases: {', '.join(map(str, cases))}; "
            f"name one of {framework}"
        )
    return plan_all(of_framework, find(device), results, say, version=version or None)


def find_cached(
    cases: Sequence[Case], device: Device, results: Path, version: str | None = None
) -> dict[Case, Planned]:
    """Return the cached predictions of these cases that can be reused: published ones, and the
    user's own.
    """
    cached: dict[Case, Planned] = {}
    for root in dict.fromkeys((results, store.choose_writable_folder(results))):
        predictions: dict[str, Planned] = {}
        for framework in {case.framework for case in cases}:
            file = store.file(
                root, device.name, framework, version or find_pinned_version(framework)
            )
            predictions |= store.read(file)
        for case in cases:
            if case.id in predictions and is_reusable(predictions[case.id], case):
                cached[case] = predictions[case.id]
    return cached


def is_reusable(cached: Planned, case: Case) -> bool:
    """Return whether a cached prediction answers for the case.

    A user's file may have changed, and what failed is tried again.
    """
    return (
        case.workload != spec.USER_MODEL
        and cached.outcome != "failed"
        and is_current(cached.origin.code)
    )


def plan_now(
    cases: Sequence[Case],
    device: Device,
    results: Path,
    say: Say,
    version: str | None,
    environment: Environment | None,
) -> Iterator[Planned]:
    """Plan these cases, and yield each prediction as soon as it is cached."""
    ready: dict[str, Environment | SetupError] = {}  # by framework
    for case in cases:
        if case.framework not in ready and not explain_unpredictable_on_device(case, device):
            release = version or find_pinned_version(case.framework)
            try:
                ready[case.framework] = environment or ensure_environment(
                    case.framework, device, release, say
                )
            except SetupError as error:
                ready[case.framework] = error
    workers = 1 if device.kind == "tpu" else AT_ONCE  # a TPU's compiler takes a lock
    with interrupt_on_sigterm(), ThreadPoolExecutor(workers) as pool:
        waiting = [
            pool.submit(plan_case, case, device, ready.get(case.framework), version)
            for case in cases
        ]
        try:
            for done in as_completed(waiting):
                planned = done.result()
                store.write(store.choose_writable_folder(results), planned)
                yield planned
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            CHILDREN.kill()
            process.kill_servers()
            raise


@contextlib.contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end what runs in here as Ctrl-C does, and with it the planners, which are in
    sessions of their own.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def plan_case(
    case: Case,
    device: Device,
    environment: Environment | SetupError | None,
    version: str | None,
) -> Planned:
    """Return what became of a case; a planner's fault is an outcome, not an exception."""
    start = time.monotonic()
    obstacle = explain_unpredictable_on_device(case, device)
    if obstacle:
        answer = Answer("not planned", obstacle)
    elif not isinstance(environment, Environment):
        answer = Answer("failed", f"no compiler for it: {shorten_error(str(environment))}")
    else:
        answer = process.run_planner(environment, case, device)
    fields = dataclasses.asdict(answer)
    origin = Origin(
        planned_at=datetime.now(UTC),
        command=provenance.describe_command(),
        commit=provenance.find_code(),
        dirty=provenance.is_dirty(),
        code=str(PLANNER_VERSION),
        versions=fields.pop("versions"),
        wall_s=round(time.monotonic() - start, 1),
    )
    about: dict[str, Any] = {
        "case": case.id,
        "device": device.name,
        "framework": case.framework,
        "framework_version": version or find_pinned_version(case.framework),
        "source": SOURCES.get(case.framework),
        "origin": origin,
    }
    try:
        return Planned(**about, **fields)
    except ValidationError as error:
        reason = f"the planner returned no valid prediction: {shorten_error(str(error))}"
        return Planned(**about, outcome="failed", reason=reason)
