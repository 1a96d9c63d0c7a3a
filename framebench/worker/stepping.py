"""One step and its clock."""

from __future__ import annotations

import time

from framebench.adapters.base import Adapter, Events


def timed_step(adapter: Adapter, events: Events | None = None, device_s: list[float] | None = None) -> float:
    """Wall-clock seconds of one whole step; those between its events on the device are added to `device_s`."""
    start = time.perf_counter()
    if events:
        events.start()
    adapter.step()
    if events:
        events.stop()
    adapter.synchronize()
    seconds = time.perf_counter() - start
    if events and device_s is not None:
        device_s.append(events.seconds())
    return seconds
