"""Save the peaks of a `framebench try`, and compare a later one with them: `--save`, `--compare`.

The comparison is meant for a project's own tests, where a change that costs memory must fail.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import ValidationError

from framebench.analysis.frames import make_frame
from framebench.analysis.rendering import Table, TableColumn, format_mib
from framebench.cli.shared import err, say
from framebench.explain.record import Explanation
from framebench.records.record import Record
from framebench.records.record_parts import RecordPart
from framebench.records.store import BadRecord, read_bytes
from framebench.suite.counting import format_count
from framebench.suite.user_file import Fault
from framebench.user_file.trial import UserModel

NOISE = 2**19  # bytes by which the peak of the same step differs from run to run
LAYERS = 3  # that grew most, in a message
PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
COLUMNS = {
    "strategy": TableColumn("strategy"),
    "bytes_before": TableColumn("before MiB", format_mib),
    "bytes_after": TableColumn("now MiB", format_mib),
    "share": TableColumn("change", "+.1%"),
    "verdict": TableColumn("verdict"),
}


class StrategyPeak(RecordPart):
    """The peak of one strategy's steady step."""

    strategy: str
    bytes: int
    instrument: str


class SavedPeaks(RecordPart):
    """The results of one `framebench try` that a later one is compared with."""

    format: Literal[1] = 1
    file: str
    framework: str
    scenario: str
    batch: int
    device: str
    processor: str = ""  # files of older versions have none
    versions: dict[str, str]
    peaks: tuple[StrategyPeak, ...]
    explanation: Explanation | None  # of the baseline; None where its peak cannot be explained


def parse_threshold(text: str) -> float:
    """Return the share that a text such as `2%` names. Raises Fault."""
    match = PERCENT.fullmatch(text)
    if match is None:
        raise Fault(f"--threshold {text!r} is no percentage; write for instance 2%")
    return float(match[1]) / 100


def collect_peaks(records: list[Record], explanation: Explanation | None) -> SavedPeaks:
    """Return what is saved of the records of one model."""
    df = make_frame(records)
    peaks = []
    for row in df[df["usable"]].to_dict("records"):
        peak = StrategyPeak(
            strategy=row["strategy"],
            bytes=int(row["peak_bytes"]),
            instrument=row["peak_instrument"],
        )
        peaks.append(peak)
    newest = records[-1]
    case = newest.parsed
    hardware = newest.provenance.hardware
    return SavedPeaks(
        file=case.size,
        framework=case.framework,
        scenario=case.scenario,
        batch=case.batch,
        device=str(hardware.get("device", "")),
        processor=str(hardware.get("cpu", "")),
        versions=newest.provenance.versions,
        peaks=tuple(peaks),
        explanation=explanation,
    )


def check_not_empty(peaks: SavedPeaks) -> None:
    """Raise Fault if there is no peak to save or compare."""
    if not peaks.peaks:
        raise Fault("no strategy passed verification, so that there is no peak to save or compare")


def report_missing(named: list[str], left_out: dict[str, str]) -> bool:
    """Print which strategies that the user named have no peak, and return whether there are any.

    A check of a strategy that is never measured would pass whatever its memory is.
    """
    missing = [name for name in named if name in left_out]
    for name in missing:
        say(f"{name} was asked for and has no peak to save or compare: {left_out[name]}")
    return bool(missing)


def read_saved(file: Path) -> SavedPeaks:
    """Return what an earlier run has saved. Raises Fault."""
    try:
        return SavedPeaks.model_validate_json(read_bytes(file))
    except BadRecord as error:
        raise Fault(f"--compare {error}; --save {file} writes it") from error
    except ValidationError as error:
        raise Fault(
            f"--compare {file}: nothing that --save of this framebench wrote "
            f"({error.errors()[0]['msg']}); write it again with --save {file}"
        ) from error


