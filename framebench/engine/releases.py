"""The releases of a framework that the package index lists, and an environment of any of them for as long as it is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock
from packaging.version import InvalidVersion, Version

from framebench.engine import environments
from framebench.engine.environments import Environment, Say, SetupError, shell
from framebench.engine.installed import NEEDS
from framebench.records.pins import pinned_version, pinned_versions, pins

LISTED = re.compile(r"^Available versions: (.*)$", re.M)
PACKAGE = {"jax": "jax[cpu]"}  # older ones have jaxlib by this extra alone


def listed(framework: str) -> list[str]:
    """Every release that pip's index has for this Python, oldest first. Raises UnknownName, SetupError."""
    pinned_version(framework)
    command = [sys.executable, "-m", "pip", "index", "versions", framework]
    done = subprocess.run(command, capture_output=True, text=True)
    if not (listing := LISTED.search(done.stdout)):
        raise SetupError(
            f"pip cannot list the releases of {framework}: {(done.stderr.strip() or done.stdout).splitlines()[-1:]}"
        )
    return sorted(listing[1].split(", "), key=Version)


def newest(framework: str) -> str:
    """The newest release that the index lists. A build's label is left out: 2.13.0+cpu is no newer release than 2.13.0.

    Raises UnknownName, SetupError.
    """
    return Version(listed(framework)[-1]).public


def between(framework: str, first: str, last: str, all_releases: list[str]) -> list[str]:
    """The known releases from the first to the last. Raises SetupError, with the nearest to one that does not exist."""
    for version in (first, last):
        if version not in all_releases:
            raise SetupError(f"no release {version!r} of {framework}; the nearest: {', '.join(nearest(version, all_releases))}")
    start, end = all_releases.index(first), all_releases.index(last)
    if start >= end:
        raise SetupError(
            f"{first} is not older than {last}: the older release comes first" + f", {last} {first}" * (start > end)
        )
    return all_releases[start : end + 1]


def nearest(version: str, all_releases: list[str]) -> list[str]:
    """The release before it and the one after it; the newest two for what is no version."""
    try:
        place = sum(Version(one) < Version(version) for one in all_releases)
    except InvalidVersion:
        place = len(all_releases)
    return all_releases[max(0, min(place, len(all_releases) - 1) - 1) :][:2]


def described(framework: str, version: str, package: str = "") -> Environment:
    """As it is or will be. Those with pinned requirements are the ones that every other command uses."""
    if version in pinned_versions(framework) and not package:
        return environments.describe(framework, version)
    name = "-".join(filter(None, (framework, version, package)))
    where = environments.cache() / "releases" / f"{name}-py{sys.version_info.major}.{sys.version_info.minor}"
    home = where / "home" if framework == "jittor" else None
    return Environment(framework, version, where / "bin" / "python", home, package=package)


def known(framework: str, version: str | None) -> Environment:
    """The pinned one, or one that a bisection has kept. Raises SetupError, with those pinned."""
    if version and environments.built(environment := described(framework, version)):
        return environment
    return environments.describe(framework, version)


def beside(framework: str, version: str, package: str, more: Sequence[str], say: Say) -> Environment:
    """A release with more packages in an environment of its own, made now if it is not there, and kept; where it has pinned
    requirements, the one of these. Raises SetupError."""
    if version == pinned_version(framework) or (version in pinned_versions(framework) and not package):
        return environments.ensure(framework, version, say, package)
    made = described(framework, version, package)
    where = made.python.parent.parent
    where.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{where}.lock"):
        if not environments.built(made):
            environments.check_tools(framework)
            build(made, where, say, more)
    return made


@contextmanager
def environment(framework: str, version: str, keep: bool, say: Say) -> Iterator[Environment]:
    """Made now if it is not there, and removed afterwards unless it is to be kept, or was there. Raises SetupError."""
    release_environment = described(framework, version)
    if version in pinned_versions(framework):
        yield environments.ensure(framework, version, say)
        return
    where = release_environment.python.parent.parent
    where.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{where}.lock"):
        there = environments.built(release_environment)
        try:
            if not there:
                environments.check_tools(framework)
                build(release_environment, where, say)
            yield release_environment
        finally:
            if not (keep and environments.built(release_environment)) and not there:
                shutil.rmtree(where, ignore_errors=True)


def build(made: Environment, where: Path, say: Say, also: Sequence[str] = ()) -> None:
    """Beside the framework the packages that are pinned for it, or else for the current release; if it does not go with these,
    what pip finds: their versions are in every record."""
    shutil.rmtree(where, ignore_errors=True)
    files = pinned_versions(made.framework)
    pinned = pins(files.get(made.version, files[pinned_version(made.framework)]))
    beside = {name: v for name, v in pinned.items() if not name.startswith(made.framework)}
    more = [name for name in beside if name in NEEDS[made.framework] or name.startswith("onednn")]
    wanted = [f"{PACKAGE.get(made.framework, made.framework)}=={made.version}", *more, *also]
    say(f"installing {made.framework} {made.version}")
    shell(where, [sys.executable, "-m", "venv", str(where)], say)
    constraints = where / "constraints.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in beside.items()))
    install = [str(made.python), "-m", "pip", "install", "--quiet", *wanted]
    try:
        shell(where, [*install, "--constraint", str(constraints)], say)
    except SetupError:
        shell(where, install, say)
    if made.framework == "jittor":
        environments.build_jittor(made, where, say)
    (where / ".complete").touch()
