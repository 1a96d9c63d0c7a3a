"""What PyTorch asks cuDNN of a convolution, and the card that cuDNN is told of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from framebench.devices.simulation import cudnn
from framebench.devices.simulation.cudnn import Convolution, Operand
from framebench.devices.simulation.torch_card import Card
from framebench.devices.simulation.torch_device import layout

ASKED_SINCE = (2, 8)  # the first release whose wheels have a cuDNN that can be asked: 9.10. Older ones chose otherwise
OLDEST_CHIP = (7, 5)  # that libraries of CUDA 13 know, as these are
# Not in the catalog. At 1 or 9 GHz 3 of 204 choices for ResNet-50 and U-Net 3D on an H200 differ, by 2 MiB at most
MEMORY_KHZ = 3_000_000
DRIVER = 13000  # the CUDA of the driver, which the wheels' cuDNN asks for
BLOCKS = 32  # at once on a core; no choice depends on it


def workspaces(kind: str, args: Sequence[Any], card: Card) -> Iterator[int]:
    """Bytes, of the convolution with these operands and settings: none where cuDNN is not asked, or takes none."""
    x, weight, stride, padding, dilation, transposed, more, groups = args
    if not asked_of_cudnn(x, weight, groups, card):
        return
    stride, padding, dilation, more = (_each(values, x.dim() - 2) for values in (stride, padding, dilation, more))
    shape = _shape(x, weight, stride, padding, dilation, more, transposed, groups)
    order = layout(x, weight)
    first, filters, last = (Operand(tuple(s), strides(s, order)) for s in (x.shape, weight.shape, shape))
    if transposed:  # which is the gradient of a convolution's input, and its own gradient the convolution
        kind, first, last = {"forward": "data", "data": "forward"}.get(kind, kind), last, first
    exactly = torch.backends.cudnn.deterministic or torch.are_deterministic_algorithms_enabled()
    question = Convolution(
        kind, str(x.dtype).removeprefix("torch."), first, filters, last, padding, stride, dilation,
        torch.backends.cudnn.allow_tf32, exactly,
    )  # fmt: skip
    if size := cudnn.workspace(question, card.described):
        yield size


def asked_of_cudnn(x: Tensor, weight: Tensor, groups: int, card: Card) -> bool:
    """Not of depthwise ones, for which PyTorch has a kernel of its own, nor where algorithms are measured on the card."""
    depthwise = groups > 1 and groups == x.shape[1]
    possible = card.described and card.release >= ASKED_SINCE and not torch.backends.cudnn.benchmark and cudnn.library()
    known = x.dim() in (4, 5) and x.dtype == weight.dtype and str(x.dtype).removeprefix("torch.") in cudnn.TYPES
    return bool(possible) and known and not depthwise


def _each(values: Sequence[int], axes: int) -> tuple[int, ...]:
    """A number for each axis: one may stand for all."""
    return tuple(int(value) for value in (values if len(values) == axes else [*values] * axes))


def _shape(
    x: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], more: Sequence[int],
    transposed: bool, groups: int,
) -> tuple[int, ...]:  # fmt: skip
    """Of the result."""
    spans = [by * (size - 1) + 1 for by, size in zip(dilation, weight.shape[2:])]
    if transposed:
        sizes = [(n - 1) * s - 2 * p + span + m for n, s, p, span, m in zip(x.shape[2:], stride, padding, spans, more)]
        return int(x.shape[0]), int(weight.shape[1]) * groups, *map(int, sizes)
    sizes = [(n + 2 * p - span) // s + 1 for n, s, p, span in zip(x.shape[2:], stride, padding, spans)]
    return int(x.shape[0]), int(weight.shape[0]), *map(int, sizes)


def strides(shape: Sequence[int], order: torch.memory_format) -> tuple[int, ...]:
    """Of a tensor without gaps."""
    axes = [*range(len(shape))]
    inward = axes if order == torch.contiguous_format else [0, *axes[2:], 1]
    found, step = dict.fromkeys(axes, 1), 1
    for axis in reversed(inward):
        found[axis] = step
        step *= int(shape[axis])
    return tuple(found[axis] for axis in axes)


def described(chip: Any) -> str:
    """A device of the catalog in cuDNN's own JSON, as it writes down a card that is there; empty where it does not know it."""
    if chip.compute_capability < OLDEST_CHIP:
        return ""
    major, minor = chip.compute_capability
    return json.dumps(
        {
            "deviceName": chip.title, "deviceVer": 100 * major + 10 * minor, "driverVer": DRIVER, "cudaDeviceId": 0,
            "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "multiProcessorCount": chip.cores, "warpSize": 32,
            "totalGlobalMem": chip.memory_bytes, "l2CacheSize": chip.l2_bytes, "smClockRateKHz": int(chip.clock_ghz * 1e6),
            "memClockRateKHz": MEMORY_KHZ, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": chip.threads_per_core,
            "maxCtasPerSM": BLOCKS, "regsPerBlock": 65536,
            "maxRegistersPerSM": chip.registers_per_core, "maxSharedMemoryPerBlock": 49152,
            "maxSharedMemoryPerBlockOptin": chip.shared_memory_per_block, "reservedSharedMemoryPerBlock": 1024,
            "maxGridSize": [2**31 - 1, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
        }
    )  # fmt: skip
