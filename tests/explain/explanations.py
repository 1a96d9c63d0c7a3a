"""Accounts of a step's peak by hand."""

from __future__ import annotations

from framebench.explain.record import Explanation

CASE = "unet3d/jax/train/fp32/b4/tiny"


def make_explanation(
    measured: dict[str, int],
    *holders: tuple[str, str, int],
    version: str = "0.10.2",
    case: str = CASE,
) -> Explanation:
    """Return a step in JAX whose peak has these bytes by layer and kind."""
    peak = sum(size for _, _, size in holders)
    rows = []
    for layer, kind, size in holders:
        rows.append({"kind": kind, "layer": layer, "phase": "forward", "bytes": size, "tensors": 1})
    return Explanation.model_validate(
        {
            "case": case,
            "how": "buffers",
            "measured": measured,
            "versions": {"jax": version},
            "device": "cpu",
            "timeline": [(0, peak, "forward")],
            "peak": {"event": 0, "bytes": peak, "phase": "forward"},
            "holders": rows,
        }
    )
