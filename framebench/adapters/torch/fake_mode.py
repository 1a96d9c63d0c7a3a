"""Make tensors that have shapes and no numbers, in a mode that their copies share."""

from __future__ import annotations

from torch._subclasses.fake_tensor import FakeTensorMode


class SharedFakeMode(FakeTensorMode):
    """Make fake tensors whose deep copies belong to the same mode.

    `copy.deepcopy` of a fake tensor also copies its mode: PyTorch then refuses to compute with the
    copy and the original, and frees the weak references that a mode keeps to storages twice, which
    corrupts the heap. A program copies a model for a teacher, or for moving averages of weights.
    """

    def __deepcopy__(self, memo: object) -> SharedFakeMode:
        """Return the mode itself."""
        return self
