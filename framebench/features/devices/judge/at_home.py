"""What was predicted for the very card that a case was then measured on: docs/devices.md.

For JAX there are two plans: the predicted one is compiled without autotuning, the one on the card with what autotuning chose.
A card's Python has the release that it has: where that was not predicted, the prediction of another release stands, named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from framebench.analysis.comparison import Comparison, mib
from framebench.analysis.selection import select_cases
from framebench.features.devices.catalog import DEVICES, Device
from framebench.features.devices.plans.planned import Planned
from framebench.records.record import Record

HEAD = (
    "device", "case", "measured with", "predicted with", "in use, predicted", "in use", "error", "reserved, predicted",
    "reserved", "error of reserved", "plan on the card", "process",
)  # fmt: skip
CLOSE = 0.1  # of the memory that a card reports, between one of the catalog and one with the same chip


def device_of(name: str, memory_bytes: int | None) -> Device | None:
    """The device of the catalog by the driver's name for the card and the memory that it reports; None where there is none."""
    for device in DEVICES:
        chip = re.sub(r"(?<=rtx)(?=\d)", " ", device.name.split("-")[0])
        same = re.search(rf"\b{chip}\b", name, re.IGNORECASE) and device.kind == "gpu"
        if same and memory_bytes and abs(memory_bytes / device.memory_bytes - 1) < CLOSE:
            return device
    return None


def table(records: Iterable[Record], predictions: Iterable[Planned]) -> Comparison | None:
    """Each measured case of which there is a prediction for its card and version; None where there is none."""
    predicted = {(p.device, p.case, p.framework_version): p for p in predictions if p.peak_bytes}
    rows = []
    for chosen in select_cases(records):
        record = chosen.read
        card = device_of(str(record.provenance.hardware.get("device")), _memory(record))
        of_case = [p for (device, case, _), p in predicted.items() if card and (device, case) == (card.name, record.case)]
        if record.status == "ok" and of_case:
            rows.append(
                _cells(record, max(of_case, key=lambda p: (p.framework_version == _release(record), p.origin.planned_at)))
            )
    caption = (
        "Sizes in MiB. Predicted without the card: of JAX XLA's plan, of PyTorch the simulated allocator. in use, reserved: "
        "peaks of the framework's allocator on the card. plan on the card: XLA's, with the kernels that autotuning chose. "
        "process: NVML, with the context."
    )
    return Comparison.of_text("Predicted without the card, measured on it", caption, HEAD, rows, left=4) if rows else None


def _memory(record: Record) -> int | None:
    return (record.provenance.gpu.get("before") or {}).get("memory_bytes")


def _release(record: Record) -> str:
    """Without the local part, such as +cu130."""
    return (record.framework_version or "").split("+")[0]


def _cells(record: Record, prediction: Planned) -> tuple[str, ...]:
    peaks, simulated = record.peaks, prediction.source == "allocator.simulated"
    in_use = prediction.parts.get("allocated") if simulated else prediction.peak_bytes
    return (
        prediction.device, record.case, record.framework_version or "-", prediction.framework_version,
        *_held(in_use, peaks.get("allocator.in_use")),
        *_held(prediction.peak_bytes if simulated else None, peaks.get("allocator.reserved")),
        mib(peaks.get("compiler.plan")), mib(peaks.get("device.process", peaks.get("device.card"))),
    )  # fmt: skip


def _held(predicted: int | None, measured: int | None) -> tuple[str, str, str]:
    error = f"{predicted / measured - 1:+.2%}" if predicted and measured else "-"
    return mib(predicted), mib(measured), error
