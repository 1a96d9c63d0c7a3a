"""One environment per framework version, shared by every clone on the machine.

They live under `$FRAMEBENCH_CACHE` (default `${XDG_CACHE_HOME:-~/.cache}/framebench`), named by a
hash of the pinned requirements and of the Python version: a changed pin is a new environment, and
an old one is never changed.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache as cache_result
from pathlib import Path
from types import MappingProxyType
from typing import Any

from packaging.utils import canonicalize_name

from framebench.engine import children
from framebench.engine.locks import hold_lock
from framebench.engine.shortages import check_disks, list_full_disks
from framebench.instruments import nvml
from framebench.models.spec import USER_MODEL
from framebench.records.lines import BadRecord, append_lines, read_bytes
from framebench.records.pins import (
    REQUIREMENTS,
    find_pinned_version,
    find_pinned_versions,
    read_pins,
    remove_hashes,
)
from framebench.records.provenance import PACKAGE
from framebench.suite.case import Case
from framebench.suite.counting import format_count

# below HOME, where Jittor looks before it downloads
ONEDNN = Path(".cache/jittor/mkl/dnnl_lnx_2.2.0_cpu_gomp")
WARM = ".warm"  # the file that names the strategies whose kernels are compiled, one a line
USUAL_NVCC = Path("/usr/local/cuda/bin/nvcc")
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
FIRST_LINE_S = 15.0  # of a set-up command, until a line says that it goes on; the next: twice that
MODULE_LIMIT_S = 3600.0  # of a module whose caller names no other limit
Say = Callable[[str], None]


class SetupError(Exception):
    """An environment cannot be built; the message says what is missing and how to get it."""


class ModuleTimeout(SetupError):
    """A module that ran in an environment was killed, since it did not end in time."""


def cache() -> Path:
    """Return the folder that has the environments, and what they compile.

    Raises SetupError if no variable names it, and the user has no home.
    """
    framebench_cache = os.environ.get("FRAMEBENCH_CACHE")
    if framebench_cache:
        return Path(framebench_cache).resolve()
    user_cache = os.environ.get("XDG_CACHE_HOME")
    try:
        base = Path(user_cache) if user_cache else Path.home() / ".cache"
    except RuntimeError:  # such as for a container's user who is not in /etc/passwd
        raise SetupError(
            "this user has no home for the environments of the frameworks: set HOME, or let "
            "FRAMEBENCH_CACHE name a folder for them"
        ) from None
    return (base / "framebench").resolve()


@dataclass(frozen=True)
class Environment:
    """A framework at one version, and the interpreter that has it."""

    framework: str
    version: str
    python: Path
    home: Path | None = None  # Jittor keeps its compiled kernels below HOME
    installed: bool = False  # found, not built: see installed.py
    package: str = ""  # installed in addition to the framework

    @property
    def name(self) -> str:
        """Return the name of its folder, such as `torch-2.13.0`."""
        return f"{self.framework}-{self.version}"

    @property
    def folder(self) -> Path:
        """Return the folder of the virtual environment."""
        return self.python.parent.parent

    @property
    def uses_gpu(self) -> bool:
        """Return whether it runs on a GPU here.

        The pinned builds of PyTorch and JAX are for the CPU.
        """
        return bool(nvml.list_gpus()) and (self.installed or self.framework == "jittor")

    def list_variables(self) -> dict[str, str]:
        """Return the variables that must be set before the framework is imported."""
        variables = self.list_framework_variables()
        if not self.installed:
            # ours are installed without byte code: where none may be written, every process
            # compiles thousands of sources
            variables["PYTHONDONTWRITEBYTECODE"] = ""
        return variables

    def list_framework_variables(self) -> dict[str, str]:
        """Return the variables that the framework itself reads."""
        if self.framework == "jax":
            return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        if self.framework == "jittor":
            # with rewrite_op each process writes the sources of its kernels, compiled long ago or
            # not, and another process that reads one just then finds it empty and ends
            variables = {
                "nvcc_path": find_nvcc(),
                "log_silent": "1",
                "FIX_TORCH_ERROR": "0",
                "rewrite_op": "0",
            }
            if self.home:
                variables["HOME"] = str(self.home)
            return variables
        return {}

    def list_scratch_variables(self, folder: Path) -> dict[str, str]:
        """Return the variables that point at a folder for what one case compiles.

        The process for the memory finds there what the process for the time has compiled, so both
        run the same executable by the same plan.
        """
        if self.framework == "torch":
            return {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
        if self.framework == "jax":
            return {
                "JAX_COMPILATION_CACHE_DIR": str(folder / "xla"),
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            }
        return {}


def find_nvcc() -> str:
    """Return the CUDA compiler that Jittor is to build with, or "" without a GPU or a compiler.

    The variable `nvcc_path` decides if it is set. Otherwise a compiler next to the toolkit's
    libraries comes first, since Jittor looks for them there; some images have a script `nvcc`
    elsewhere on the path. An empty path keeps Jittor on the CPU.
    """
    if not nvml.list_gpus():
        return ""
    requested = os.environ.get("nvcc_path")  # noqa: SIM112 - so Jittor spells it
    if requested is not None:
        return requested
    compilers = [Path(path) for path in (shutil.which("nvcc") or USUAL_NVCC, USUAL_NVCC)]
    for path in compilers:
        if any(path.parent.parent.glob("lib*/libcudart.so")):
            return str(path)
    return next((str(path) for path in compilers if path.exists()), "")


def find_requirement_file(framework: str, version: str, package: str = "") -> Path:
    """Return the requirements file of a version, or of a package in addition to the framework.

    Raises SetupError, with the versions that have one.
    """
    files = find_pinned_versions(framework)
    if package:  # its file also pins the framework, at the default version
        files = {find_pinned_version(framework): REQUIREMENTS / f"{package}.txt"}
    if version not in files:
        raise SetupError(
            f"no pinned requirements for {framework} {version}; there are: {', '.join(files)}"
        )
    return files[version]


def find_location(framework: str, version: str, package: str = "") -> Path:
    """Return the folder of this environment, built or not.

    The folder is named only by the pins: what is installed does not change with the archives'
    hashes.
    """
    pins = remove_hashes(find_requirement_file(framework, version, package).read_text())
    key = (pins + sys.version + platform.machine()).encode()
    digest = hashlib.sha256(key).hexdigest()[:10]
    return cache() / "envs" / f"{name_folder(framework, version, package)}-{digest}"


def name_folder(framework: str, version: str, package: str) -> str:
    """Return the beginning of the name of an environment's folder."""
    return "-".join(filter(None, [framework, version, package]))


