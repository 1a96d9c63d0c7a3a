"""The devices that cases are planned for; `catalog.toml` has them.

Standard library only, as planners read it.

A GPU's memory is what its driver reports to a program, which is less than the name says: some is
the driver's, on some GPUs also that of error correction.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from framebench.models.spec import UnknownName

GIB = 2**30
# bytes of a CUDA context (the driver's part of a process and its loaded kernels), the least and the
# most that was measured on GPUs of others
CONTEXT = (617 * 2**20, 1343 * 2**20)


class UnknownDevice(UnknownName):
    """A device that is not in the catalog; the message has the nearest, and all."""


class DoesNotFit(Exception):
    """A step for which the device has no memory."""


@dataclass(frozen=True)
class Device:
    """One accelerator. A core is a GPU's streaming multiprocessor, or a TPU's tensor core."""

    name: str
    title: str
    kind: Literal["gpu", "tpu"]
    memory_bytes: int  # as many as a program can have
    source: str  # of the figures
    compute_capability: tuple[int, int] = (0, 0)
    cores: int = 1
    threads_per_core: int = 0
    registers_per_core: int = 65536
    shared_memory_per_core: int = 0
    shared_memory_per_block: int = 0  # the most that a kernel may opt into
    fpus_per_core: int = 0
    bandwidth: int = 0  # bytes a second
    l2_bytes: int = 0
    clock_ghz: float = 0.0
    topology: str = ""  # of a TPU: its smallest slice, as XLA names it

    @property
    def has_bfloat16(self) -> bool:
        """Return whether the device computes in bfloat16: TPUs do, and GPUs since Ampere."""
        return self.kind == "tpu" or self.compute_capability >= (8, 0)

    @property
    def capability(self) -> str:
        """Return the compute capability as text, such as 9.0, or "" for a TPU."""
        return ".".join(map(str, self.compute_capability)) if self.kind == "gpu" else ""

    @property
    def gib(self) -> float:
        """Return the memory in GiB."""
        return self.memory_bytes / GIB


def load_devices() -> dict[str, Device]:
    """Return the devices of `catalog.toml` by name, in its order."""
    catalog = tomllib.loads(Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8"))
    devices = {}
    for row in catalog["devices"]:
        chip = catalog["chips"].get(row.pop("chip", None), {})
        row["compute_capability"] = tuple(row.get("compute_capability", (0, 0)))
        devices[row["name"]] = Device(**chip, **row)
    return devices


BY_NAME = load_devices()
DEVICES = tuple(BY_NAME.values())


def find(name: str) -> Device:
    """Return the device of this name, in lower or upper case. Raises UnknownDevice.

    The memory may be left out where it says no more, as in rtx4090, and so may the word tpu.
    """
    name_in_catalog = name.lower()
    if name_in_catalog in BY_NAME:
        return BY_NAME[name_in_catalog]
    shorter = []
    for known in BY_NAME:
        if name_in_catalog in (known.rpartition("-")[0], known.removeprefix("tpu-")):
            shorter.append(known)
    if len(shorter) == 1:
        return BY_NAME[shorter[0]]
    nearest = get_close_matches(name_in_catalog, BY_NAME, 1, cutoff=0.4)
    nearest += [known for known in BY_NAME if name_in_catalog in known]
    hint = f"; the nearest is {nearest[0]}" if nearest else ""
    raise UnknownDevice(
        f"no device {name!r}{hint}; devices: {', '.join(BY_NAME)}. In place of a GPU that is not "
        "listed take one of its generation, and its memory by --budget, such as 11GiB"
    )
