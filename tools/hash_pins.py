"""Write the hashes of all archives of each pinned package into the requirements files.

    python -m tools.hash_pins                           # every file
    python -m tools.hash_pins requirements/control.txt  # or some, such as after a change of a pin

pip then refuses an archive that is not one of those that the package index listed on that day. They
are of all platforms and Pythons. uv asks the index: it is taken from the path, and
`pip install uv` brings it.

Files with a package of UNHASHED get no hashes, since pip asks for those of every package of a file
or of none.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.utils import NormalizedName, canonicalize_name

from framebench.records.pins import REQUIREMENTS, read_pins, remove_hashes

# By package the reason why a file that has it gets no hashes: its archives differ between indexes
# that are all honest, or it needs others that the file does not pin.
UNHASHED = {
    "torch": "PyTorch's index has a build of each version per device, and PyPI's needs packages of "
    "NVIDIA's that are not pinned here",
    "nvidia-cuda-nvcc": "it needs libraries of NVIDIA's that are not pinned here",
}
REQUIREMENT = re.compile(r"^([\w.-]+)==(\S+)", re.M)
UV = ("pip", "compile", "--quiet", "--generate-hashes", "--no-deps", "--no-header", "--no-annotate")


class NoHashes(Exception):
    """The index gave no hashes; the message says of what."""


def ask_index(pins: list[str]) -> dict[NormalizedName, list[str]]:
    """Return the hashes of all archives of each pin `name==version`, by normalized name.

    Raises NoHashes.
    """
    uv = shutil.which("uv")
    if uv is None:
        raise NoHashes("there is no uv on the path; `pip install uv` brings it")
    done = subprocess.run([uv, *UV, "-"], input="\n".join(pins), capture_output=True, text=True)
    if done.returncode:
        raise NoHashes(f"uv: {done.stderr.strip()}")
    hashes: dict[NormalizedName, list[str]] = {}
    name = canonicalize_name("")
    for line in done.stdout.splitlines():
        word = line.strip().removesuffix("\\").strip()
        if word.startswith("--hash="):
            hashes[name].append(word)
        elif word:
            name = canonicalize_name(word.partition("==")[0])
            hashes[name] = []
    return hashes


def add_hashes(plain: str, hashes: dict[NormalizedName, list[str]]) -> str:
    """Return the text of a requirements file without hashes with these ones behind each pin.

    Raises NoHashes, with the pins that have none.
    """
    missing = []
    for match in REQUIREMENT.finditer(plain):
        if not hashes.get(canonicalize_name(match[1])):
            missing.append(match[0])
    if missing:
        raise NoHashes(f"no hashes of {', '.join(missing)}")

    def append_hashes(match: re.Match[str]) -> str:
        return " \\\n    ".join([match[0], *sorted(hashes[canonicalize_name(match[1])])])

    return REQUIREMENT.sub(append_hashes, plain)


def hash_file(file: Path) -> str:
    """Write the hashes into a requirements file, and return what was done. Raises NoHashes."""
    plain = remove_hashes(file.read_text())
    unhashed = UNHASHED.keys() & read_pins(file).keys()
    if unhashed:
        name = min(unhashed)
        file.write_text(f"# No hashes: {UNHASHED[name]}\n{plain}")
        return f"{file.name}: no hashes, as it has {name}"
    pins = [match[0] for match in REQUIREMENT.finditer(plain)]
    hashed = add_hashes(plain, ask_index(pins))
    file.write_text(hashed)
    return f"{file.name}: {hashed.count('--hash=')} archives of {len(pins)} packages"


def main() -> int:
    """Hash the files that are named, or all; return the exit code."""
    files = [Path(word) for word in sys.argv[1:]]
    if not files:
        files = sorted(REQUIREMENTS.rglob("*.txt"))
    for file in files:
        try:
            print(hash_file(file))
        except NoHashes as error:
            print(f"{file}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