def describe(framework: str, version: str | None = None, package: str = "") -> Environment:
    """Return the environment as it is or will be, without building it."""
    version = version or find_pinned_version(framework)
    return describe_folder(find_location(framework, version, package), framework, version, package)


def describe_folder(folder: Path, framework: str, version: str, package: str) -> Environment:
    """Return the environment that a folder has or will have."""
    home = folder / "home" if framework == "jittor" else None
    return Environment(framework, version, folder / "bin" / "python", home, package=package)


def find_for_case(
    case: Case, usual: Environment | None = None, say: Say = lambda _: None
) -> Environment:
    """Return the environment that has what the case needs.

    The environment is the `usual` one of its framework. A case that needs a further package has an
    environment of its own instead, built now if it is not there yet, unless the user named an
    interpreter. Raises SetupError.
    """
    was_named = usual is not None and usual.installed
    if case.support.package and not was_named:
        return ensure(case.framework, say=say, package=case.support.package)
    return usual or describe(case.framework)


def is_built(environment: Environment) -> bool:
    """Return whether an environment is completely built."""
    return (environment.folder / ".complete").exists()


def ensure(
    framework: str, version: str | None = None, say: Say = lambda _: None, package: str = ""
) -> Environment:
    """Return the environment, built now if it is not there yet; other processes wait.

    Raises SetupError.
    """
    environment = describe(framework, version, package)
    return ensure_built(environment, lambda: build(environment, environment.folder, say), say)


