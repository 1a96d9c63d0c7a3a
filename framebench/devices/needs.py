"""What a job needs on a GPU or TPU that is not here: its prediction, the error that predictions
have, and the context.

Next to what a framework's allocator takes, a GPU holds the context: the driver's part of the
process and its loaded kernels. GPUs that others measured had 617 MiB to 1,343 MiB of it.
"""

from __future__ import annotations

from framebench.devices.catalog import CONTEXT, Device

# The share that a prediction may be off by. PyTorch: the error that nine of ten peaks that others
# measured are within (studies/published_peaks). JAX: more than a GPU of our own was off by at full
# size (studies/gpu_session).
ALLOWED = {"torch": 0.0789776, "jax": 0.08}


def context_of(device: Device) -> tuple[int, int]:
    """Return the bytes of a context on a device, at the least and at the most."""
    return CONTEXT if device.kind == "gpu" else (0, 0)


def estimate_needs(reserved: int, error: float, device: Device) -> int:
    """Return the bytes of the device's memory to plan with: enough wherever the prediction is off
    by no more than `error`.

    Args:
        reserved: Bytes that the framework is predicted to take.
        error: The share by which the prediction may be too low.
        device: The target device.
    """
    return round(reserved * (1 + error)) + context_of(device)[1]
