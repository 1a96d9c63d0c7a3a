"""List the releases of a framework in the package index, and make an environment of any of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from packaging.version import InvalidVersion, Version

from framebench.engine import environments
from framebench.engine.environments import Environment, Say, SetupError
from framebench.engine.installed import NEEDS
from framebench.instruments.parent_death import die_with_parent
from framebench.records.pins import find_pinned_version, find_pinned_versions, read_pins

LISTED = re.compile(r"^Available versions: (.*)$", re.M)
PACKAGE = {"jax": "jax[cpu]"}  # only this extra brings jaxlib to older releases


def list_releases(framework: str) -> list[str]:
    """Return every release that pip's index has for this Python, oldest first.

    Raises UnknownName for a framework that is none, and SetupError if pip lists nothing.
    """
    find_pinned_version(framework)
    command = [sys.executable, "-m", "pip", "index", "versions", framework]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=die_with_parent)
    listing = LISTED.search(done.stdout)
    if listing is None:
        last_line = (done.stderr.strip() or done.stdout).splitlines()[-1:]
        raise SetupError(f"pip cannot list the releases of {framework}: {last_line}")
    return sorted(listing[1].split(", "), key=Version)


def list_newest_first(framework: str) -> list[str]:
    """Return the releases that the index lists, newest first. Raises UnknownName, SetupError.

    A build's label is left out: 2.13.0+cpu is no newer release than 2.13.0.
    """
    public = [Version(release).public for release in reversed(list_releases(framework))]
    return list(dict.fromkeys(public))  # each once, in their order


def select_between(framework: str, first: str, last: str, all_releases: list[str]) -> list[str]:
    """Return the releases from the first to the last, both among them.

    Raises SetupError for one that does not exist, with the nearest ones, and if the last is not
    newer than the first.
    """
    for version in (first, last):
        if version not in all_releases:
            raise SetupError(explain_missing_release(framework, version, all_releases))
    start, end = all_releases.index(first), all_releases.index(last)
    if start >= end:
        correction = f", {last} {first}" if start > end else ""
        raise SetupError(
            f"{first} is not older than {last}: the older release comes first{correction}"
        )
    return all_releases[start : end + 1]


def check_listed(framework: str, version: str) -> None:
    """Raise SetupError for a release that does not exist, with the nearest ones."""
    all_releases = list_releases(framework)
    if version not in {Version(release).public for release in all_releases}:
        raise SetupError(explain_missing_release(framework, version, all_releases))


def explain_missing_release(framework: str, version: str, all_releases: list[str]) -> str:
    """Return the message about a release that does not exist, with the nearest ones."""
    nearest = ", ".join(find_nearest(version, all_releases))
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    return f"pip finds no release {version!r} of {framework} for {python}; the nearest: {nearest}"


def find_nearest(version: str, all_releases: list[str]) -> list[str]:
    """Return the releases before and after a version; the newest two if the text is no version."""
    try:
        older = sum(Version(release) < Version(version) for release in all_releases)
    except InvalidVersion:
        older = len(all_releases)
    last = len(all_releases) - 1
    start = max(0, min(older, last) - 1)
    return all_releases[start : start + 2]


def describe_release(framework: str, version: str, package: str = "") -> Environment:
    """Return the environment of a release as it is or will be.

    A release with pinned requirements has the environment that every other command uses.
    """
    if version in find_pinned_versions(framework) and not package:
        return environments.describe(framework, version)
    name = environments.name_folder(framework, version, package)
    folder = f"{name}-py{sys.version_info.major}.{sys.version_info.minor}"
    where = environments.cache() / "releases" / folder
    return environments.describe_folder(where, framework, version, package)


def find_environment(framework: str, version: str | None) -> Environment:
    """Return the environment of a release that is built, or else the one that is pinned.

    Raises SetupError with the pinned releases, if this one is neither built nor pinned.
    """
    if version:
        environment = describe_release(framework, version)
        if environments.is_built(environment):
            return environment
    return environments.describe(framework, version)


def ensure_release(
    framework: str, version: str, package: str, more: Sequence[str], say: Say
) -> Environment:
    """Return an environment of a release with more packages, made now if it is not there, and kept.

    Where the release has pinned requirements, it is the environment of these. Raises SetupError.
    """
    is_pinned = version in find_pinned_versions(framework)
    if version == find_pinned_version(framework) or (is_pinned and not package):
        return environments.ensure(framework, version, say, package)
    environment = describe_release(framework, version, package)
    return environments.ensure_built(
        environment, lambda: build(environment, environment.folder, say, more), say
    )


@contextmanager
def make_environment(framework: str, version: str, keep: bool, say: Say) -> Iterator[Environment]:
    """Make a release's environment for this context if it is not there. Raises SetupError.

    The environment is removed afterwards unless it is to be kept, or was there.
    """
    environment = describe_release(framework, version)
    with environments.lock(environment, say):
        was_there = environments.is_built(environment)
        is_kept = keep or was_there or version in find_pinned_versions(framework)
        try:
            yield ensure_release(framework, version, package="", more=(), say=say)
        finally:
            if not is_kept or not environments.is_built(environment):
                shutil.rmtree(environment.folder, ignore_errors=True)


def build(
    environment: Environment, folder: Path, say: Say, more_packages: Sequence[str] = ()
) -> None:
    """Install a release with the packages that are pinned for it, or else for the current release.

    `more_packages` are installed too. If the release cannot be installed with the pinned
    versions, pip chooses others; every record has the versions. Raises SetupError.
    """
    framework, version = environment.framework, environment.version
    say(f"installing {framework} {version}")
    package = PACKAGE.get(framework, framework)
    packages = [f"{package}=={version}", *more_packages]
    constraint_lines = ""
    for name, pin in read_other_pins(framework, version).items():
        constraint_lines += f"{name}=={pin}\n"
        if name in NEEDS[framework] or name.startswith("onednn"):
            packages.append(name)
    constraints = folder.with_name(f"{folder.name}.constraints.txt")
    constraints.write_text(constraint_lines)
    constrained = [*packages, "--constraint", str(constraints)]
    environments.install(environment, folder, say, constrained, packages)


def read_other_pins(framework: str, version: str) -> dict[str, str]:
    """Return the versions pinned for a release, or else for the current one, by package.

    The framework's own packages are left out.
    """
    files = find_pinned_versions(framework)
    current = files[find_pinned_version(framework)]
    pins = read_pins(files.get(version, current))
    return {name: pin for name, pin in pins.items() if not name.startswith(framework)}
