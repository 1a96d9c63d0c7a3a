"""Predicted peaks next to measured ones, from the four studies that have both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from framebench.devices.catalog import Device
from framebench.devices.needs import Kind
from framebench.devices.plans import store as plans
from framebench.devices.plans.planned import Planned
from framebench.engine import runner
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.case import FULL_SIZE
from studies.compiled_steps.__main__ import STUDY as COMPILED_STEPS
from studies.gpu_session.__main__ import EARLIER
from studies.gpu_session.__main__ import STUDY as GPU_SESSION
from studies.gpu_session.predictions import device_of
from studies.published_peaks import errors, programs, rules
from studies.published_peaks.rows import DATA, Row
from studies.published_peaks.rows import read as read_rows
from studies.sharded_steps.__main__ import STUDY as SHARDED_STEPS

TRUSTED = ("high", "good")
OWN_GPU = "H200"
MIXED_PRECISION = ("amp_bf16", "amp_fp16")
# what the loops of published_peaks run. LitGPT's trains a few weights beside frozen ones; xMem's
# pads texts to the longest of each batch
KINDS_OF_LOOPS: dict[str, Kind] = {
    "images": "torch, convolutions without workspaces",
    "text": "torch, padded texts",
    "lora": "torch, frozen weights",
    "video": "torch, convolutions without workspaces",
}


@dataclass(frozen=True)
class Sample:
    """One measured peak with its prediction."""

    kind: Kind
    family: str  # of models, within one source
    source: str
    row: str  # what was measured; a case that was measured again is the same row
    step: str  # what was trained: one of `needs.STEPS`
    predicted: int  # bytes
    measured: int  # bytes

    @property
    def error(self) -> float:
        """Return measured / predicted - 1: positive where the prediction was too low."""
        return self.measured / self.predicted - 1


def read_samples() -> list[Sample]:
    """Return every sample of the studies, each once. Nothing of them was fitted to."""
    samples = [*read_published(), *read_own(), *read_sharded(), *read_compiled()]
    return list(dict.fromkeys(samples))


def name_step(is_16_bits: bool, is_recomputed: bool) -> str:
    """Return the name of `needs.STEPS` by precision, and by whether activations were recomputed."""
    name = "16 bits" if is_16_bits else "32 bits"
    return f"{name}, recomputed" if is_recomputed else name


def read_sharded() -> list[Sample]:
    """Return the peaks of one rank under FSDP2 that others measured and published."""
    predictions = SHARDED_STEPS.read_predictions()
    samples = []
    for row in SHARDED_STEPS.read_rows():
        source = row["source"].split()[0]
        predicted = predictions[row["name"]]["reserved_bytes"]
        measured = int(row["measured_bytes"])
        samples.append(
            Sample(
                "torch, ranks",
                f"{source}, FSDP2",
                source,
                row["name"],
                name_step(True, row["recomputed"] != "none"),
                predicted,
                measured,
            )
        )
    return samples


def read_compiled() -> list[Sample]:
    """Return the peaks of compiled steps that others measured and published."""
    predictions = COMPILED_STEPS.read_predictions()
    samples = []
    for row in COMPILED_STEPS.read_rows():
        source = row["source"].split()[0]
        predicted = predictions[row["name"]]["compiled_bytes"]
        measured = int(row["measured_bytes"])
        samples.append(
            Sample(
                "torch, compiled",
                f"{source}, ViT-H/14",
                source,
                row["name"],
                name_step(True, False),
                predicted,
                measured,
            )
        )
    return samples


def read_published() -> list[Sample]:
    """Return the peaks that others measured and published, of good or high trust.

    cuDNN 9.1, with which the rows of images were measured, cannot be asked: their predictions have
    no workspaces of convolutions. Where a row does not say whether cuBLAS had its workspaces, there
    is a sample of each, so that neither assumption narrows an interval.
    """
    samples = []
    for compared in errors.compare_rows(DATA, read_rows(DATA)):
        if rules.trust(compared.row) not in TRUSTED:
            continue
        program: programs.Program = compared.program
        predictions = [compared.predicted_bytes]
        if not program.blas_takes and compared.otherwise_bytes is not None:
            predictions.append(compared.otherwise_bytes)
        for predicted in predictions:
            if predicted is None:
                raise ValueError(f"{compared.row.key} has no prediction: {compared.why_not}")
            row = compared.row
            samples.append(
                Sample(
                    KINDS_OF_LOOPS[program.loop],
                    rules.family(row),
                    row.source,
                    row.key,
                    name_step(row.precision.startswith("bf16"), is_recomputed(row)),
                    predicted,
                    row.bytes,
                )
            )
    return samples


def is_recomputed(row: Row) -> bool:
    """Return whether a row says that activations were recomputed."""
    return "checkpointing" in row.strategy and "no checkpointing" not in row.strategy


def read_own() -> list[Sample]:
    """Return the peaks that a GPU of our own measured at full size.

    PyTorch's first predictions, which asked cuDNN nothing, are samples of that kind.
    """
    predictions = [
        *plans.read_every(GPU_SESSION / "data", EARLIER),
        *plans.read_every(runner.RESULTS),
    ]
    samples = []
    for record in store.read_all(runner.RESULTS):
        device = find_device(record)
        if device is None or record.status != "ok" or record.parsed.size != FULL_SIZE:
            continue
        for planned in choose_predictions(record, device, predictions):
            measured = read_peak(record)
            if measured and planned.peak_bytes:
                family = f"{record.parsed.workload} on an {OWN_GPU}"
                parts = {part.name for part in record.parsed.parts}
                samples.append(
                    Sample(
                        planned.kind,
                        family,
                        OWN_GPU,
                        record.case,
                        name_step(not parts.isdisjoint(MIXED_PRECISION), "checkpoint" in parts),
                        planned.peak_bytes,
                        measured,
                    )
                )
    return samples


def find_device(record: Record) -> Device | None:
    """Return the device of the catalog that the record was measured on, or None."""
    memory = (record.provenance.gpu.get("before") or {}).get("memory_bytes")
    return device_of(str(record.provenance.hardware.get("device")), memory)


def choose_predictions(
    record: Record, device: Device, predictions: Iterable[Planned]
) -> list[Planned]:
    """Return the newest prediction of each kind, of the record's case and release."""
    release = (record.framework_version or "").split("+")[0]
    newest: dict[Kind, Planned] = {}
    for planned in sorted(predictions, key=lambda planned: planned.origin.planned_at):
        is_of_record = (planned.device, planned.case) == (device.name, record.case)
        if is_of_record and planned.framework_version == release and planned.peak_bytes:
            newest[planned.kind] = planned
    return list(newest.values())


def read_peak(record: Record) -> int | None:
    """Return what the framework took: PyTorch's allocator reserved it, JAX's had it in use."""
    instrument = "allocator.reserved" if record.parsed.framework == "torch" else "allocator.in_use"
    return record.peaks.get(instrument)
