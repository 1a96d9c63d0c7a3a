"""Refuse a step of which the GPU decides when memory is free, unless it is to be bounded.

`Tensor.record_stream` tells the allocator that another stream uses a tensor, such as one that
copies it to the host. When the program drops the tensor, its block stays taken until that stream is
done. The step can be run twice to bound its memory: as if the stream were done at once, and as if
it were not before the step ends.
"""

from __future__ import annotations

from framebench.devices.simulation.scope import BY_TIMING
from framebench.devices.simulation.torch_choices import BoundedStep


class UnknownTiming(BoundedStep):
    """A step uses memory on another stream, so that what it reserves can only be bounded."""

    why_least = "its tensors, if each copy on another stream were done at once"
    why_most = (
        "what the allocator reserves, if no copy on another stream were done before the step ends, "
        "and all were then"
    )

    def __init__(self, line: str) -> None:
        """Remember the line of the program that records the stream; empty if none is known."""
        place = f" ({line})" if line else ""
        super().__init__(f"{BY_TIMING}{place}")
