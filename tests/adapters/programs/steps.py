"""What programs of this folder compare of two adapters after the same steps."""

from __future__ import annotations

import numpy as np

from framebench.adapters.base import Adapter


def read_tensors(adapter: Adapter) -> dict[str, np.ndarray]:
    """Return the weights and the optimizer's states by name."""
    tensors = dict(adapter.weights())
    for state in adapter.states():
        tensors[f"{state.kind} {state.name}"] = state.array
    return tensors


def are_close(tensors: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> bool:
    """Return whether both have the same tensors, up to rounding."""
    if tensors.keys() != others.keys():
        return False
    return all(np.allclose(tensors[k], others[k], rtol=1e-4, atol=1e-7) for k in tensors)
