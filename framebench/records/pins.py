"""Which versions of the frameworks requirements/ pins: one by default, others to compare it with."""

from __future__ import annotations

from pathlib import Path

from framebench.models.spec import UnknownName
from framebench.records.provenance import PACKAGE
from framebench.suite.strategy import FRAMEWORKS

REQUIREMENTS = PACKAGE / "requirements"


def pins(file: Path) -> dict[str, str]:
    """Package versions by lower-case name of a pinned requirements file."""
    lines = (line.split("#")[0].strip() for line in file.read_text().splitlines())
    return {name.lower(): version for name, _, version in (line.partition("==") for line in lines if line)}


def pinned_version(framework: str) -> str:
    """The version that requirements/<framework>.txt pins. Raises UnknownName, with the frameworks."""
    if framework not in FRAMEWORKS:
        raise UnknownName(f"no framework {framework!r}; frameworks: {', '.join(FRAMEWORKS)}")
    return pins(REQUIREMENTS / f"{framework}.txt")[framework]


def pinned_versions(framework: str) -> dict[str, Path]:
    """The requirements file of each version, the default one last. Raises UnknownName, with the frameworks."""
    default = pinned_version(framework)
    others = {pins(f)[framework]: f for f in sorted((REQUIREMENTS / "versions").glob(f"{framework}-*.txt"))}
    return others | {default: REQUIREMENTS / f"{framework}.txt"}
