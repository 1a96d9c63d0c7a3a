"""Fixtures: the frameworks' environments (built once per machine) and a results folder of the
test's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from tests.callbacks import ignore

# what the command prints into a pipe is as wide as a table may be, unless a test says otherwise
os.environ.setdefault("COLUMNS", "200")

from framebench.cli.__main__ import COMMANDS, load_commands
from framebench.engine import children, environments, runner
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.selectors import parse
from tests.processes import CHEAP_XLA, make_fake_environment, run_program_served, run_served

# tests call the application itself, of which a user's process imports one command
for command in COMMANDS:
    load_commands([command])


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the process: an interrupt that counts, cheap compilation, and cores of its own.

    A shell ignores Ctrl-C in the background, and so would what the tests start. Processes that run
    tests at once keep to their own cores, since what is timed is pinned to the last one.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(CHEAP_XLA)
    worker = getattr(config, "workerinput", None)
    if worker and hasattr(os, "sched_setaffinity"):
        number = int(worker["workerid"].removeprefix("gw"))
        cores = sorted(os.sched_getaffinity(0))
        own = cores[number :: worker["workercount"]]
        os.sched_setaffinity(0, own or cores)


# the files of more than ten seconds, the longest first (as of December 2026)
LONGEST = [  # files below tests/
    "suite/test_torch_strategies.py",
    "suite/test_jax_strategies.py",
    "asv/test_asv.py",
    "user_model/test_steps.py",
    "suite/test_jittor_strategies.py",
    "suite/test_new_workload.py",
    "ranks/test_measure.py",
    "adapters/test_undone.py",
    "user_model/test_try.py",
    "budget/max_batch/test_max_batch.py",
    "user_model/test_protection.py",
    "user_model/test_opened.py",
    "suite/test_pairs.py",
    "instruments/test_crosschecks.py",
    "user_model/test_repository.py",
    "engine/test_faults.py",
    "engine/test_runner.py",
    "cli/test_cli.py",
    "explain/test_explain.py",
    "mutants/test_mutants.py",
    "analysis/test_figures.py",
    "published/test_documents.py",
    "engine/test_blocks.py",
    "growth/test_growth.py",
    "devices/simulation/test_torch_plan.py",
    "compare/test_compare.py",
    "engine/test_environments.py",
    "devices/xla/test_jax_plan.py",
    "published/test_notebooks.py",
    "user_model/test_on_device.py",
    "budget/predict/test_predict.py",
    "test_wheel.py",
    "instruments/test_memory.py",
    "user_model/test_first_look.py",
    "ranks/test_predicted.py",
    "devices/simulation/test_convolutions.py",
    "claims/test_listings.py",
    "user_model/test_held_memory.py",
    "user_model/test_errors.py",
]
TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, so that processes that share the files end together."""
    places = {}
    for place, name in enumerate(LONGEST):
        places[TESTS / name] = place
    items.sort(key=lambda item: places.get(item.path, len(LONGEST)))


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch) -> None:
    """Remove what a developer's shell sets, which must not decide a test."""
    for name in ("COMMAND", "ENV", "MACHINE", "PROFILE", "SESSION"):
        monkeypatch.delenv(f"FRAMEBENCH_{name}", raising=False)


@pytest.fixture(scope="session", autouse=True)
def framework_environments(request) -> Iterator[None]:
    """Skip each test that asks for a framework's environment, where the option says so."""

    def skip(*arguments: object, **settings: object) -> Environment:
        pytest.skip("--without-frameworks: it needs a framework's environment")

    with pytest.MonkeyPatch.context() as patch:
        if request.config.getoption("--without-frameworks"):
            patch.setattr(environments, "ensure", skip)
        yield


@pytest.fixture
def imported_once(monkeypatch) -> None:
    """Run programs in PyTorch's or JAX's environment with it imported (`tests/processes.py`)."""
    monkeypatch.setattr(subprocess, "run", run_served)
    monkeypatch.setattr(children, "run_program", run_program_served)


@pytest.fixture(scope="session")
def environment() -> dict[str, Environment]:
    return {framework: environments.ensure(framework) for framework in FRAMEWORKS}


def list_requested(request: pytest.FixtureRequest) -> set[str]:
    """Return the values of `name` by which the tests of this run and file are parametrized.

    A fixture that makes something for each of them makes no more than these.
    """
    names = set()
    for item in request.session.items:
        callspec = getattr(item, "callspec", None)
        if item.path == request.path and callspec and "name" in callspec.params:
            names.add(callspec.params["name"])
    return names


@pytest.fixture
def results(tmp_path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def fake_worker(tmp_path) -> Environment:
    """Return an environment whose worker plays a framework's part, and fails as it is told."""
    return make_fake_environment("engine/failing_worker.py", tmp_path)


Steady = Callable[..., list[dict[str, int]]]


@pytest.fixture(scope="session")
def steady(environment, tmp_path_factory) -> Steady:
    """Return a function that measures the peaks of a case's steady step, in bytes by instrument.
    It measures in as many fresh processes as are asked for, once for all tests, also where several
    processes run them.
    """
    own = tmp_path_factory.getbasetemp()
    # pytest-xdist, where it runs the tests, gives each of its processes a folder in one of all
    is_one_of_several = "PYTEST_XDIST_WORKER" in os.environ
    shared = (own.parent if is_one_of_several else own) / "steady"

    def measure(case_id: str, processes: int = 1) -> list[dict[str, int]]:
        case = parse(case_id)
        folder = shared / case_id.replace("/", ".")
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "peaks.json"
        with FileLock(f"{file}.lock"):
            measured = []
            if file.exists():
                measured = json.loads(file.read_text())
            while len(measured) < processes:
                variant = runner.Variant(case, environment[case.framework])
                process = runner.MemoryProcess(variant, Options(), folder)
                done = process.end(ignore)
                assert done.status == "ok", done.reason
                measured.append(dict(done.result.memory.peaks))
                file.write_text(json.dumps(measured))
        return measured[:processes]

    return measure


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without-frameworks",
        action="store_true",
        help="skip what runs in a framework's environment: for the Pythons that only the control "
        "environment supports",
    )
