"""What `framebench doctor` found of a machine's instruments, as records have it."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict


class Calibration(BaseModel):
    """The test of this machine's instruments on known sizes and lengths: when, and what failed."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)
    measured_at: datetime
    passed: bool
    failed: list[str] = []
