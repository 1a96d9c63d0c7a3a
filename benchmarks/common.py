"""The shape that every benchmark class has: scenario, strategy and batch as parameters, four metrics of one record."""

from __future__ import annotations

import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import product
from typing import ClassVar

from framebench.asv.block import measured_with
from framebench.engine import runner
from framebench.models import spec
from framebench.records.record import Record
from framebench.suite import profiles, protocol
from framebench.suite.case import DEFAULT_SIZE, Case

# read once, in the server that asv forks every benchmark process from
ENV = os.environ.get("FRAMEBENCH_ENV", "")
PROFILE = tuple(profiles.profile())
# of every profile: a benchmark has the same parameters whichever is measured, so that asv adds up what several of them measured
ALL = tuple(dict.fromkeys(case for name in profiles.PROFILES for case in profiles.profile(name)))


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
    unit: ClassVar[str]  # of the throughput; the other metrics state theirs
    param_names: ClassVar[list[str]] = ["scenario", "strategy", "batch"]
    # asv compares results of one version only; by default, every edit of this file would start a new one
    version = str(protocol.VERSION)
    timeout = 24 * 3600  # more than the limits of a whole block: were asv to cut a case off, the reason would be lost

    @property
    @abstractmethod
    def framework(self) -> str:
        """Abstract so that asv, which collects every concrete class, passes over this one."""

    def __init_subclass__(cls) -> None:
        cases = [case for case in ALL if (case.workload, case.size) == (cls.workload, cls.size)]
        scenarios, strategies = dict.fromkeys(case.scenario for case in cases), dict.fromkeys(case.strategy for case in cases)
        cls.params = list(scenarios), list(strategies), sorted({case.batch for case in cases})
        cls.unit = f"{spec.workload(cls.workload).unit}/s"

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

    def track_peak_memory(self, scenario: str, strategy: str, batch: int) -> float:
        return self._metric("peak_bytes")

    def track_step_time(self, scenario: str, strategy: str, batch: int) -> float:
        return self._metric("step_time_s")

    def track_throughput(self, scenario: str, strategy: str, batch: int) -> float:
        return round(self._metric("throughput"), 2)  # asv would print sixteen digits

    def track_first_step(self, scenario: str, strategy: str, batch: int) -> float:
        return self._metric("first_step_s")

    # the units that asv itself writes with a prefix
    track_peak_memory.unit = "bytes"  # type: ignore[attr-defined]
    track_step_time.unit = track_first_step.unit = "seconds"  # type: ignore[attr-defined]

    def _metric(self, name: str) -> float:
        """One number of the record; NaN, which asv shows as n/a, where there can be none here. Raises CaseFailed."""
        record = self._record()
        if record.status not in ("ok", "unsupported") and not runner.expected(record):
            sys.tracebacklimit = 0  # asv prints it, and the reason is not in this file
            raise CaseFailed(f"{record.status}: {record.reason}")
        value = getattr(record, name) if record.status == "ok" else None
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