def ensure_built(environment: Environment, build_now: Callable[[], None], say: Say) -> Environment:
    """Return the environment, built by the function if it is not there yet. Raises SetupError."""
    if is_built(environment):
        return environment
    check_tools(environment.framework)
    with lock(environment, say):
        if not is_built(environment):
            build_now()
    return environment


def lock(environment: Environment, say: Say) -> AbstractContextManager[None]:
    """Return the lock to hold while an environment is built, filled with kernels, or removed."""
    folder = environment.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = f"builds {environment.framework} {environment.version}"
    if environment.framework == "jittor":
        work += " or compiles its kernels"
    return hold_lock(folder.with_name(f"{folder.name}.lock"), say, work)


def check_tools(framework: str) -> None:
    """Check for compilers and headers before minutes are spent.

    Raises SetupError, which names what is missing.
    """
    missing = []
    if framework == "jittor":
        if shutil.which("g++") is None:
            missing.append("g++, which Jittor calls for each kernel (Debian: apt-get install g++)")
        if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
            missing.append(
                "Python.h, which Jittor's core includes (Debian: apt-get install python3-dev)"
            )
    if importlib.util.find_spec("ensurepip") is None:
        missing.append("the venv module's pip (Debian: apt-get install python3-venv)")
    if missing:
        raise SetupError(f"the {framework} environment needs " + "; and ".join(missing))


def build(environment: Environment, folder: Path, say: Say) -> None:
    """Install the pinned packages of an environment. Raises SetupError."""
    requirements = find_requirement_file(
        environment.framework, environment.version, environment.package
    )
    package = f" and {environment.package}" if environment.package else ""
    say(f"installing {environment.framework} {environment.version}{package} (once per machine)")
    install(environment, folder, say, ["-r", str(requirements)])


def install(environment: Environment, folder: Path, say: Say, *argument_lists: list[str]) -> None:
    """Build an environment from nothing, with the first of pip's argument lists that succeeds.

    An interrupted build leaves nothing that could be mistaken for a whole one. Raises SetupError.
    """
    remove_unfinished(folder)
    run_setup(folder, [sys.executable, "-m", "venv", str(folder)], say)
    pip = [str(environment.python), "-m", "pip", "install", "--quiet", "--no-compile"]
    for number, arguments in enumerate(argument_lists, 1):
        try:
            run_setup(folder, [*pip, *arguments], say)
        except SetupError:
            if number == len(argument_lists):
                raise
        else:
            break
    if environment.framework == "jittor":
        build_jittor(environment, folder, say)
    (folder / ".complete").touch()


def warm(environment: Environment, cases: Iterable[Case], say: Say = lambda _: None) -> None:
    """Compile the kernels of these cases ahead, each once; does nothing but for Jittor.

    Jittor compiles a kernel when a case first uses it. An interruption only costs time. Another
    process that compiles kernels of this environment is waited for. Raises SetupError.
    """
    cases = list(cases)
    if not list_uncompiled(environment, cases):
        return
    with lock(environment, say):
        missing = list_uncompiled(environment, cases)  # without what another process has compiled
        if missing:
            compile_kernels(environment, missing, say)


def compile_kernels(environment: Environment, strategies: list[str], say: Say) -> None:
    """Compile the kernels of these strategies, each a text such as `transformer/train/fp32`.

    Raises SetupError.
    """
    say(
        f"compiling Jittor's kernels of {format_count(len(strategies), 'strategy', 'strategies')}, "
        "a minute or two each (once per machine)"
    )
    run_setup(
        environment.folder,
        [str(environment.python), "-P", "-m", "framebench.worker.warmup", "jittor", *strategies],
        say,
        environment.list_variables() | {"PYTHONPATH": import_path(), "nvcc_path": ""},
    )
    append_lines(strategies, environment.folder / WARM)


def list_uncompiled(environment: Environment, cases: Iterable[Case]) -> list[str]:
    """Return the strategies, as workload/scenario/strategy, whose kernels may not be compiled yet.

    Only Jittor compiles kernels ahead, in an environment that is built here and without a GPU.
    """
    if environment.framework != "jittor" or environment.installed:
        return []
    names = []
    for case in cases:
        runs_here = case.support.supported and not case.support.gpu
        if case.framework == "jittor" and case.workload != USER_MODEL and runs_here:
            names.append(f"{case.workload}/{case.scenario}/{case.strategy}")
    warmed = read_warm(environment)
    return [name for name in dict.fromkeys(names) if name not in warmed]


