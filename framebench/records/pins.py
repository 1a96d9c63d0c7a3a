"""Read the versions of the frameworks that requirements/ pins: a default, and others to compare."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from framebench.models.spec import UnknownName
from framebench.records.provenance import PACKAGE
from framebench.strategies.strategy import FRAMEWORKS

REQUIREMENTS = PACKAGE / "requirements"
# What `tools/hash_pins.py` adds to a pinned file: hashes as pip takes them, each of one archive in
# a line of its own, or in the first line why it has no hashes.
HASHES = re.compile(r" \\\n    --hash=\S+|\A# No hashes: .*\n")


def remove_hashes(text: str) -> str:
    """Return the text of a requirements file as it was before hashes were added."""
    return HASHES.sub("", text)


def read_pins(file: Path) -> dict[str, str]:
    """Return the package versions in a pinned requirements file, by name in lower case."""
    versions = {}
    for line in remove_hashes(file.read_text()).splitlines():
        requirement = line.split("#")[0].strip()
        if requirement:
            name, _, version = requirement.partition("==")
            versions[name.lower()] = version
    return versions


def find_pinned_version(framework: str) -> str:
    """Return the version that requirements/<framework>.txt pins.

    Raises UnknownName, with the frameworks.
    """
    if framework not in FRAMEWORKS:
        raise UnknownName(f"no framework {framework!r}; frameworks: {', '.join(FRAMEWORKS)}")
    return read_framework_pin(REQUIREMENTS / f"{framework}.txt")


@cache  # a table asks for it in each row, and with its hashes the file is long
def read_framework_pin(file: Path) -> str:
    """Return the version of the framework that a pinned file is named after."""
    return read_pins(file)[file.stem]


def find_pinned_versions(framework: str) -> dict[str, Path]:
    """Return the requirements file of each version, the default one last.

    Raises UnknownName, with the frameworks.
    """
    default = find_pinned_version(framework)
    files = {
        read_pins(file)[framework]: file
        for file in sorted((REQUIREMENTS / "versions").glob(f"{framework}-*.txt"))
    }
    files[default] = REQUIREMENTS / f"{framework}.txt"
    return files
