"""Peak rates of graphics cards, dense, in TFLOP/s (1e12), and what share of them a step used.

`source` names the data sheet in which to look a rate up. The sheets themselves were not at hand: in
November 2026 the rates were compared with published copies, of most cards two or more, and agree.
Copies of NVL cards disagree, so none is given. Sparse rates, which some sheets print alone, are
halved. Half precision is with float32 accumulation on tensor cores.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from framebench.analysis.flops import count_step_flops
from framebench.suite.case import Case


class Card(NamedTuple):
    """`tf32` is None where the card has no such units; a sheet's name is enough to find it."""

    pattern: str  # of NVML's and the frameworks' names
    fp32: float
    tf32: float | None
    half: float | None
    source: str


CARDS = (
    Card(r"V100-SXM2", 15.7, None, 125, "NVIDIA V100 datasheet, 2020"),
    Card(r"V100-PCIE", 14.0, None, 112, "NVIDIA V100 datasheet, 2020"),
    Card(r"\bT4\b", 8.1, None, 65, "NVIDIA T4 datasheet, 2019"),
    Card(r"A100", 19.5, 156, 312, "NVIDIA A100 datasheet, 2021"),
    Card(r"\bA10\b", 31.2, 62.5, 125, "NVIDIA A10 datasheet, 2021"),
    Card(r"\bL4\b", 30.3, 60, 121, "NVIDIA L4 datasheet, 2023"),
    Card(r"L40S", 91.6, 183, 362, "NVIDIA L40S datasheet, 2023"),
    Card(r"H100 PCIe", 51, 378, 756, "NVIDIA H100 datasheet, 2023"),
    Card(
        r"H[12]00(?! NVL)", 67, 494.5, 989.5, "NVIDIA H100 (SXM) and H200 datasheets, 2023 and 2024"
    ),
    Card(
        r"RTX 4090", 82.6, 82.6, 165.2, "NVIDIA Ada GPU architecture whitepaper, 2023, appendix A"
    ),
    Card(
        r"RTX 3090(?! Ti)",
        35.6,
        35.6,
        71,
        "NVIDIA GA102 GPU architecture whitepaper, 2021, appendix A",
    ),
)


def card(device: str | None) -> Card | None:
    """The card by the name that the driver gives it; None for one that is not in the table."""
    return next((c for c in CARDS if device and re.search(c.pattern, device)), None)


def peak_tflops(device: str | None, precision: str) -> float | None:
    """Of the units that a case's products run on: `tf32`, `fp16`, `bf16`, or strict float32."""
    specification = card(device)
    if specification is None:
        return None
    if precision == "bf16" and ("V100" in specification.pattern or "T4" in specification.pattern):
        return None  # before Ampere there are no units for it
    return {"tf32": specification.tf32, "fp16": specification.half, "bf16": specification.half}.get(
        precision, specification.fp32
    )


def utilisation(case: Case, step_s: float | None, device: str | None) -> float | None:
    """Model FLOPs utilisation: the step's operations by its time and the card's rate; None for an
    unknown card.
    """
    peak, work = peak_tflops(device, case.strategy_spec.precision), count_step_flops(case)
    return work / step_s / (peak * 1e12) if peak and work and step_s else None
