"""Make tensors that have shapes and no numbers, in a mode that their copies share."""

from __future__ import annotations

from torch._subclasses.fake_tensor import FakeTensorMode


def make_fake_mode(allow_non_fake_inputs: bool = False) -> FakeTensorMode:
    """Return a mode of fake tensors whose deep copies belong to the same mode.

    `copy.deepcopy` of a fake tensor also copies its mode: PyTorch then refuses to compute with the
    copy and the original, and frees the weak references that a mode keeps to storages twice, which
    corrupts the heap. A program copies a model for a teacher, or for moving averages of weights.

    It is no subclass, since PyTorch has the rules of operators of a higher order, such as those of
    integer products, for FakeTensorMode itself alone.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=allow_non_fake_inputs)

    def return_itself(memo: object) -> FakeTensorMode:
        return mode

    mode.__deepcopy__ = return_itself  # type: ignore[attr-defined]
    return mode
