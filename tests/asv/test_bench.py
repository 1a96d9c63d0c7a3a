"""`make bench` in a clone, with stand-ins for the frameworks' interpreters: what its exit status
says.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from framebench.engine import environments
from framebench.records.pins import read_pins
from framebench.strategies.strategy import FRAMEWORKS
from tests.asv.clone import Clone
from tests.processes import ROOT
from tests.repositories import run_git

pytestmark = pytest.mark.slow
FAILING_WORKER = ROOT / "tests/engine/failing_worker.py"
VENV = Path(sys.executable).parent.parent
# two cases of PyTorch, and two of their metrics
FEW_BENCHMARKS = r"TransformerTorchTrainTiny\.track_(peak_memory|step_time)\('(fp32|checkpoint)'"
CHECKPOINT = "transformer/torch/train/checkpoint/b4/tiny"


class Bench(Clone):
    """A clone whose `make bench` finds a built environment for each framework, in which nothing but
    a stand-in is.
    """

    def __init__(self, where: Path) -> None:
        super().__init__(where)
        self.variables |= {"PYTHONPATH": str(self.root), "FRAMEBENCH_MACHINE": "test"}
        # a make that `make test` runs would say which folder it enters and leaves, and take over
        # its settings
        for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"):
            self.variables.pop(name, None)

    def renew(self) -> None:
        """Take back what a test has done."""
        run_git(self.root, "checkout", "-q", ".")
        shutil.rmtree(self.root / "results", ignore_errors=True)
        shutil.rmtree(environments.cache(), ignore_errors=True)
        for framework in FRAMEWORKS:
            self.build(framework)

    def build(self, framework: str) -> None:
        version = environments.find_pinned_version(framework)
        folder = environments.find_location(framework, version)
        python = folder / "bin/python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.unlink(missing_ok=True)
        shutil.copy(FAILING_WORKER, python)
        python.chmod(0o755)
        (folder / ".complete").touch()
        strategies = [f"transformer/train/{name}" for name in ("fp32", "checkpoint")]
        (folder / environments.WARM).write_text("\n".join(strategies))
        # pip's list of each pinned package, without which the environment counts as damaged
        for name in read_pins(environments.find_requirement_file(framework, version)):
            package = f"{name.replace('-', '_')}-1.0.dist-info"
            listing = folder / "lib/python3/site-packages" / package / "RECORD"
            listing.parent.mkdir(parents=True, exist_ok=True)
            listing.touch()

    def command_line(self, *settings: str) -> list[str]:
        # -o: the control environment is the one that runs this test
        return [
            "make",
            "-o",
            f"{VENV}/.measures",
            "bench",
            f"VENV={VENV}",
            "MACHINE=test",
            "PROFILE=tiny",
            *settings,
        ]

    def bench(
        self, *settings: str, pattern: str = FEW_BENCHMARKS, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command_line(f"BENCH={pattern}", *settings),
            cwd=self.root,
            env=self.variables | variables,
            capture_output=True,
            text=True,
        )


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Iterator[Bench]:
    where = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("FRAMEBENCH_CACHE", str(where / "cache"))
        yield Bench(where)


@pytest.fixture
def clone(whole) -> Bench:
    whole.renew()
    return whole


def test_a_bench_succeeds_until_nothing_comes_out_right(clone):
    right = clone.bench("STRICT=1")
    assert right.returncode == 0, right.stdout + right.stderr
    assert "The answer" in right.stdout
    assert "has no numbers" not in right.stdout
    # the older answer does not make up for it
    failed = clone.bench(FAKE_FAILURE="exception")
    assert failed.returncode != 0
    assert "none of 2 cases passed verification" in failed.stdout + failed.stderr


def test_a_bench_with_a_failed_case_succeeds_and_shows_the_cause(clone):
    done = clone.bench(FAKE_FAILURE="checkpoint: kill in turn")
    assert done.returncode == 0, done.stdout + done.stderr
    heading, line = done.stdout.strip().splitlines()[-2:]
    assert heading == "The last run has no numbers for 1 of its 2 cases:"
    assert line.startswith(f"  {CHECKPOINT}  crashed: ")


def test_a_strict_bench_with_a_failed_case_fails(clone):
    done = clone.bench("STRICT=1", FAKE_FAILURE="checkpoint: wrong in the end")
    assert done.returncode != 0
    assert "asv run ended with status 2" in done.stdout
    assert f"  {CHECKPOINT}  wrong: " in done.stdout


def test_a_bench_with_a_failed_setup_resumes_once_repaired(clone, tmp_path):
    jittor = environments.find_location("jittor", environments.find_pinned_version("jittor"))
    (jittor / ".complete").unlink()
    tools = tmp_path / "tools"  # all but a compiler
    tools.mkdir()
    (tools / "python3").symlink_to(sys.executable)
    for name in ("make", "git", "uname", "env", "sh"):
        (tools / name).symlink_to(str(shutil.which(name)))
    both = FEW_BENCHMARKS.replace("TransformerTorch", "Transformer(Torch|Jittor)")

    failed = clone.bench(pattern=both, PATH=str(tools))
    clone.build("jittor")
    repaired = clone.bench(pattern=both)

    message = " ".join((failed.stdout + failed.stderr).split())
    assert failed.returncode != 0
    assert "jittor could not be set up: the jittor environment needs g++" in message
    assert "`framebench setup jittor`" in message
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    records = clone.records()
    assert len({record.case for record in records if record.status == "ok"}) == 4
    assert len({record.provenance.session for record in records}) == 1, (
        "PyTorch's records are those of the first try"
    )
    assert len([record for record in records if record.case == CHECKPOINT]) == 1


def test_an_interrupted_bench_fails(clone):
    process = subprocess.Popen(
        clone.command_line(f"BENCH={FEW_BENCHMARKS}"),
        cwd=clone.root,
        env=clone.variables | {"LINGER": "5"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not list(clone.root.glob("results/.session-*")):
        assert process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(600) != 0


def test_a_bench_that_cannot_run_fails(clone):
    """A usage error of asv has the same status as a failed benchmark has."""
    for wrong in ("MACHINE=../x", "PROFILE=enormous"):
        done = clone.bench(wrong)
        assert done.returncode != 0, wrong


def test_a_benchmark_that_leaves_no_record_fails_the_bench(clone):
    common = clone.root / "benchmarks/common.py"
    start = "        self.record = find_or_measure("
    assert start in common.read_text()
    planted = "        raise OSError(28, 'No space left on device')\n"
    common.write_text(common.read_text().replace(start, planted + start))
    done = clone.bench()
    assert done.returncode != 0
    message = " ".join((done.stdout + done.stderr).split())
    assert "2 of 2 cases could not be measured" in message
    assert "OSError: [Errno 28] No space left on device" in message
