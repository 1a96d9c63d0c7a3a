"""Fixtures: the frameworks' environments (built once per machine) and a results folder of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from framebench.measure import environments
from framebench.measure.environments import Environment
from framebench.records import provenance
from framebench.records.record import Record
from framebench.suite.strategy import FRAMEWORKS

ROOT = provenance.ROOT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest file first, so that files handed to several processes end together."""
    items.sort(key=lambda item: item.path.name != "test_strategies.py")


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer's shell sets must not decide a test."""
    for name in ("FRAMEBENCH_PROFILE", "FRAMEBENCH_MACHINE", "FRAMEBENCH_SESSION", "FRAMEBENCH_ENV"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def environment() -> dict[str, Environment]:
    return {framework: environments.ensure(framework) for framework in FRAMEWORKS}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


Tried = Callable[..., None]


@pytest.fixture
def tried(record_property: Callable[[str, object], None]) -> Tried:
    """Enter a planted fault into the campaign's count, before anything about it is asserted.

    `expected` records should be there afterwards, `found` are. A record is false if it says `ok`, verified and proven, although
    the fault forbids it (`may_be_ok` false), or although what it holds does not bear that out.
    """

    def enter(
        fault: str, found: Iterable[Record], expected: int = 1, times: int = 1, seen: str = "", may_be_ok: bool = False
    ) -> None:
        kept = list(found)
        false = [r for r in kept if believed(r) and not (may_be_ok and borne_out(r))]
        seen = seen or ", ".join(sorted({r.status if r.status != "ok" or believed(r) else "ok, not proven" for r in kept}))
        counts = {"tried": times, "records_lost": max(0, expected - len(kept)), "false_ok": len(false)}
        record_property("fault", {"fault": fault, "seen": seen} | counts)

    return enter


def believed(record: Record) -> bool:
    """Whether tables would show its numbers without a warning."""
    verified = record.verification is not None and record.verification.passed
    return record.status == "ok" and verified and record.effect is not None and record.effect.proven


def borne_out(record: Record) -> bool:
    """Whether an `ok` is complete, and right by its own observations, compared with golden.json anew."""
    assert record.verification
    observed, golden = record.verification.observed, record.parsed.spec.golden[record.parsed.golden_key]
    scale = golden | {"logits_checksum": golden.get("logits_norm")}  # a projection of the logits may be near zero
    error = {k: abs((observed.get(k) or 0) - golden[k]) / abs(scale[k]) for k in record.verification.tolerance if k in golden}
    near = {k: e <= record.verification.tolerance[k] for k, e in error.items()}
    return bool(near) and all(near.values()) and len(record.step_s) >= 3 and record.peak_bytes is not None


campaign: list[dict[str, object]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--faults", type=Path, help="write what the fault campaign tried to this file, for analysis.studies.faults"
    )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        campaign.extend({**fault, "passed": report.passed} for name, fault in report.user_properties if name == "fault")  # type: ignore[dict-item]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if file := session.config.getoption("--faults"):
        where = {"commit": provenance.commit(), "dirty": provenance.dirty(), "machine": provenance.machine_name()}
        when = datetime.now(UTC).isoformat(timespec="seconds")
        file.write_text(json.dumps({"measured_at": when, **where, "faults": campaign}, indent=1) + "\n")


LEAVE = """
import os, sys
sys.stdout.flush()
os._exit(0)  # as the worker does: Jittor's clean-up at exit sometimes crashes
"""


def run_inside(environment: Environment, code: str, *arguments: str, variables: dict[str, str] | None = None) -> object:
    """Run code in a framework's environment; the last line it prints is JSON."""
    threads = {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(environment.python), "-c", code + LEAVE, *arguments],
        env={**os.environ, **environment.variables(), **threads, **(variables or {}), "PYTHONPATH": str(ROOT)},
        cwd=ROOT, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def acting(script: str, folder: Path) -> Environment:
    """An environment whose interpreter is a script of ours that plays a framework's part."""
    interpreter = folder / "python"
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT / "tests" / script} "$@"\n')
    interpreter.chmod(0o755)
    return Environment("torch", "0", interpreter)


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[Path]:
    """A file system of its own, mounted with these options; the test is skipped where that is not allowed."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a file system: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