def read_warm(environment: Environment) -> list[str]:
    """Return the strategies whose kernels are compiled, as far as their list can be read."""
    try:
        return read_bytes(environment.folder / WARM).decode(errors="replace").split()
    except BadRecord:  # none were compiled yet
        return []


def build_jittor(environment: Environment, folder: Path, say: Say) -> None:
    """Link oneDNN to where Jittor looks for it, then let the first import compile Jittor's core."""
    assert environment.home
    onednn = environment.home / ONEDNN
    onednn.mkdir(parents=True)
    for part in ("lib", "include"):
        (onednn / part).symlink_to(folder / part)
    say("compiling Jittor's core, about four minutes")
    check = "import jittor as jt; assert jt.array([1, 2]).numpy().tolist() == [1, 2]"
    # an empty `nvcc_path` compiles only for the CPU: a worker compiles for CUDA later, so that the
    # reason of a failure lands in the record of its case
    run_setup(
        folder,
        [str(environment.python), "-c", check],
        say,
        environment.list_variables() | {"nvcc_path": ""},
    )


def run_setup(
    folder: Path, command: list[str], say: Say, variables: dict[str, str] | None = None
) -> None:
    """Run one set-up command with its output in a log, and say ever more rarely that it goes on.

    The command is killed when this process ends, however that ends: it would otherwise go on to
    write into a folder whose lock is free. Raises SetupError.
    """
    log = folder.with_name(f"{folder.name}.log")
    start = time.monotonic()
    next_line_s = FIRST_LINE_S
    with log.open("ab") as out:
        process = children.CHILDREN.start(
            command,
            {**os.environ, **(variables or {})},
            purpose=name_builds(folder),
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
        )
        try:
            while process.poll() is None:
                time.sleep(0.2)
                elapsed = time.monotonic() - start
                if elapsed >= next_line_s:
                    say(f"still at it after {elapsed:.0f} s; its output: {log}")
                    next_line_s *= 2
        finally:
            children.CHILDREN.end(process)
    if process.returncode:
        # packages are downloaded to the folder for temporary files; the log, which may lie on a
        # full disk too, may lack the reason
        exit_code = f"exit code {process.returncode}"
        reasons = "; ".join([exit_code, *list_full_disks([folder.parent])])
        tail = "\n".join(read_end(log).splitlines()[-15:])
        raise SetupError(f"{command[0]} ended with {reasons}; the end of {log}:\n{tail}")


def name_builds(folder: Path) -> str:
    """Return the beginning of the marks of all set-up commands for this folder."""
    return f"build {folder} "


def remove_unfinished(folder: Path) -> None:
    """Remove what an interrupted build has left of an environment, whose lock is held.

    A set-up that was killed may have left a compiler, which would write into the new environment.
    """
    children.kill_marked(name_builds(folder))
    shutil.rmtree(folder, ignore_errors=True)


