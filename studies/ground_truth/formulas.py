"""Compare published throughputs, formulas and overheads with our records.

Ours come from records and from the counted lower bound; nothing of ours is typed here. Where no
record fits, the cell says so.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pandas as pd

from framebench.analysis.lower_bound import (
    compute_lower_bound,
    count_korthikanti_bytes,
    list_layers,
)
from framebench.analysis.rendering import Table, TableColumn, format_mib, format_number
from framebench.analysis.tables import describe_conditions, describe_timing, format_time_ratios
from framebench.records.record import parse_case as case_named
from framebench.suite.case import Case

NOT_HERE = "not measured here"
NOT_OURS = (
    "theirs: input pipeline, label smoothing, momentum 0.875, batch 256 (V100: 128 to 256), "
    "channels last under AMP; "
    "ours: fixed inputs, no augmentation"
)


class Speed(NamedTuple):
    """A published training throughput in images per second on one card."""

    who: str
    device: str  # as the driver's name contains it
    strategies: tuple[str, ...]  # of ours, the nearest first
    images_per_s: float
    differs: str


NVIDIA = "NVIDIA DeepLearningExamples, PyTorch ResNet-50 v1.5, README of 2021"
LAMBDA = "Lambda, GPU benchmarks, PyTorch ResNet-50"
SPEEDS = (
    Speed(NVIDIA, "V100", ("fp32",), 367, NOT_OURS),
    Speed(NVIDIA, "V100", ("amp_fp16+channels_last", "amp_fp16"), 1200, NOT_OURS),
    Speed(NVIDIA, "A100", ("tf32",), 938, NOT_OURS),
    Speed(NVIDIA, "A100", ("amp_fp16+channels_last", "amp_fp16"), 2470, NOT_OURS),
    Speed(
        LAMBDA,
        "H200",
        ("tf32", "fp32"),
        2259,
        "two columns, fp32 and fp16; batch and TF32 are not named",
    ),
    Speed(LAMBDA, "H200", ("amp_fp16+channels_last", "amp_fp16"), 3079, "as above; half precision"),
)


def speeds(table: pd.DataFrame) -> Table:
    """Our fastest batch of the nearest strategy on the same card by PyTorch."""
    rows, used = [], []
    for speed in SPEEDS:
        ours = _nearest(table, speed)
        used.append(ours)
        our_speed, ratio = NOT_HERE, "-"
        for throughput, strategy, batch in ours[["throughput", "strategy", "batch"]].itertuples(
            index=False
        ):
            our_speed, ratio = (
                f"{throughput:,.0f} ({strategy}, batch {batch})",
                f"{throughput / speed.images_per_s:.2f}",
            )
        rows.append(
            (
                speed.who,
                speed.device,
                speed.strategies[0],
                f"{speed.images_per_s:,.0f}",
                our_speed,
                ratio,
                speed.differs,
            )
        )
    head = ("source", "card", "strategy", "theirs", "ours", "ours / theirs", "what differs")
    caption = (
        "Images per second of ResNet-50 v1.5 training at 224 px on one card. Ours: size full, "
        "PyTorch, the fastest batch. "
        f"{describe_conditions(pd.concat(used))}"
    )
    return Table.of_text("ResNet-50 throughput", caption, head, tuple(rows), left=3)


def _nearest(table: pd.DataFrame, speed: Speed) -> pd.DataFrame:
    """Our row, if there is one."""
    place = (
        (table["workload"] == "resnet50")
        & (table["framework"] == "torch")
        & (table["scenario"] == "train")
    )
    place &= (table["size"] == "full") & (table["status"] == "ok")
    here = table[place & table["device"].fillna("").str.contains(speed.device, regex=False)]
    ours = (here[here["strategy"] == strategy] for strategy in speed.strategies)
    return next((rows for rows in ours if len(rows)), here[:0]).sort_values("throughput").tail(1)


@cache  # many records are of few cases
def counted_bytes(case: Case) -> int:
    """The lower bound's own count of what the blocks keep, in float32."""
    return 4 * case.batch * sum(k.elements for k in list_layers(case) if k.block)


def activations(table: pd.DataFrame) -> Table:
    """For all layers: the formula, our lower bound, and the part of the measured peak that is
    theirs.
    """
    rows, measured_rows = (
        [],
        pd.concat([measured(table, strategy) for strategy in ("fp32", "attention_plain")]),
    )
    for case_id, peak, machine, instrument in zip(
        *(measured_rows[c] for c in ("case", "peak_bytes", "machine", "peak_instrument"))
    ):
        case = case_named(case_id)
        seen, counted = _peak_of_blocks(case, peak), counted_bytes(case)
        rows.append(
            (
                machine,
                case.framework,
                case.strategy,
                str(case.batch),
                format_mib(published_bytes(case)),
                format_mib(count_korthikanti_bytes(case)),
                format_mib(counted),
                format_mib(seen),
                format_number(seen and seen / counted, ".2f"),
                instrument,
            )
        )
    head = (
        "machine",
        "framework",
        "strategy",
        "batch",
        "formula",
        "no dropout, float32",
        "lower bound",
        "measured",
        "measured / lower bound",
        "instrument",
    )
    caption = (
        "MiB (2^20 bytes) that the Transformer's blocks keep for the backward pass, size cpu. "
        "formula: s b h (34 + 5 a s / h) bytes a layer (Korthikanti et al. 2022, Reducing "
        "Activation Recomputation in Large Transformer Models, section 4.1): 16 bits, dropout, "
        "scores stored. lower bound: our count for the strategy; fused attention (fp32) keeps no "
        "scores, which the formula includes. measured: peak - the bound's other parts, so with "
        f"workspaces and gradients of activations. {describe_conditions(measured_rows)}"
    )
    return Table.of_text("Activations of a Transformer", caption, head, rows, left=3)


