"""Use an interpreter that already has a framework: `--env installed`, or `--env /path/to/python`.

Nothing is installed or changed there; its versions may be older or newer than the pins, and go into
every record. The packages of the control environment may lie in the same interpreter: workers
import only the framework and NumPy.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from framebench.engine import children, environments
from framebench.engine.environments import Environment, Say, SetupError
from framebench.strategies.strategy import FRAMEWORKS

INSTALLED = "installed"  # the value of --env for the interpreter that runs framebench
NEEDS = {
    "torch": ("torch", "numpy"),
    "jax": ("jax", "flax", "optax", "numpy"),
    "jittor": ("jittor", "numpy"),
}
LIMIT_S = 300.0  # for importing a framework from a slow disk
# Importing Jittor compiles its core for minutes, so it is only looked for; a build that fails is
# found by the first worker.
LOOK = """
import importlib, importlib.metadata, importlib.util, json, sys

def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return getattr(importlib.import_module(name), "__version__", "unknown")

versions, error = {}, ""
for name in sys.argv[1:]:
    try:
        if name == "jittor":
            if importlib.util.find_spec(name) is None:
                raise ModuleNotFoundError(f"No module named {name!r}")
        else:
            importlib.import_module(name)
        versions[name] = version(name)
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
        break
print(json.dumps({"versions": versions, "error": error}))
sys.stdout.flush()
"""


def find_interpreter(env: str) -> Path:
    """Return the interpreter that `--env` names. Raises SetupError."""
    if env == INSTALLED:
        return Path(sys.executable)
    program = shutil.which(os.path.expanduser(env))
    if program is None or Path(program).is_dir():
        raise SetupError(
            f"--env {env!r} is no interpreter; give {INSTALLED!r} for this one ({sys.executable}), "
            "or a path to a python"
        )
    return Path(program).absolute()  # a link into a virtual environment must stay one


def describe(framework: str, python: Path) -> Environment:
    """Return the framework as this interpreter has it.

    Raises SetupError, with what cannot be imported and why.
    """
    if framework not in FRAMEWORKS:
        raise SetupError(f"no framework {framework!r}; frameworks: {', '.join(FRAMEWORKS)}")
    package_names = NEEDS[framework]
    packages = look_for_packages(python, package_names)
    if packages is None:
        raise SetupError(
            f"{python} is no Python, or one that does not start: it does not say whether it has "
            f"{framework}; --env takes the path of a Python"
        )
    if packages["error"]:
        raise SetupError(
            f"{python} cannot import what {framework} needs ({', '.join(package_names)}): "
            f"{packages['error']}"
        )
    # an environment that framebench built has Jittor's compiled kernels there
    home = python.parent.parent / "home"
    has_home = framework == "jittor" and home.is_dir()
    version = packages["versions"][framework].split("+")[0]
    return Environment(framework, version, python, home if has_home else None, installed=True)


def look_for_packages(python: Path, package_names: Sequence[str]) -> dict[str, Any] | None:
    """Return which versions of packages an interpreter has, as a dict with two keys.

    `versions` has them by package, up to the first one that cannot be imported, and `error` says
    why it cannot, or is "". Returns None for a program that cannot be started, or prints something
    else. Raises SetupError if it prints nothing in time.
    """
    try:
        ended = children.run_program(
            [str(python), "-c", LOOK, *package_names], {**os.environ}, LIMIT_S
        )
        answer = json.loads(ended.stdout.splitlines()[-1])
    except TimeoutError:
        reason = f"gave no answer in {LIMIT_S:g} s"
        raise SetupError(f"{python}, asked for {', '.join(package_names)}, {reason}") from None
    except (OSError, ValueError, IndexError):
        return None
    return answer if isinstance(answer, dict) and answer.keys() == {"versions", "error"} else None


def find_environments(
    frameworks: Iterable[str], env: str | None, say: Say = lambda _: None
) -> dict[str, Environment]:
    """Return an environment for each framework: the pinned one, or with `env` an installed one.

    A pinned environment is built if it is missing. A framework that is not installed is left out,
    with a printed sentence. Raises SetupError if no framework is left.
    """
    requested = set(frameworks)
    requested_in_order = [framework for framework in FRAMEWORKS if framework in requested]
    if env is None:
        return {
            framework: environments.ensure(framework, say=say) for framework in requested_in_order
        }
    python = find_interpreter(env)
    available: dict[str, Environment] = {}
    missing = []
    for framework in requested_in_order:
        try:
            available[framework] = describe(framework, python)
        except SetupError as error:
            missing.append(str(error))
    if missing and not available:
        raise SetupError("; ".join(missing))
    for sentence in missing:
        say(f"left out: {sentence}")
    return available