def read_end(log: Path) -> str:
    """Return the end of a log, which may be long."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - children.LOG_BYTES))
        return file.read().decode(errors="replace")


def find_damage(environment: Environment) -> str | None:
    """Return which file of an environment is not as pip installed it, and how to repair it.

    Returns None if all files have the sizes in pip's own lists, and for a user's interpreter.
    """
    folder = environment.folder
    if environment.installed or not folder.is_relative_to(cache()):
        return None
    record_files = sorted(folder.glob("lib/python*/site-packages/*.dist-info/RECORD"))
    missing_package = find_missing_package(environment, record_files)
    if missing_package is not None:
        fault: str | None = f"the package {missing_package} is gone"
    else:
        fault = next(filter(None, map(describe_changed_file, record_files)), None)
    if fault is None:
        return None
    repair = f"rm -r {shlex.quote(str(folder))} && framebench setup {environment.framework}"
    return (
        f"the environment {environment.name} is damaged: {fault}. Nothing is recorded of what "
        f"failed in it; build it anew: {repair}"
    )


def find_missing_package(environment: Environment, record_files: list[Path]) -> str | None:
    """Return the name of a pinned package that has no RECORD, pip's list of its files, or None.

    `record_files` are those of all packages, each in a folder `<package>-<version>.dist-info`.
    """
    try:
        file = find_requirement_file(
            environment.framework, environment.version, environment.package
        )
    except SetupError:  # a release without pins
        return None
    present = {canonicalize_name(path.parent.name.partition("-")[0]) for path in record_files}
    for name in read_pins(file):
        if canonicalize_name(name) not in present:
            return name
    return None


def describe_changed_file(record_file: Path) -> str | None:
    """Say which file of a package is missing or has another size than in pip's RECORD, or None.

    RECORD has a line `path,hash,size` for each file; byte code and RECORD itself have no size.
    """
    try:
        for name, _, size in csv.reader(record_file.read_text().splitlines()):
            file = record_file.parent.parent / name
            if size and file.stat().st_size != int(size):
                return f"{file} has {file.stat().st_size:,} bytes instead of {int(size):,}"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    except (ValueError, csv.Error) as error:
        return f"{record_file} is no list of pip's: {error}"
    return None


@cache_result
def find_import_folder() -> Path:
    """Return a folder from which only `framebench` can be imported.

    What lies next to it in a checkout, or is installed next to it, must not reach a framework's
    environment, nor a user's file.
    """
    folder = cache() / "import" / hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:10]
    link = folder / "framebench"
    if not (link.is_symlink() and link.resolve() == PACKAGE):
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f".{uuid.uuid4().hex}"  # threads of one process may come here together
        new.symlink_to(PACKAGE)
        new.replace(link)  # at once: others may start workers just now
    return folder


def import_path(more: str | None = None) -> str:
    """Return the PYTHONPATH of a worker: our folder, and then `more`, those of the user.

    Raises OSError.
    """
    return os.pathsep.join(filter(None, [str(find_import_folder()), more]))


def run_module(
    environment: Environment,
    module: str,
    *arguments: str,
    variables: Mapping[str, str] = NO_VARIABLES,
    limit_s: float = MODULE_LIMIT_S,
    on_errors: Callable[[str], None] | None = None,
) -> str:
    """Return what one of our modules prints in a framework's environment, with these variables.

    The module may import a user's file: its process is killed after so many seconds, with all that
    it has started. `on_errors` is called every second with the end of its errors. Raises SetupError
    with that end, ModuleTimeout, and OSError if it failed because a disk is full.
    """
    process_variables = {
        **os.environ,
        **environment.list_variables(),
        **variables,
        "PYTHONPATH": import_path(variables.get("PYTHONPATH")),
    }
    command = [str(environment.python), "-P", "-m", module, *arguments]
    try:
        ended = children.run_program(command, process_variables, limit_s, on_errors)
    except TimeoutError:
        raise ModuleTimeout(
            f"{module} in {environment.name} did not finish within {limit_s:g} s and was killed"
        ) from None
    if ended.code:
        check_disks(ended.stderr, [environment.folder])
        damage = find_damage(environment)
        if damage:
            raise SetupError(damage)
        raise SetupError(f"{module} failed in {environment.name}:\n{ended.stderr[-2000:]}")
    return ended.stdout.strip()


def ask_module(
    environment: Environment,
    module: str,
    *arguments: str,
    variables: Mapping[str, str] = NO_VARIABLES,
    limit_s: float = MODULE_LIMIT_S,
    on_errors: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Return the answer of one of our modules: the JSON object in the last line that it prints.

    A user's file may print too, or end the process before. Raises SetupError, as `run_module` does,
    and if there is no answer.
    """
    printed = run_module(
        environment,
        module,
        *arguments,
        variables=variables,
        limit_s=limit_s,
        on_errors=on_errors,
    )
    try:
        answer = json.loads(printed.splitlines()[-1])
    except (IndexError, ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        last_words = f"; it printed {printed[-200:]!r}" if printed else ""
        raise SetupError(f"{module} ended in {environment.name} without an answer{last_words}")
    return answer
