"""Compare what was predicted for a GPU with what was then measured on it.

For JAX there are two plans: the predicted one is compiled without autotuning, the one on the card
with what autotuning chose. A card's Python has the release that it has: where that was not
predicted, the prediction of another release stands, named.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence

from framebench.analysis.rendering import Table, format_mib
from framebench.analysis.selection import select_cases
from framebench.devices.catalog import DEVICES, Device
from framebench.devices.plans.planned import Planned
from framebench.records.record import Record
from framebench.suite.case import FULL_SIZE

HEAD = (
    "device",
    "case",
    "measured with",
    "predicted with",
    "in use, predicted",
    "in use",
    "error",
    "reserved, predicted",
    "error of reserved",
    "reserved, with workspaces",
    "error with them",
    "reserved",
    "plan on the card",
    "process",
)
# of the memory that a card reports, between one of the catalog and one with the same chip
CLOSE = 0.1


def device_of(name: str, memory_bytes: int | None) -> Device | None:
    """The device of the catalog by the driver's name for the card and the memory that it reports;
    None where there is none.
    """
    for device in DEVICES:
        chip = re.sub(r"(?<=rtx)(?=\d)", " ", device.name.split("-")[0])
        same = re.search(rf"\b{chip}\b", name, re.IGNORECASE) and device.kind == "gpu"
        if same and memory_bytes and abs(memory_bytes / device.memory_bytes - 1) < CLOSE:
            return device
    return None


def table(records: Iterable[Record], predictions: Iterable[Planned]) -> Table | None:
    """Each measured case of which there is a prediction for its card and version; None where there
    is none.
    """
    predicted = [p for p in predictions if p.peak_bytes]
    rows = []
    for chosen in select_cases(records):
        record = chosen.record
        card = device_of(str(record.provenance.hardware.get("device")), _memory(record))
        of_case = [p for p in predicted if card and (p.device, p.case) == (card.name, record.case)]
        if record.status == "ok" and of_case:
            plain, asked = (
                [p for p in of_case if ("cudnn" in p.origin.versions) == with_it]
                for with_it in (False, True)
            )
            rows.append(_cells(record, _nearest(record, plain), _nearest(record, asked)))
    caption = (
        "Sizes in MiB. Predicted without the card: of JAX XLA's plan, of PyTorch the simulated "
        "allocator. in use, reserved: peaks of the framework's allocator on the card. plan on the "
        "card: XLA's, with the kernels that autotuning chose. process: NVML, with the context. "
        "with workspaces: of another simulation, in which cuDNN was asked for those of "
        "convolutions."
    )
    return (
        Table.of_text("Predicted without the card, measured on it", caption, HEAD, rows, left=4)
        if rows
        else None
    )


def by_workload(records: Iterable[Record], predictions: Iterable[Planned]) -> Table | None:
    """Errors of reserved peaks without workspaces and with them, of the cases that were simulated
    both ways; None of none.
    """
    made = table(records, predictions)
    errors: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in made.rows if made else ():
        told = dict(zip(HEAD, row, strict=True))
        if "-" not in (without := told["error of reserved"], asked := told["error with them"]):
            errors.setdefault((told["device"], told["case"].split("/")[0]), []).append(
                (_number(without), _number(asked))
            )
    rows = [
        (
            *of,
            str(len(pairs)),
            *_summary([a for a, _ in pairs]),
            *_summary([b for _, b in pairs]),
            str(sum(abs(b) < abs(a) for a, b in pairs)),
            str(sum(abs(b) > abs(a) for a, b in pairs)),
        )
        for of, pairs in errors.items()
    ]
    caption = (
        "Of peaks that the allocator reserved. median and largest: of absolute errors. with "
        "workspaces: cuDNN was asked for those of convolutions. nearer, further: cases whose error "
        "became smaller, or larger."
    )
    head = (
        "device",
        "workload",
        "cases",
        "median",
        "largest",
        "median, with workspaces",
        "largest, with workspaces",
        "nearer",
        "further",
    )
    return (
        Table.of_text("Errors with and without workspaces", caption, head, rows, left=2)
        if rows
        else None
    )


def _number(percent: str) -> float:
    return float(percent.removesuffix("%"))


def _summary(errors: Sequence[float]) -> tuple[str, str]:
    sizes = [abs(error) for error in errors]
    return f"{statistics.median(sizes):.2f}%", f"{max(sizes):.2f}%"


def plans(records: Iterable[Record], predictions: Iterable[Planned]) -> Table | None:
    """What XLA planned on a card at full size, beside its plan without the card and the peak; None
    where there is none.
    """
    predicted = [p for p in predictions if p.peak_bytes and p.source == "compiler.plan"]
    rows = []
    for record in (chosen.record for chosen in select_cases(records)):
        card = device_of(str(record.provenance.hardware.get("device")), _memory(record))
        plan, peak = record.peaks.get("compiler.plan"), record.peaks.get("allocator.in_use")
        if card and plan and peak and record.status == "ok" and record.parsed.size == FULL_SIZE:
            told = _nearest(
                record, [p for p in predicted if (p.device, p.case) == (card.name, record.case)]
            )
            without, error = _error(told.peak_bytes if told else None, plan)
            cells = without, format_mib(plan), error, format_mib(peak), format_mib(peak - plan)
            rows.append((card.name, record.case, record.framework_version or "-", *cells))
    caption = (
        "Sizes in MiB. XLA's plan without the card has no tuning; on the card convolutions and "
        "products are tuned, unless the strategy is autotune_off. error: of the plan without the "
        "card. peak: in use by JAX's allocator."
    )
    head = (
        "device",
        "case",
        "measured with",
        "plan without the card",
        "plan on it",
        "error",
        "peak",
        "peak - plan",
    )
    return (
        Table.of_text("Plans of XLA, without the card and on it", caption, head, rows, left=3)
        if rows
        else None
    )


def _memory(record: Record) -> int | None:
    return (record.provenance.gpu.get("before") or {}).get("memory_bytes")


def _release(record: Record) -> str:
    """Without the local part, such as +cu130."""
    return (record.framework_version or "").split("+")[0]


def _nearest(record: Record, predictions: list[Planned]) -> Planned | None:
    """Of the record's release, if there is one, and the newest of these."""
    order = lambda p: (p.framework_version == _release(record), p.origin.planned_at)  # noqa: E731
    return max(predictions, key=order, default=None)


def _cells(record: Record, plain: Planned | None, asked: Planned | None) -> tuple[str, ...]:
    """`asked`: where cuDNN was."""
    prediction = plain or asked
    assert prediction
    peaks, simulated = record.peaks, prediction.source == "allocator.simulated"
    in_use = prediction.parts.get("allocated") if simulated else prediction.peak_bytes
    reserved = peaks.get("allocator.reserved")
    return (
        prediction.device,
        record.case,
        record.framework_version or "-",
        prediction.framework_version,
        format_mib(in_use),
        format_mib(peaks.get("allocator.in_use")),
        _error(in_use, peaks.get("allocator.in_use"))[1],
        *_error(plain.peak_bytes if plain and simulated else None, reserved),
        *_error(asked.peak_bytes if asked else None, reserved),
        format_mib(reserved),
        format_mib(peaks.get("compiler.plan")),
        format_mib(peaks.get("device.process", peaks.get("device.card"))),
    )


def _error(predicted: int | None, measured: int | None) -> tuple[str, str]:
    """The prediction, and how far it is off."""
    return format_mib(
        predicted
    ), f"{predicted / measured - 1:+.2%}" if predicted and measured else "-"