def published_bytes(case: Case) -> int:
    """Return the bytes of all layers by equation 1 of Korthikanti et al. 2022.

    It is s b h (34 + 5 a s / h) for each layer, in 16 bits, dropout included.
    """
    c = case.config
    s, b, h, a = c.length, case.batch, c.width, c.heads
    return c.layers * round(s * b * h * (34 + 5 * a * s / h))


def measured(table: pd.DataFrame, strategy: str) -> pd.DataFrame:
    chosen = (
        (table["workload"] == "transformer")
        & (table["scenario"] == "train")
        & (table["size"] == "cpu")
    )
    chosen &= (
        (table["strategy"] == strategy) & (table["status"] == "ok") & table["peak_bytes"].notna()
    )
    return table[chosen].sort_values(["machine", "framework", "batch"])


def _peak_of_blocks(case: Case, peak: float) -> int | None:
    """The measured peak without the lower bound's parameters, states, inputs, gradients and what
    lies above the blocks.
    """
    least = compute_lower_bound(case)
    above = least.activations - counted_bytes(case)
    rest = int(peak) - (least.total - least.activations) - max(0, above)
    return rest if rest > 0 else None


def recomputation(table: pd.DataFrame) -> Table:
    """Time of full recomputation, by framework and workload."""
    chosen = (
        (table["strategy"] == "checkpoint")
        & (table["scenario"] == "train")
        & (table["status"] == "ok")
    )
    checkpoint_rows = table[chosen & table["time_ratio"].notna()].sort_values(
        ["machine", "workload", "framework", "batch"]
    )
    checkpoint_rows = checkpoint_rows.assign(relative=format_time_ratios(checkpoint_rows))
    caption = (
        "Published: +39 % time for recomputing a whole layer of a 22 B-parameter GPT on A100 "
        "(Korthikanti et al. 2022, table 4). A forward pass is a third of a step's FLOPs, so +33 % "
        "is what counting gives. Ours: one device, small models, checkpoint / fp32; kernels that a "
        "processor runs at different speeds forward and backward move it either way. "
        f"{describe_timing(table)} {describe_conditions(checkpoint_rows)}"
    )
    shown = {
        name: TableColumn(name) for name in ("machine", "workload", "framework", "batch", "size")
    }
    shown["relative"] = TableColumn("time x fp32")
    return Table("Time of full recomputation", caption, checkpoint_rows, shown, left=3)


def mixed_precision_adam(parameters: int) -> int:
    """Return 16 bytes per parameter: the model states of Adam in mixed precision.

    They are those of Rajbhandari et al. 2020 (ZeRO), section 3.1.

    Parameters and gradients in 16 bits, 2 + 2; a copy of the parameters, momentum and variance in
    float32, 4 + 4 + 4. With autocast, as in the cases here, parameters and gradients stay in
    float32, 4 + 4, beside the two moments, 4 + 4: also 16.
    """
    return (2 + 2 + 4 + 4 + 4) * parameters


def states() -> Table:
    """ZeRO's 16 bytes per parameter against what our float32 cases hold."""
    rows = []
    for size in ("cpu", "full", "full-350m", "full-1b"):
        spec = case_named("transformer/torch/train/fp32/b1/cpu").workload_spec
        base = replace(
            case_named("transformer/torch/train/fp32/b1/cpu"),
            size=size,
            batch=spec.preset(size).base,
        )
        count = spec.parameter_count(base.config)
        least = compute_lower_bound(base)
        ours = least.parameters + least.optimizer + count * 4
        rows.append(
            (
                size,
                f"{count:,}",
                format_mib(mixed_precision_adam(count)),
                format_mib(ours),
                f"{ours / count:.1f}",
            )
        )
    caption = (
        "MiB (2^20 bytes) of model states with Adam. Published: 16 bytes per parameter in mixed "
        "precision, 2 + 2 for weights and gradients in 16 bits, 12 for the copy and two moments in "
        "float32 (Rajbhandari et al. 2020, ZeRO, section 3.1). Ours, in float32 without a copy: 4 "
        "for weights, 4 for gradients, 8 for moments, also 16; counted, not measured."
    )
    return Table.of_text(
        "States of Adam",
        caption,
        ("size", "parameters", "published", "ours", "bytes each"),
        tuple(rows),
        left=1,
    )


def comparisons(table: pd.DataFrame) -> list[Table]:
    """All of them; those that rest on records are empty without any."""
    return [speeds(table), activations(table), recomputation(table), states()]
