"""The shape that every benchmark class has: scenario, strategy and batch as parameters, metrics of one record."""

from __future__ import annotations

import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from framebench.asv.block import measured_with
from framebench.engine import runner
from framebench.models import spec
from framebench.records.record import Record
from framebench.suite import profiles, protocol
from framebench.suite.case import DEFAULT_SIZE, Case
from framebench.suite.strategy import TITLES

# read once, in the server that asv forks every benchmark process from
ENV = os.environ.get("FRAMEBENCH_ENV", "")
PROFILE = tuple(profiles.profile())
# of every profile: a benchmark has the same parameters whichever is measured, so that asv adds up what several of them measured
ALL = tuple(dict.fromkeys(case for name in profiles.PROFILES for case in profiles.profile(name)))
MIB = 2**20


@dataclass(frozen=True)
class Metric:
    """One number of a record as a benchmark of asv's."""

    name: str
    title: str  # asv's pages and tables show it, so it names the instrument of a peak
    unit: str
    read: Callable[[Record], float | None]  # None where the record has no such number
    # asv compares results of one version only; by default, every edit of this file would start a new one
    version: str = str(protocol.VERSION)


def read_shared_peak(record: Record) -> float | None:
    """Return the peak in MiB by the instrument that reads all frameworks alike."""
    return in_mib(record.peaks.get(record.shared_instrument or ""))


def read_own_peak(record: Record) -> float | None:
    """Return the peak in MiB by the framework's own counter, or None where it has none on this device."""
    return in_mib(record.peaks.get(record.own_instrument or ""))


def in_mib(count: int | None) -> float | None:
    """Return bytes as MiB. asv writes "bytes" in powers of 1000, and our tables do not."""
    return None if count is None else count / MIB


def read_throughput(record: Record) -> float | None:
    """Return the work per second with two decimals: asv would print sixteen digits."""
    return None if record.throughput is None else round(record.throughput, 2)


PEAK = Metric(
    "track_peak_memory",
    "peak memory of a step by host.rss (on a GPU by device.process)",
    "MiB",
    read_shared_peak,
    # not the protocol's version alone: before, it was in bytes, by each framework's own counter
    version=f"{protocol.VERSION}-MiB",
)
# by framework: PyTorch has a counter on GPUs alone, and asv's environments have its build for the CPU
OWN_COUNTERS = {"jax": "compiler.plan", "jittor": "allocator.in_use"}
STEP_TIME = Metric("track_step_time", "time of a step", "seconds", lambda record: record.step_time_s)
FIRST_STEP = Metric(
    "track_first_step", "time of the first step, with compilation", "seconds", lambda record: record.first_step_s
)


def metrics_of(workload: str, framework: str) -> Iterator[Metric]:
    """Yield the metrics that every case of a workload in a framework has."""
    unit = f"{spec.workload(workload).unit}/s"
    yield PEAK
    if counter := OWN_COUNTERS.get(framework):
        title = f"peak memory of a step by {TITLES[framework]}'s own counter, {counter}"
        yield Metric("track_own_counter_peak", title, "MiB", read_own_peak)
    yield STEP_TIME
    yield FIRST_STEP
    yield Metric("track_throughput", f"throughput in {unit}", unit, read_throughput)


class CaseFailed(RuntimeError):
    """The case has no number, which asv shows as "failed"; the message is the record's status and reason."""


class CaseBenchmarks(ABC):
    """One workload in one framework at one size. A subclass states `workload`, `framework` and `size`, no more (`classes`).

    asv runs every metric of every parameter in a process of its own. The first to ask for a case measures the block that it is
    in; the others, and the other cases of the block, find their records of the same session.
    """

    workload: ClassVar[str]
    size: ClassVar[str] = DEFAULT_SIZE  # another one is part of the class's name too
    params: ClassVar[
        tuple[list[str], list[str], list[int]]
    ]  # asv takes their product; which of it are cases, framebench.asv knows
    param_names: ClassVar[list[str]] = ["scenario", "strategy", "batch"]
    timeout = 24 * 3600  # more than the limits of a whole block: were asv to cut a case off, the reason would be lost

    @property
    @abstractmethod
    def framework(self) -> str:
        """Abstract so that asv, which collects every concrete class, passes over this one."""

    def __init_subclass__(cls) -> None:
        cases = [case for case in ALL if (case.workload, case.size) == (cls.workload, cls.size)]
        scenarios, strategies = dict.fromkeys(case.scenario for case in cases), dict.fromkeys(case.strategy for case in cases)
        cls.params = list(scenarios), list(strategies), sorted({case.batch for case in cases})
        for metric in metrics_of(cls.workload, str(cls.framework)):
            setattr(cls, metric.name, cls.make_benchmark(metric))

    @classmethod
    def make_benchmark(cls, metric: Metric) -> Callable[[CaseBenchmarks, str, str, int], float]:
        """Return the function that asv calls for a metric: of each class its own, since it bears the class's title."""

        def track(self: CaseBenchmarks, scenario: str, strategy: str, batch: int) -> float:
            return self.read_metric(metric)

        of_size = "" if cls.size == DEFAULT_SIZE else f", size {cls.size}"
        about = f"{spec.workload(cls.workload).title} in {TITLES[str(cls.framework)]}{of_size}"
        track.pretty_name = f"{about}: {metric.title}"  # type: ignore[attr-defined]
        track.unit = metric.unit  # type: ignore[attr-defined]
        track.version = metric.version  # type: ignore[attr-defined]
        return track

    def setup(self, scenario: str, strategy: str, batch: int) -> None:
        """asv shows n/a for what raises NotImplementedError here."""
        self.case = Case(self.workload, self.framework, scenario, strategy, batch, self.size)
        if self.framework != ENV.split("==")[0]:
            raise NotImplementedError(f"{self.framework} is not in this environment, {ENV or 'which has no framework'}")
        if self.case not in PROFILE:
            raise NotImplementedError(f"{self.case.id} is not in the profile {profiles.profile_name()}")
        if why := runner.unsupported(self.case):
            self._record()  # the record keeps the reason, which asv does not
            raise NotImplementedError(f"unsupported: {why}")

    def read_metric(self, metric: Metric) -> float:
        """Return one number of the case's record; NaN, which asv shows as n/a, where there can be none here.

        Raises CaseFailed.
        """
        record = self._record()
        if record.status not in ("ok", "unsupported") and not runner.expected(record):
            sys.tracebacklimit = 0  # asv prints it, and the reason is not in this file
            raise CaseFailed(f"{record.status}: {record.reason}")
        value = metric.read(record) if record.status == "ok" else None
        return math.nan if value is None else float(value)

    def _record(self) -> Record:
        """Of this session: the first question for a case measures all that it is compared with."""
        return measured_with(self.case, ENV, PROFILE)


def classes() -> Iterator[type[CaseBenchmarks]]:
    """One for each workload, framework that it is written in, and size of a profile. The usual size is in no name."""
    sizes = dict.fromkeys(described.size for described in profiles.PROFILES.values())
    for workload in map(spec.workload, spec.names()):
        for framework, size in product(workload.frameworks, sizes):
            if size in workload.sizes:
                of_size = "" if size == DEFAULT_SIZE else size.title()
                name = f"{workload.name}.{workload.benchmark}{framework.title()}{of_size}"
                yield type(name, (CaseBenchmarks,), {"workload": workload.name, "framework": framework, "size": size})
