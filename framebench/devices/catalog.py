"""The devices that cases are planned for, and where their figures come from. Standard library only, as planners read it.

A card's memory is what its driver reports to a program, which is less than the name says: some is the driver's, on some cards
also that of error correction. What a compiler for GPUs is told besides are the properties of the chip.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from framebench.models.spec import UnknownName

GIB = 2**30
OPENXLA = "OpenXLA's target configuration (xla/backends/gpu/target_config/specs)"
QUERY = "NVIDIA's data sheet, and what CUDA's deviceQuery prints of one"
TPU = "Google Cloud's page of the TPU version"


class UnknownDevice(UnknownName):
    """A device that is not in the catalog; the message has the nearest, and all."""


@dataclass(frozen=True)
class Device:
    """One accelerator. Of a GPU a core is a streaming multiprocessor, of a TPU a tensor core."""

    name: str
    title: str
    kind: Literal["gpu", "tpu"]
    memory_bytes: int  # that a program can have
    source: str  # of the figures
    compute_capability: tuple[int, int] = (0, 0)
    cores: int = 1
    threads_per_core: int = 0
    registers_per_core: int = 65536
    shared_memory_per_core: int = 0
    shared_memory_per_block: int = 0  # that a kernel may opt into
    fpus_per_core: int = 0
    bandwidth: int = 0  # bytes a second
    l2_bytes: int = 0
    clock_ghz: float = 0.0
    topology: str = ""  # of a TPU: its smallest slice, as XLA names it

    @property
    def capability(self) -> str:
        """Such as 9.0; empty of a TPU."""
        return ".".join(map(str, self.compute_capability)) if self.kind == "gpu" else ""

    @property
    def gib(self) -> float:
        return self.memory_bytes / GIB


def _gpu(
    name: str, title: str, capability: tuple[int, int], cores: int, memory: int, chip: dict[str, int], **other: object
) -> Device:
    return Device(name, title, "gpu", memory, compute_capability=capability, cores=cores, **chip, **other)  # type: ignore[arg-type]


# What all chips of an architecture have in common
VOLTA = {"threads_per_core": 2048, "shared_memory_per_core": 98304, "shared_memory_per_block": 98304, "fpus_per_core": 64}
TURING = {"threads_per_core": 1024, "shared_memory_per_core": 65536, "shared_memory_per_block": 65536, "fpus_per_core": 64}
AMPERE = {"threads_per_core": 2048, "shared_memory_per_core": 167936, "shared_memory_per_block": 166912, "fpus_per_core": 64}
GEFORCE = {"threads_per_core": 1536, "shared_memory_per_core": 102400, "shared_memory_per_block": 101376, "fpus_per_core": 128}
HOPPER = {"threads_per_core": 2048, "shared_memory_per_core": 233472, "shared_memory_per_block": 232448, "fpus_per_core": 128}

DEVICES = (
    _gpu("h100-80gb", "NVIDIA H100 SXM 80 GB", (9, 0), 132, 84942979072, HOPPER,
         bandwidth=3352320000000, l2_bytes=52428800, clock_ghz=1.98, source=OPENXLA),
    _gpu("h200-141gb", "NVIDIA H200 141 GB", (9, 0), 132, 151397597184, HOPPER,
         bandwidth=4800000000000, l2_bytes=52428800, clock_ghz=1.98, source=OPENXLA),
    _gpu("a100-40gb", "NVIDIA A100 SXM 40 GB", (8, 0), 108, 42331013120, AMPERE,
         bandwidth=1555200000000, l2_bytes=41943040, clock_ghz=1.41, source=OPENXLA),
    _gpu("a100-80gb", "NVIDIA A100 SXM 80 GB", (8, 0), 108, 85100068864, AMPERE,
         bandwidth=2039040000000, l2_bytes=41943040, clock_ghz=1.41, source=OPENXLA),
    _gpu("b200", "NVIDIA B200", (10, 0), 148, 191514411008, HOPPER,
         bandwidth=7672320000000, l2_bytes=132644864, clock_ghz=1.965, source=OPENXLA),
    _gpu("v100-16gb", "NVIDIA V100 SXM2 16 GB", (7, 0), 80, 16935682048, VOLTA,
         bandwidth=898048000000, l2_bytes=6291456, clock_ghz=1.53, source=OPENXLA),
    _gpu("l4-24gb", "NVIDIA L4 24 GB", (8, 9), 58, 23612293120, GEFORCE,
         bandwidth=300048000000, l2_bytes=50331648, clock_ghz=2.04, source=QUERY),
    _gpu("t4-16gb", "NVIDIA T4 16 GB", (7, 5), 40, 15843721216, TURING,
         bandwidth=320064000000, l2_bytes=4194304, clock_ghz=1.59, source=QUERY),
    _gpu("rtx4090-24gb", "NVIDIA GeForce RTX 4090 24 GB", (8, 9), 128, 25250627584, GEFORCE,
         bandwidth=1008096000000, l2_bytes=75497472, clock_ghz=2.52, source=QUERY),
    _gpu("rtx4060-8gb", "NVIDIA GeForce RTX 4060 8 GB", (8, 9), 24, 8188 * 2**20, GEFORCE,
         bandwidth=272000000000, l2_bytes=25165824, clock_ghz=2.46,
         source="NVIDIA's data sheet; memory as nvidia-smi prints it, of which a program can have less"),
    _gpu("rtx3060-12gb", "NVIDIA GeForce RTX 3060 12 GB", (8, 6), 28, 12629508096, GEFORCE,
         bandwidth=360048000000, l2_bytes=2359296, clock_ghz=1.777, source=QUERY),
    Device("tpu-v5e", "Google TPU v5e", "tpu", 16 * GIB, TPU, bandwidth=819000000000, topology="v5e:2x2"),
    Device("tpu-v5p", "Google TPU v5p", "tpu", 95 * GIB, TPU, cores=2, bandwidth=2765000000000, topology="v5p:2x2x1"),
    Device("tpu-v6e", "Google TPU v6e (Trillium)", "tpu", 32 * GIB, TPU, bandwidth=1640000000000, topology="v6e:2x2"),
)  # fmt: skip
BY_NAME = {device.name: device for device in DEVICES}


def find(name: str) -> Device:
    """The device of this name, however it is capitalised. Raises UnknownDevice."""
    if device := BY_NAME.get(name.lower()):
        return device
    near = get_close_matches(name.lower(), BY_NAME, 1, cutoff=0.4) or [n for n in BY_NAME if name.lower() in n][:1]
    meant = f"; the nearest is {near[0]}" if near else ""
    raise UnknownDevice(f"no device {name!r}{meant}; devices: {', '.join(BY_NAME)}")