def report_growth(before: SavedPeaks, after: SavedPeaks, threshold: float) -> bool:
    """Print how peaks differ from saved ones, and return whether one grew or is gone."""
    for remark in list_differences(before, after):
        say(f"not the same in both runs: {remark}")
    df = compare_peaks(before, after, threshold)
    grown = df[df["verdict"] == "grew"]
    gone = df[df["verdict"] == "gone"]
    Table(
        "Peaks against the saved ones",
        f"MiB = 2^20 bytes; grew = by more than {threshold:.1%} and {format_mib(NOISE)} MiB.",
        df,
        COLUMNS,
        left=1,
    ).terminal(err)
    if not gone.empty:
        say(f"without a peak to compare now, so that this fails: {', '.join(gone['strategy'])}")
    if grown.empty:
        others = "no other peak" if len(gone) else "no peak"
        say(f"{others} grew by more than {threshold:.1%}")
        return not gone.empty
    worst = grown.sort_values("share").iloc[-1]
    say(
        f"{len(grown)} of {len(df) - len(gone)} peaks grew by more than {threshold:.1%}, most that "
        f"of {worst['strategy']} by {worst['share']:.1%}"
    )
    layers = describe_layers(before.explanation, after.explanation)
    if layers:
        say(layers)
    return True


def check_request(before: SavedPeaks, model: UserModel, strategies: list[str] | None) -> None:
    """Raise Fault if saved peaks are not those of the cases that are about to be measured.

    `strategies` are those asked for beside the baseline, or None for all that apply.
    """
    for name in ("framework", "scenario", "batch"):
        old, new = getattr(before, name), getattr(model, name)
        if old != new:
            raise Fault(
                f"--compare: {name} was {old} and is {new}: peaks of two cases are not compared; "
                f"add --{name} {old}, or save it again with --save"
            )
    if strategies is None:
        return
    measured = {model.baseline.strategy, *strategies}
    missing = [peak.strategy for peak in before.peaks if peak.strategy not in measured]
    if missing:
        raise Fault(
            f"--compare: {', '.join(missing)} was saved and is not in --strategies; add it, or "
            "save it again with --save"
        )


def list_differences(before: SavedPeaks, after: SavedPeaks) -> list[str]:
    """Return what differs between two runs of the same cases and may move a peak."""
    old_setting = {"the file": before.file, "device": before.device, **before.versions}
    new_setting = {"the file": after.file, "device": after.device, **after.versions}
    if before.processor and after.processor:  # it decides which kernels, and so which workspaces
        old_setting["the processor"] = before.processor
        new_setting["the processor"] = after.processor
    remarks = []
    for name, old in old_setting.items():
        new = new_setting.get(name, old)
        if new != old:
            remarks.append(f"{name} was {old} and is {new}")
    return remarks


def compare_peaks(before: SavedPeaks, after: SavedPeaks, threshold: float) -> pd.DataFrame:
    """Return a row for each saved strategy, with its bytes in both runs, the growth and a verdict.

    The verdict is `gone` if the strategy has no peak by the same instrument now, `grew` if the peak
    is larger by more than `threshold`, a share of the saved peak, and by more than NOISE.
    """
    old = pd.DataFrame([peak.model_dump() for peak in before.peaks])
    new = pd.DataFrame([peak.model_dump() for peak in after.peaks])
    keys = ["strategy", "instrument"]
    df = old.merge(new, how="left", on=keys, suffixes=("_before", "_after"))
    growth = df["bytes_after"] - df["bytes_before"]
    df["share"] = growth / df["bytes_before"]
    is_gone = df["bytes_after"].isna()
    has_grown = (df["share"] > threshold) & (growth > NOISE)
    df["verdict"] = "ok"
    df.loc[has_grown, "verdict"] = "grew"
    df.loc[is_gone, "verdict"] = "gone"
    return df


def describe_layers(before: Explanation | None, after: Explanation | None) -> str:
    """Return which layers hold more at the baseline's peak than before, or "" if none is known."""
    if before is None or after is None:
        return ""
    # each layer by its full name: `explain` would sum up layers that differ only in a number
    growth: Counter[tuple[str, str]] = Counter()  # bytes by layer and kind
    for holder in after.holders:
        growth[holder.layer, holder.kind] += holder.bytes
    for holder in before.holders:
        growth[holder.layer, holder.kind] -= holder.bytes
    largest_first = (+growth).most_common()  # `+` drops what has shrunk
    if not largest_first:
        return ""
    texts = []
    for (layer, kind), size in largest_first[:LAYERS]:
        texts.append(f"{kind} of {layer or 'the step'} (+{format_mib(size, ',.2f')} MiB)")
    others = [size for _, size in largest_first[LAYERS:]]
    if others:
        together = " together" if len(others) > 1 else ""
        count = format_count(len(others), "other")
        texts.append(f"{count} (+{format_mib(sum(others), ',.2f')} MiB{together})")
    return f"more at the baseline's peak: {', '.join(texts)}"
