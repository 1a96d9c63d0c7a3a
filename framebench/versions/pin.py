"""Pin a release of a framework: the packages that pip resolves for it, and asv's matrix."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

from packaging.version import Version

from framebench.engine import releases
from framebench.engine.environments import SetupError
from framebench.engine.installed import NEEDS
from framebench.instruments.parent_death import die_with_parent
from framebench.records import store
from framebench.records.pins import (
    REQUIREMENTS,
    find_pinned_version,
    find_pinned_versions,
    read_pins,
)
from framebench.records.provenance import ROOT
from framebench.strategies.strategy import FRAMEWORKS

MATRIX = ROOT / "asv.versions.json"
RELEASES = "releases.csv"  # in REQUIREMENTS
# Packages of a framework's environment that workers use, if its pinned file has them.
ALSO_NEEDED = ("nvidia-ml-py", "psutil", "wheel")
# nothing is installed; constraints come from standard input
RESOLVE = (
    *("--dry-run", "--ignore-installed", "--quiet", "--report", "-"),
    *("--constraint", "/dev/stdin"),
)
INCLUDE = re.compile(r'("include": \[\n)(.*?)(\n    \])', re.S)


def resolve(framework: str, version: str) -> dict[str, str]:
    """Return the version of every package that a release needs, without installing any.

    The other packages keep the versions that are pinned for the current release. If the release
    cannot be installed with these, only NumPy keeps its version: with a newer one Jittor's arrays
    are silently wrong. Raises SetupError.
    """
    pins_file = find_pinned_versions(framework)[find_pinned_version(framework)]
    other_pins = {}  # versions of the packages that are not the framework's
    for name, pinned_version in read_pins(pins_file).items():
        if not name.startswith(framework):
            other_pins[name] = pinned_version
    requested = [f"{releases.PACKAGE.get(framework, framework)}=={version}"]
    # packages that a user's own installation would have
    for name in other_pins:
        if name in NEEDS[framework] or name in ALSO_NEEDED or name.startswith("onednn"):
            requested.append(name)
    try:  # the fewer packages differ, the more a difference is the framework's
        return ask_pip(requested, other_pins)
    except SetupError:
        return ask_pip(requested, {"numpy": other_pins["numpy"]})


def ask_pip(requested: list[str], constraints: dict[str, str]) -> dict[str, str]:
    """Return the version of each package that pip would install into an empty environment.

    Raises SetupError.
    """
    command = [sys.executable, "-m", "pip", "install", *RESOLVE, *requested]
    lines = ""  # pip reads the constraints from its standard input
    for name, version in constraints.items():
        lines += f"{name}=={version}\n"
    process = subprocess.run(
        command, input=lines, capture_output=True, text=True, preexec_fn=die_with_parent
    )
    if process.returncode:
        errors = re.findall(r"^ERROR: (.*)$", process.stderr, re.M)
        reason = errors[-1] if errors else "no reason given"
        raise SetupError(f"pip cannot resolve {' '.join(requested)}: {reason}")
    versions = {}
    for package in json.loads(process.stdout)["install"]:
        metadata = package["metadata"]
        versions[metadata["name"]] = metadata["version"]
    return versions


def write_pins(framework: str, version: str, packages: dict[str, str]) -> Path:
    """Write the pinned file of a release and return it."""
    file = REQUIREMENTS / "versions" / f"{framework}-{version}.txt"
    lines = [f"{name}=={packages[name]}" for name in sorted(packages, key=str.lower)]
    file.write_text("\n".join(lines) + "\n")
    return file


def has_day(framework: str, version: str) -> bool:
    """Return whether the table of releases has the day on which a release appeared."""
    with (REQUIREMENTS / RELEASES).open(encoding="utf-8", newline="") as file:
        days = csv.DictReader(file)
        return any((row["framework"], row["version"]) == (framework, version) for row in days)


def write_matrix() -> None:
    """Write the environments of asv.versions.json: one for every pinned release."""
    rows = []
    for framework in FRAMEWORKS:
        for version in sorted(find_pinned_versions(framework), key=Version):
            rows.append(f'        {{"python": "same", "req": {{"{framework}": "{version}"}}}}')
    rows_text = ",\n".join(rows)
    text = MATRIX.read_text()
    matrix = INCLUDE.sub(lambda match: match[1] + rows_text + match[3], text, count=1)
    store.replace_text(matrix, MATRIX)
